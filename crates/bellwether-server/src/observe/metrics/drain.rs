//! How long until a queue is empty: what waits, by how fast it went lately.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bellwether_core::time::BootTime;

use super::rows::{Labelled, QueueRow};

/// The time that "lately" is at least; at most it is twice that, or from one look to the next but
/// one if those are rarer.
const WINDOW_MS_MIN: u64 = 10_000;

/// Remembers how many had left at two earlier looks, so that any number of people may look as often
/// as they like without making each other's windows short.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    looks: Mutex<Looks>,
}

#[derive(Debug, Default)]
struct Looks {
    older: Option<Look>,
    newer: Option<Look>,
}

#[derive(Debug)]
struct Look {
    at: BootTime,
    left: BTreeMap<String, u64>,
}

impl Drain {
    /// Says of each queue when it will be drained. Zero if nothing waits, infinite if something
    /// does and nothing went.
    pub(super) fn fill_in(&self, now: BootTime, queues: &mut Labelled<QueueRow>) {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = looks.newer.as_ref().is_none_or(|look| look.at.plus_ms(WINDOW_MS_MIN) <= now);
        if is_due {
            let left = queues.iter().map(|(name, row)| (name.to_owned(), row.left())).collect();
            looks.older = looks.newer.replace(Look { at: now, left });
        }
        for (name, row) in queues.iter_mut() {
            row.drained_in = if row.counts.ready == 0 {
                Some(0.0)
            } else {
                looks.older.as_ref().and_then(|look| look.drained_in(now, name, row))
            };
        }
    }
}

impl Look {
    fn drained_in(&self, now: BootTime, name: &str, row: &QueueRow) -> Option<f64> {
        // Fewer than before: another queue of the same name.
        let went = row.left().checked_sub(*self.left.get(name)?)?;
        let per_second = as_f64(went) * 1000.0 / as_f64(self.at.ms_until(now).max(1));
        Some(as_f64(row.counts.ready) / per_second)
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate; and such numbers are not counted to")]
pub(super) fn as_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellwether::stats::Activity;
    use bellwether_core::outcome::{Counts, Totals};

    fn drained_in(drain: &Drain, at_ms: u64, ready: u64, completed: u64) -> Option<f64> {
        let row = QueueRow {
            counts: Counts { ready, ..Counts::default() },
            totals: Totals { completed, ..Totals::default() },
            activity: Activity::default(),
            oldest_ready: None,
            outages: 0,
            drained_in: None,
        };
        let mut queues = Labelled::new(1);
        queues.add("orders", &row);
        drain.fill_in(BootTime(at_ms), &mut queues);
        queues.iter().next().and_then(|(_, row)| row.drained_in)
    }

    #[test]
    fn what_waits_by_how_fast_it_went_lately() {
        let drain = Drain::default();
        assert_eq!(drained_in(&drain, 0, 100, 0), None, "nothing is known yet");
        assert_eq!(drained_in(&drain, 0, 0, 0), Some(0.0), "nothing waits");
        assert_eq!(drained_in(&drain, 10_000, 100, 50), Some(20.0), "five a second");
        assert_eq!(drained_in(&drain, 10_001, 0, 50), Some(0.0));
        assert_eq!(drained_in(&drain, 20_000, 60, 50), Some(f64::INFINITY), "none in ten seconds");
        assert_eq!(drained_in(&drain, 30_000, 60, 20), None, "it was created anew");
    }
}
