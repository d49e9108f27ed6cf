//! L1: at most one delivery of a message stands at any time: the next is handed out only after the
//! one before it ended or ran out.

use super::Invariant;
use super::lock_book::{Basis, LockBook};
use crate::history::{Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    book: LockBook,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "L1 one_lock_at_a_time"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        if let What::Delivered(delivery) = &record.what
            && let Some(lock) = self.book.get(delivery.token.spot)
        {
            let stands = lock.token != delivery.token
                && !lock.unsure
                && !lock.in_session
                && lock.settled == 0
                && lock.basis != Basis::Restarted
                && delivery.granted_ms < lock.until_min_ms;
            if stands {
                return Err(format!(
                    "{:?} was handed out at {} ms while {:?} holds until {} ms",
                    delivery.token, delivery.granted_ms, lock.token, lock.until_min_ms
                ));
            }
        }
        if let What::Removed { known, .. } = &record.what {
            let stands = |spot| {
                self.book.get(spot).filter(|lock| {
                    !lock.unsure
                        && !lock.in_session
                        && lock.settled == 0
                        && record.at_ms < lock.until_min_ms
                })
            };
            if let Some(lock) = known.iter().find_map(|(spot, _)| stands(*spot)) {
                return Err(format!("{:?} holds and its message was received", lock.token));
            }
        }
        self.book.see(record);
        Ok(())
    }
}
