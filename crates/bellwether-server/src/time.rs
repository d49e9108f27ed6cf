//! Wall-clock times as RFC 3339 texts with milliseconds, in UTC.

use bellwether_core::time::WallTime;

const DAY_MS: i64 = 24 * 3600 * 1000;
/// `0001-01-01T00:00:00.000Z` and `9999-12-31T23:59:59.999Z`: what RFC 3339 can write, without the
/// year zero that many readers refuse.
const RANGE_MS: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

/// The text of a time; `None` beyond the years that RFC 3339 can write.
pub(crate) fn format(ms: i64) -> Option<String> {
    if !RANGE_MS.contains(&ms) {
        return None;
    }
    let (year, month, day) = date_of(ms.div_euclid(DAY_MS));
    let rest = ms.rem_euclid(DAY_MS);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"))
}

/// The text of a wall time; the last one that can be written if it lies beyond.
pub(crate) fn of_wall(time: WallTime) -> String {
    let ms = i64::try_from(time.0).unwrap_or(i64::MAX).min(*RANGE_MS.end());
    format(ms).unwrap_or_default()
}

/// Reads a time with whatever offset and up to nine digits of a second; what is finer than a
/// millisecond is cut off.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let digits = |from: usize, len: usize| -> Option<i64> {
        let part = text.get(from..from + len)?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|b| wanted.contains(b));
    if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(5, 2)?, digits(8, 2)?);
    let (hour, minute, second) = (digits(11, 2)?, digits(14, 2)?, digits(17, 2)?);
    // A leap second is the first moment of the next minute, as on every clock of ours.
    if hour > 23 || minute > 59 || second > 60 || !(1..=12).contains(&month) {
        return None;
    }
    let mut at = 19;
    let mut milli = 0;
    if is(at, b".") {
        let len = bytes.get(at + 1..)?.iter().take_while(|b| b.is_ascii_digit()).count();
        if !(1..=9).contains(&len) {
            return None;
        }
        let kept = len.min(3);
        milli = digits(at + 1, kept)? * 10_i64.pow(3 - kept as u32);
        at += 1 + len;
    }
    let offset_ms = match text.get(at..)? {
        "Z" | "z" => 0,
        offset if offset.len() == 6 && is(at + 3, b":") => {
            let (hours, minutes) = (digits(at + 1, 2)?, digits(at + 4, 2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let ms = (hours * 60 + minutes) * 60_000;
            match bytes.get(at)? {
                b'+' => ms,
                b'-' => -ms,
                _ => return None,
            }
        }
        _ => return None,
    };
    let days = days_of(year, month, day);
    if date_of(days) != (year, month, day) {
        return None;
    }
    let ms = days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + milli - offset_ms;
    RANGE_MS.contains(&ms).then_some(ms)
}

/// Reads a time that a schedule can have: not before 1970.
pub(crate) fn parse_wall(text: &str) -> Option<WallTime> {
    parse(text).and_then(|ms| u64::try_from(ms).ok()).map(WallTime)
}

/// Days since 1970 of a date, in the calendar that begins its years in March: then the leap day is
/// the last of the year, and the months before it follow one rule.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_back_as_it_was_written() {
        for ms in [0, 951_782_400_000, 1_582_934_400_123, -1, *RANGE_MS.start(), *RANGE_MS.end()] {
            assert_eq!(parse(&format(ms).unwrap()), Some(ms), "{ms}");
        }
        for day in (-800_000_i64..800_000).step_by(97) {
            let (year, month, day_of_month) = date_of(day);
            assert_eq!(days_of(year, month, day_of_month), day);
        }
        assert_eq!(format(1_582_934_400_123).unwrap(), "2020-02-29T00:00:00.123Z");
        assert_eq!(format(*RANGE_MS.end() + 1), None);
    }

    #[test]
    fn offsets_and_fractions_are_understood() {
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse("1969-12-31t23:30:00.5-00:30"), Some(500));
        assert_eq!(parse("1970-01-01T00:00:00.123456789Z"), Some(123));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "2021-02-29T00:00:00Z",
            "1970-13-01T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00.1234567890Z",
            "1970-01-01T00:00:00+1:00",
            "+970-01-01T00:00:00Z",
            "1970-01-01T00:00:00Zé",
            "é970-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse_wall("1969-12-31T23:59:59Z"), None);
    }
}
