//! L3: a lock lasts as long as its queue says, from its grant and from every renewal: whoever
//! shows its token before that is not told that it is lost.

use super::Invariant;
use super::lock_book::{Basis, LockBook};
use crate::history::{Record, Token, What};
use crate::plan::Plan;

#[derive(Debug)]
pub(super) struct Check {
    book: LockBook,
    lock_ms: Vec<u64>,
}

impl Check {
    pub(super) fn new(plan: &Plan) -> Self {
        let lock_ms = plan.queues.iter().map(|queue| queue.settings.lock_ms.into()).collect();
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
            What::Delivered(delivery) => {
                let promised = self.lock_ms[usize::from(delivery.token.spot.queue)];
                if delivery.lock_ms != promised {
                    return Err(format!(
                        "{:?} is locked for {} ms, its queue says {promised} ms",
                        delivery.token, delivery.lock_ms
                    ));
                }
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
