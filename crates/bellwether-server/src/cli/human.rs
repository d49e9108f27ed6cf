//! Durations, sizes and times as people write and read them.

use std::fmt;
use std::time::Duration;

use bellwether::core::time::WallTime;

use crate::time;

const UNITS: [(&str, u64); 6] = [
    ("d", 24 * 3600 * 1000),
    ("h", 3600 * 1000),
    ("ms", 1),
    ("m", 60 * 1000),
    ("s", 1000),
    ("w", 7 * 24 * 3600 * 1000),
];

const SIZES: [(&str, u64); 9] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
];

const DAY_MS: u64 = 24 * 3600 * 1000;

/// A duration: `500ms`, `30s`, `5m`, `2h30m`, `7d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = |why: String| format!("{why}; write a duration like 500ms, 30s, 5m, 2h30m or 7d");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong("it is empty".into()));
    }
    let mut total_ms: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        if number.is_empty() {
            return Err(wrong(format!("{rest:?} does not begin with a whole number")));
        }
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if unit.is_empty() {
            return Err(wrong(format!("{number:?} has no unit")));
        }
        let known = UNITS.iter().find(|(name, _)| *name == unit.trim());
        let (_, unit_ms) =
            known.ok_or_else(|| wrong(format!("{:?} is not a unit of time", unit.trim())))?;
        let ms = number.parse::<u64>().ok().and_then(|n| n.checked_mul(*unit_ms));
        total_ms = ms
            .and_then(|ms| total_ms.checked_add(ms))
            .ok_or_else(|| wrong("it is too long".into()))?;
        rest = after;
    }
    Ok(Duration::from_millis(total_ms))
}

/// A size: `512`, `64kB`, `10MiB`, `80GiB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = |why: &str| format!("{why}; write a size like 512, 64kB, 10MiB or 80GiB");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong("it does not begin with a whole number"))?;
    let unit = unit.trim().to_ascii_lowercase();
    let bytes = match unit.as_str() {
        "" => 1,
        unit => {
            let known = SIZES.iter().find(|(name, _)| *name == unit);
            known.ok_or_else(|| wrong("its unit is not known"))?.1
        }
    };
    number.checked_mul(bytes).ok_or_else(|| wrong("it is too large"))
}

/// A time: RFC 3339, or from now as in `+5m`. The time of reading is added when it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// A wall-clock time.
    At(WallTime),
    /// So long from now.
    In(Duration),
    /// So long ago.
    Ago(Duration),
}

impl When {
    pub(crate) fn wall(self, now: WallTime) -> WallTime {
        match self {
            Self::At(time) => time,
            Self::In(wait) => now.plus_ms(ms(wait)),
            Self::Ago(age) => WallTime(now.0.saturating_sub(ms(age))),
        }
    }
}

/// A time: RFC 3339, `+5m` from now, `-5m` or `5m ago`.
pub(crate) fn parse_when(text: &str) -> Result<When, String> {
    let text = text.trim();
    if let Some(wait) = text.strip_prefix('+') {
        return parse_duration(wait).map(When::In);
    }
    if let Some(age) = text.strip_prefix('-').or_else(|| text.strip_suffix(" ago")) {
        return parse_duration(age).map(When::Ago);
    }
    parse_rfc3339(text).map(When::At).ok_or_else(|| {
        "it is not a time; write one like 2026-01-31T09:00:00Z, +5m (from now) or -5m (ago)".into()
    })
}

/// An RFC 3339 time, or the beginning of one: a day, a minute. UTC if no offset is given.
pub(crate) fn parse_rfc3339(text: &str) -> Option<WallTime> {
    let (day, clock) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00"));
    let (clock, offset) = match clock.find(['Z', 'z', '+', '-']) {
        Some(at) => clock.split_at(at),
        None => (clock, "Z"),
    };
    let seconds = if clock.len() == "00:00".len() { ":00" } else { "" };
    time::parse_wall(&format!("{day}T{clock}{seconds}{offset}"))
}

/// Whole milliseconds; what is longer than any is the longest.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A duration in milliseconds, in at most two units; the longest there is is for ever.
pub(crate) struct Span(pub(crate) u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        let (day, hour, minute) = (DAY_MS, 3_600_000, 60_000);
        let two = |f: &mut fmt::Formatter<'_>, first: u64, name: &str, rest: u64, below: &str| {
            if rest == 0 {
                write!(f, "{first}{name}")
            } else {
                write!(f, "{first}{name}{rest}{below}")
            }
        };
        match ms {
            u64::MAX => f.write_str("forever"),
            ms if ms >= day => two(f, ms / day, "d", ms % day / hour, "h"),
            ms if ms >= hour => two(f, ms / hour, "h", ms % hour / minute, "m"),
            ms if ms >= minute => two(f, ms / minute, "m", ms % minute / 1000, "s"),
            ms if ms >= 1000 && ms % 1000 == 0 => write!(f, "{}s", ms / 1000),
            ms if ms >= 1000 => write!(f, "{}.{}s", ms / 1000, ms % 1000 / 100),
            ms => write!(f, "{ms}ms"),
        }
    }
}

/// So many of something: `1 message`, `2 messages`.
pub(crate) fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// A size in bytes, in the largest unit it fills.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        for (name, unit) in
            [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
        {
            if bytes >= unit {
                let tenths = u128::from(bytes) * 10 / u128::from(unit);
                return match tenths % 10 {
                    0 => write!(f, "{} {name}", tenths / 10),
                    tenth => write!(f, "{}.{tenth} {name}", tenths / 10),
                };
            }
        }
        write!(f, "{bytes} B")
    }
}

/// A wall-clock time, as UTC.
pub(crate) struct Wall(pub(crate) WallTime);

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.0;
        match i64::try_from(ms).ok().and_then(time::format) {
            Some(text) => f.write_str(&text),
            None => write!(f, "{ms}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_utc_and_read_back() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_767_225_600_000, "2026-01-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Wall(WallTime(ms)).to_string(), text);
            assert_eq!(parse_rfc3339(text), Some(WallTime(ms)), "{text}");
        }
        assert_eq!(Wall(WallTime(u64::MAX)).to_string(), "18446744073709551615");
    }

    #[test]
    fn times_have_offsets_and_days_have_ends() {
        let nine = parse_rfc3339("2026-01-31T09:00:00Z");
        assert_eq!(parse_rfc3339("2026-01-31T10:30:00+01:30"), nine);
        assert_eq!(parse_rfc3339("2026-01-31 09:00"), nine);
        assert_eq!(parse_rfc3339("2026-01-31"), parse_rfc3339("2026-01-31T00:00:00.0Z"));
        for wrong in ["2026-02-29", "2026-13-01", "2026-1-1", "09:00", "2026-01-31T24:00Z", "x"] {
            assert_eq!(parse_rfc3339(wrong), None, "{wrong}");
        }
        assert_eq!(parse_when("+5m"), Ok(When::In(Duration::from_secs(300))));
        assert_eq!(parse_when("5m ago"), Ok(When::Ago(Duration::from_secs(300))));
    }

    #[test]
    fn durations_are_read_and_shown() {
        for (text, ms, shown) in [
            ("500ms", 500, "500ms"),
            ("30s", 30_000, "30s"),
            ("90s", 90_000, "1m30s"),
            ("2h30m", 9_000_000, "2h30m"),
            ("1h 30m", 5_400_000, "1h30m"),
            ("7d", 604_800_000, "7d"),
            ("1s500ms", 1500, "1.5s"),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
            assert_eq!(Span(ms).to_string(), shown);
        }
        for (wrong, why) in [
            ("30", "\"30\" has no unit"),
            ("", "it is empty"),
            ("5 minutes", "\"minutes\" is not a unit of time"),
            ("-5s", "\"-5s\" does not begin"),
            ("99999999999999999999d", "it is too long"),
        ] {
            let told = parse_duration(wrong).unwrap_err();
            assert!(told.starts_with(why) && told.contains("2h30m"), "{wrong}: {told}");
        }
        assert_eq!(Span(u64::MAX).to_string(), "forever");
    }

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes, shown) in [
            ("512", 512, "512 B"),
            ("64kB", 64_000, "62.5 KiB"),
            ("10MiB", 10 << 20, "10 MiB"),
            ("80 GiB", 80 << 30, "80 GiB"),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            assert_eq!(Size(bytes).to_string(), shown);
        }
        for wrong in ["", "10XB", "99999999TiB", "MB"] {
            assert!(parse_size(wrong).unwrap_err().contains("80GiB"), "{wrong}");
        }
    }
}
