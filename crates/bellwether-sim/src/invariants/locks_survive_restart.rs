//! L4: after a restart a recorded delivery keeps its token and gets a full duration. A power cut
//! may lose those that were not flushed.

use super::Invariant;
use super::lock_book::{Basis, LockBook};
use crate::history::{Record, Token, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    book: LockBook,
}

impl Check {
    fn stands(&self, token: Token, settlements: u32, at_ms: u64) -> Option<u64> {
        let lock = self.book.current(token)?;
        let stands = !lock.unsure
            && !lock.in_session
            && lock.basis == Basis::Restarted
            && lock.settled == settlements
            && at_ms < lock.until_min_ms;
        stands.then_some(lock.until_min_ms)
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "L4 locks_survive_restart"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        let lost = match &record.what {
            What::Delivered(delivery) => {
                let old = self.book.get(delivery.token.spot).map(|lock| lock.token);
                old.filter(|old| *old != delivery.token)
                    .and_then(|old| Some((old, self.stands(old, 0, delivery.granted_ms)?)))
            }
            What::Settled { token, ok: false, lock_lost: true, applied_ms, .. } => {
                self.stands(*token, 1, *applied_ms).map(|until| (*token, until))
            }
            What::Renewed { token, ok: false, lock_lost: true, applied_ms } => {
                self.stands(*token, 0, *applied_ms).map(|until| (*token, until))
            }
            _ => None,
        };
        self.book.see(record);
        match lost {
            Some((token, until)) => {
                Err(format!("{token:?} was lost although it holds until {until} ms"))
            }
            None => Ok(()),
        }
    }
}
