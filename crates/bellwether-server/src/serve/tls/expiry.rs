//! Warns of the end of the server's own certificate before others notice it.

use bellwether_core::time::WallTime;

const DAY_S: u64 = 24 * 3600;
/// So long before.
const WARN_BEFORE_S: u64 = 14 * DAY_S;
/// Between two warnings of the same.
const WARN_EVERY_S: u64 = DAY_S;

/// What was said of it, and when.
#[derive(Debug, Default)]
pub(super) struct End {
    said: Option<(bool, u64)>,
}

impl End {
    /// What there is to say now, if anything, of a certificate with this last second.
    pub(super) fn look(&mut self, last_second: Option<u64>, now: WallTime) -> Option<String> {
        let now_s = now.0 / 1000;
        let last_second = last_second.filter(|last| *last < now_s + WARN_BEFORE_S);
        let Some(last_second) = last_second else {
            self.said = None;
            return None;
        };
        let is_over = last_second < now_s;
        let is_said = |(said, at_s)| said == is_over && now_s < at_s + WARN_EVERY_S;
        if self.said.is_some_and(is_said) {
            return None;
        }
        self.said = Some((is_over, now_s));
        Some(if is_over {
            "the server's certificate has expired: clients that verify it are turned away; put a \
             new one in its place, and it is read"
                .into()
        } else {
            let days = (last_second - now_s) / DAY_S;
            format!("the server's certificate expires in {days} days; put a new one in its place")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_before_it_comes_once_a_day_and_when_it_has_come() {
        let mut end = End::default();
        let at = |seconds: u64| WallTime(seconds * 1000);
        let last = Some(100 * DAY_S);
        assert_eq!(end.look(None, at(0)), None);
        assert_eq!(end.look(last, at(86 * DAY_S)), None);
        let soon = end.look(last, at(86 * DAY_S + 1)).unwrap();
        assert!(soon.contains("in 13 days"), "{soon}");
        assert_eq!(end.look(last, at(87 * DAY_S)), None, "it was said");
        assert!(end.look(last, at(87 * DAY_S + 1)).is_some(), "a day ago");
        assert!(end.look(last, at(100 * DAY_S)).unwrap().contains("in 0 days"), "its last second");
        assert!(end.look(last, at(100 * DAY_S + 1)).unwrap().contains("has expired"));
        assert_eq!(end.look(last, at(100 * DAY_S + 2)), None);
        assert_eq!(end.look(Some(200 * DAY_S), at(101 * DAY_S)), None, "there is a new one");
        assert!(end.look(last, at(101 * DAY_S)).is_some(), "and the old one again");
    }
}
