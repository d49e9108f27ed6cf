//! L3: a lock lasts as long as its queue says, from its grant and from every renewal: whoever
//! shows its token before that is not told that it is lost.

use std::collections::BTreeSet;

use super::Invariant;
use super::lock_book::{Basis, LockBook};
use crate::history::{Cell, Record, Token, What};
use crate::plan::{Mood, Plan, QueuePlan};

#[derive(Debug)]
pub(super) struct Check {
    book: LockBook,
    /// By queue: what it has ever been told to lock for.
    lock_ms: Vec<BTreeSet<u64>>,
}

impl Check {
    pub(super) fn new(plan: &Plan) -> Self {
        let lock_ms = |queue: &QueuePlan| BTreeSet::from([queue.settings.lock_ms.into()]);
        let lock_ms = plan.queues.iter().map(lock_ms).collect();
        Self { book: LockBook::default(), lock_ms }
    }

    fn refused(&self, token: Token, settlements: u32, applied_ms: u64) -> Result<(), String> {
        let Some(lock) = self.book.current(token) else { return Ok(()) };
        let early = !lock.unsure
            && !lock.in_session
            && lock.basis != Basis::Restarted
            && lock.settled == settlements
            && applied_ms < lock.until_min_ms;
        if early {
            return Err(format!(
                "{token:?} was called lost at {applied_ms} ms and holds until {} ms",
                lock.until_min_ms
            ));
        }
        Ok(())
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "L3 no_lock_expires_early"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            // Told again, it may have been renewed for another duration.
            What::Delivered(delivery) if self.book.current(delivery.token).is_none() => {
                let told = &self.lock_ms[usize::from(delivery.token.spot.queue)];
                let as_told = told.contains(&delivery.lock_ms);
                if delivery.wanted_ms.map_or(!as_told, |wanted| wanted != delivery.lock_ms) {
                    return Err(format!(
                        "{:?} is locked for {} ms, its queue says {told:?}",
                        delivery.token, delivery.lock_ms
                    ));
                }
            }
            What::CellApplied { cell: Cell::Mood { queue }, value, .. } => {
                self.lock_ms[usize::from(*queue)].insert(Mood::lock_ms(*value));
            }
            // Its own settlement is the only one.
            What::Settled { token, ok: false, lock_lost: true, applied_ms, .. } => {
                self.refused(*token, 1, *applied_ms)?;
            }
            What::Renewed { token, ok: false, lock_lost: true, applied_ms } => {
                self.refused(*token, 0, *applied_ms)?;
            }
            _ => {}
        }
        self.book.see(record);
        Ok(())
    }
}
