//! When a schedule is due: a rule in words, and the next time after another.
//!
//! ```text
//!   */15 8-18 * * MON-FRI     minute hour day month weekday, in a time zone
//!   30 0 8 * * *              with seconds before them
//!   @hourly                   a word for a rule
//!   every 90s                 so long after the last time, counted from when it was created
//! ```
//!
//! A rule is a pure function from an instant to the next one. Clocks on the wall are put forward and
//! back: a time that the clock leaps over is due when it has leapt, and a time that it shows twice is
//! due the first time.

use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::limits;
use crate::time::WallTime;

/// A rule that was read.
#[derive(Clone, Debug)]
pub enum Rule {
    /// So many milliseconds after the last time.
    Every(u64),
    /// At these times of the clock on the wall.
    Calendar(Box<Calendar>),
}

/// Times of the clock on the wall somewhere.
#[derive(Clone, Debug)]
pub struct Calendar {
    fields: Fields,
    zone: TimeZone,
}

/// Which values each field allows, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Both days and weekdays were restricted: then either is enough.
    either_day: bool,
}

const MONTHS: &[&str] =
    &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A leap year may be eight years away, around a century that has none.
const YEARS_AHEAD: i16 = 9;

impl Rule {
    /// Reads a rule, or says what is wrong with it.
    pub fn parse(text: &str, zone: &str) -> Result<Self, String> {
        if let Some(every) = text.strip_prefix("every ") {
            return parse_every(every.trim()).map(Self::Every);
        }
        let zone = TimeZoneDatabase::bundled().get(zone).map_err(|_| {
            format!("there is no time zone {zone:?}; name one as in Europe/Berlin, or UTC")
        })?;
        let fields = Fields::parse(text)?;
        if fields.next(DateTime::constant(2023, 12, 31, 23, 59, 59, 0)).is_none() {
            return Err(format!("{text:?} never comes: no month has such a day"));
        }
        Ok(Self::Calendar(Box::new(Calendar { fields, zone })))
    }

    /// The first time after this one; `None` at the end of all time.
    pub fn next(&self, anchor: WallTime, after: WallTime) -> Option<WallTime> {
        match self {
            Self::Every(ms) => {
                let passed = after.0.checked_sub(anchor.0).map_or(0, |since| since / ms + 1);
                Some(WallTime(anchor.0.checked_add(passed.checked_mul(*ms)?)?))
            }
            Self::Calendar(calendar) => calendar.next(after),
        }
    }
}

fn parse_every(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("{text:?} is no duration; write one as in 90s, 15m, 6h or 1d")),
    };
    let ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    let (min, max) = (limits::EVERY_MS_MIN, limits::EVERY_MS_MAX);
    ms.filter(|ms| (min..=max).contains(ms))
        .ok_or_else(|| format!("{text:?} is not between {min} ms and {max} ms"))
}

impl Calendar {
    fn next(&self, after: WallTime) -> Option<WallTime> {
        let instant = Timestamp::from_millisecond(i64::try_from(after.0).ok()?).ok()?;
        let mut local = self.zone.to_datetime(instant);
        loop {
            local = self.fields.next(local)?;
            let due = self.instant(local)?;
            // Of a time that the clock shows twice the first may be over.
            if due > instant {
                return u64::try_from(due.as_millisecond()).ok().map(WallTime);
            }
        }
    }

    /// When the clock shows this: for the first time, or when it has leapt over it.
    fn instant(&self, local: DateTime) -> Option<Timestamp> {
        let shown = self.zone.to_ambiguous_timestamp(local);
        let first = shown.earlier().ok()?;
        if self.zone.to_datetime(first) == local {
            return Some(first);
        }
        self.zone.following(first).next().map(|leap| leap.timestamp())
    }
}

impl Fields {
    fn parse(text: &str) -> Result<Self, String> {
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (seconds, rest) = match words[..] {
            [minute, hour, day, month, weekday] => ("0", [minute, hour, day, month, weekday]),
            [second, minute, hour, day, month, weekday] => {
                (second, [minute, hour, day, month, weekday])
            }
            _ => {
                let found = words.len();
                return Err(format!(
                    "a rule has five fields, minute hour day month weekday, or six with the second \
                     before them; {text:?} has {found}"
                ));
            }
        };
        let [minutes, hours, days, months, weekdays] = rest;
        let mut weekday_bits = field("weekday", weekdays, 0, 7, WEEKDAYS, 0)?;
        // Sunday is 0, and also 7.
        weekday_bits = (weekday_bits | (weekday_bits >> 7 & 1)) & 0x7f;
        Ok(Self {
            seconds: field("second", seconds, 0, 59, &[], 0)?,
            minutes: field("minute", minutes, 0, 59, &[], 0)?,
            hours: field("hour", hours, 0, 23, &[], 0)?,
            days: field("day", days, 1, 31, &[], 0)?,
            months: field("month", months, 1, 12, MONTHS, 1)?,
            weekdays: weekday_bits,
            either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
        })
    }

    fn has_day(&self, at: DateTime) -> bool {
        let day = self.days >> at.day() & 1 != 0;
        let weekday = self.weekdays >> at.weekday().to_sunday_zero_offset() & 1 != 0;
        if self.either_day { day || weekday } else { day && weekday }
    }

    /// The first time after this one that all fields allow.
    fn next(&self, after: DateTime) -> Option<DateTime> {
        let mut at = after.with().subsec_nanosecond(0).build().ok()?;
        at = at.checked_add(jiff::Span::new().seconds(1)).ok()?;
        let last_year = at.year().saturating_add(YEARS_AHEAD);
        while at.year() <= last_year {
            if self.months >> at.month() & 1 == 0 {
                let first = at.date().first_of_month();
                at = first
                    .checked_add(jiff::Span::new().months(1))
                    .ok()?
                    .to_datetime(Time::midnight());
            } else if !self.has_day(at) {
                at = at.date().tomorrow().ok()?.to_datetime(Time::midnight());
            } else if let Some(time) = self.time_from(at.time()) {
                return Some(at.date().to_datetime(time));
            } else {
                at = at.date().tomorrow().ok()?.to_datetime(Time::midnight());
            }
        }
        None
    }

    /// The first time of a day, from this one on.
    fn time_from(&self, from: Time) -> Option<Time> {
        let (h, m, s) = (from.hour(), from.minute(), from.second());
        let hour = first_from(self.hours, h)?;
        if hour > h {
            return self.first_in(hour);
        }
        let later = || first_from(self.hours, h + 1).and_then(|hour| self.first_in(hour));
        let Some(minute) = first_from(self.minutes, m) else { return later() };
        if minute == m
            && let Some(second) = first_from(self.seconds, s)
        {
            return Time::new(hour, minute, second, 0).ok();
        }
        let minute = if minute == m { first_from(self.minutes, m + 1) } else { Some(minute) };
        match minute {
            Some(minute) => Time::new(hour, minute, first_from(self.seconds, 0)?, 0).ok(),
            None => later(),
        }
    }

    fn first_in(&self, hour: i8) -> Option<Time> {
        let minute = first_from(self.minutes, 0)?;
        Time::new(hour, minute, first_from(self.seconds, 0)?, 0).ok()
    }
}

/// The lowest value from this one on that is allowed.
fn first_from(bits: u64, from: i8) -> Option<i8> {
    let rest = bits.checked_shr(u32::try_from(from).ok()?)?;
    (rest != 0).then(|| from + rest.trailing_zeros() as i8)
}

/// The values one field allows.
fn field(
    what: &str,
    text: &str,
    min: u32,
    max: u32,
    names: &[&str],
    first_name: u32,
) -> Result<u64, String> {
    let wrong = |why: &str| Err(format!("the {what} {text:?} {why}; it has {min} to {max}"));
    let value = |word: &str| {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(word));
        let value = named.map(|nth| nth as u32 + first_name).or_else(|| word.parse().ok());
        value.filter(|value| (min..=max).contains(value))
    };
    let mut bits = 0u64;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|step| *step > 0)),
            None => (part, Some(1)),
        };
        let Some(step) = step else { return wrong("has a step that is no number from 1 on") };
        let ends = match range.split_once('-') {
            _ if range == "*" => Some((min, max)),
            Some((first, last)) => value(first).zip(value(last)),
            // With a step it goes on to the end.
            None if part.contains('/') => value(range).map(|first| (first, max)),
            None => value(range).map(|only| (only, only)),
        };
        match ends {
            Some((first, last)) if first <= last => {
                (first..=last).step_by(step as usize).for_each(|value| bits |= 1 << value);
            }
            Some(_) => return wrong("has a range that ends before it begins"),
            None => return wrong("has a value that is none"),
        }
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> WallTime {
        let instant: Timestamp = text.parse().unwrap();
        WallTime(u64::try_from(instant.as_millisecond()).unwrap())
    }

    /// The next times after one, as the zone's clock shows them.
    fn next(rule: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let read = Rule::parse(rule, zone).unwrap();
        let zone = TimeZoneDatabase::bundled().get(zone).unwrap();
        let mut after = at(after);
        let mut shown = Vec::new();
        for _ in 0..count {
            after = read.next(WallTime(0), after).unwrap();
            let instant = Timestamp::from_millisecond(after.0.cast_signed()).unwrap();
            let zoned = instant.to_zoned(zone.clone());
            shown.push(zoned.strftime("%a %F %T %Z").to_string());
        }
        shown
    }

    #[test]
    fn rules_are_what_they_say() {
        let cases: &[(&str, &[&str])] = &[
            ("*/20 * * * *", &["Thu 2026-01-01 00:20:00 UTC", "Thu 2026-01-01 00:40:00 UTC"]),
            ("@hourly", &["Thu 2026-01-01 01:00:00 UTC", "Thu 2026-01-01 02:00:00 UTC"]),
            ("@daily", &["Fri 2026-01-02 00:00:00 UTC", "Sat 2026-01-03 00:00:00 UTC"]),
            ("@weekly", &["Sun 2026-01-04 00:00:00 UTC", "Sun 2026-01-11 00:00:00 UTC"]),
            ("@monthly", &["Sun 2026-02-01 00:00:00 UTC", "Sun 2026-03-01 00:00:00 UTC"]),
            ("@yearly", &["Fri 2027-01-01 00:00:00 UTC", "Sat 2028-01-01 00:00:00 UTC"]),
            (
                "15,45 8 * * mon-fri",
                &["Thu 2026-01-01 08:15:00 UTC", "Thu 2026-01-01 08:45:00 UTC"],
            ),
            ("0 9-17/4 * * *", &["Thu 2026-01-01 09:00:00 UTC", "Thu 2026-01-01 13:00:00 UTC"]),
            ("50/5 23 * * *", &["Thu 2026-01-01 23:50:00 UTC", "Thu 2026-01-01 23:55:00 UTC"]),
            ("30 0 8 * * *", &["Thu 2026-01-01 08:00:30 UTC", "Fri 2026-01-02 08:00:30 UTC"]),
            (
                "10-11 59 23 31 DEC *",
                &["Thu 2026-12-31 23:59:10 UTC", "Thu 2026-12-31 23:59:11 UTC"],
            ),
            // Either of the two, if both are said.
            ("0 0 13 * 5", &["Fri 2026-01-02 00:00:00 UTC", "Fri 2026-01-09 00:00:00 UTC"]),
            ("0 0 * * 7", &["Sun 2026-01-04 00:00:00 UTC", "Sun 2026-01-11 00:00:00 UTC"]),
            ("0 0 31 * *", &["Sat 2026-01-31 00:00:00 UTC", "Tue 2026-03-31 00:00:00 UTC"]),
            ("0 0 29 2 *", &["Tue 2028-02-29 00:00:00 UTC", "Sun 2032-02-29 00:00:00 UTC"]),
        ];
        for (rule, wanted) in cases {
            assert_eq!(next(rule, "UTC", "2026-01-01T00:00:00Z", 2), *wanted, "{rule}");
        }
    }

    /// Europe/Berlin leaps from 02:00 to 03:00 on 2026-03-29, and shows 02:00 to 03:00 twice on
    /// 2026-10-25.
    #[test]
    fn a_time_that_is_leapt_over_is_due_when_the_clock_has_leapt() {
        let half_past = next("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
        assert_eq!(half_past, ["Sun 2026-03-29 03:00:00 CEST", "Mon 2026-03-30 02:30:00 CEST"]);
        // However many are leapt over, it is one moment; and the one that is due then anyway is it.
        let often = next("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:29:00Z", 4);
        let wanted = ["01:30:00 CET", "03:00:00 CEST", "03:30:00 CEST", "04:00:00 CEST"];
        assert_eq!(often, wanted.map(|time| format!("Sun 2026-03-29 {time}")));
        let york = next("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", 2);
        assert_eq!(york, ["Sun 2026-03-08 03:00:00 EDT", "Mon 2026-03-09 02:30:00 EDT"]);
    }

    #[test]
    fn a_time_that_is_shown_twice_is_due_once() {
        let half_past = next("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
        assert_eq!(half_past, ["Sun 2026-10-25 02:30:00 CEST", "Mon 2026-10-26 02:30:00 CET"]);
        let york = next("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 2);
        assert_eq!(york, ["Sun 2026-11-01 01:30:00 EDT", "Mon 2026-11-02 01:30:00 EST"]);
        // Asked in the middle of the second time: those of the first are over.
        let second = next("*/30 * * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1);
        assert_eq!(second, ["Sun 2026-10-25 03:00:00 CET"]);
    }

    #[test]
    fn every_counts_from_its_beginning() {
        let rule = Rule::parse("every 90s", "").unwrap();
        let next = |after| rule.next(WallTime(1_000), WallTime(after)).map(|at| at.0);
        assert_eq!(next(0), Some(1_000));
        assert_eq!(next(1_000), Some(91_000));
        assert_eq!(next(90_999), Some(91_000));
        assert_eq!(next(91_000), Some(181_000));
        assert_eq!(next(u64::MAX), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        let cases = [
            ("", "five fields"),
            ("* * * *", "has 4"),
            ("60 * * * *", "the minute \"60\""),
            ("* * 0 * *", "the day \"0\""),
            ("* * * 13 *", "the month \"13\""),
            ("* * * * 8", "the weekday \"8\""),
            ("5-1 * * * *", "ends before it begins"),
            ("*/0 * * * *", "a step that is no number"),
            ("1,,2 * * * *", "a value that is none"),
            ("0 0 L * *", "a value that is none"),
            ("0 0 30 2 *", "never comes"),
            ("@reboot", "five fields"),
            ("every 1", "no duration"),
            ("every 0s", "is not between"),
            ("every 99999999999999999999d", "is not between"),
        ];
        for (rule, why) in cases {
            let said = Rule::parse(rule, "UTC").unwrap_err();
            assert!(said.contains(why), "{rule:?}: {said}");
        }
        let said = Rule::parse("@daily", "Mars/Olympus").unwrap_err();
        assert!(said.contains("no time zone"), "{said}");
    }

    /// Against a search that tries every minute.
    #[test]
    fn the_next_time_is_the_first_one() {
        let rules = ["7 */5 * * *", "*/13 2-4 * * 0", "0 0 1,15 * 3", "59 23 28-31 * *"];
        for rule in rules {
            let Rule::Calendar(calendar) = Rule::parse(rule, "UTC").unwrap() else { panic!() };
            let mut after = DateTime::constant(2026, 2, 20, 1, 30, 0, 0);
            for _ in 0..40 {
                let found = calendar.fields.next(after).unwrap();
                let mut slow = after;
                loop {
                    slow = slow.checked_add(jiff::Span::new().minutes(1)).unwrap();
                    let fields = &calendar.fields;
                    let allows = |bits: u64, value: i8| bits >> value & 1 != 0;
                    if allows(fields.minutes, slow.minute())
                        && allows(fields.hours, slow.hour())
                        && allows(fields.months, slow.month())
                        && fields.has_day(slow)
                    {
                        break;
                    }
                }
                assert_eq!(found, slow, "{rule} after {after}");
                after = found;
            }
        }
    }
}
