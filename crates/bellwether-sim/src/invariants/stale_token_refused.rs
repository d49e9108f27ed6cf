//! D5: whoever shows an old token is refused: after a later delivery, after the lock ran out, and
//! after the delivery was ended by another request.

use std::collections::BTreeMap;

use super::Invariant;
use super::lock_book::LockBook;
use super::volatile::Volatile;
use crate::history::{Key, Record, Token, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    book: LockBook,
    /// Deliveries that were ended, and by which request.
    ended: BTreeMap<Token, Key>,
    volatile: Volatile<Token>,
}

impl Check {
    fn accepted(&self, token: Token, applied_ms: u64) -> Result<(), String> {
        let Some(lock) = self.book.get(token.spot) else { return Ok(()) };
        if lock.token != token {
            let later = (lock.token.incarnation, lock.token.number)
                > (token.incarnation, token.number)
                && lock.said_ms < applied_ms;
            return if later {
                Err(format!("{token:?} was accepted although {:?} is newer", lock.token))
            } else {
                Ok(())
            };
        }
        if !lock.in_session && applied_ms > lock.until_max_ms {
            return Err(format!(
                "{token:?} was accepted at {applied_ms} ms, {} ms after it had run out",
                applied_ms - lock.until_max_ms
            ));
        }
        Ok(())
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "D5 stale_token_refused"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        for token in self.volatile.see(record) {
            self.ended.remove(&token);
        }
        match &record.what {
            What::Settled { key, token, ok: true, applied_ms, volatile, .. } => {
                if *volatile {
                    self.volatile.note(record, *token);
                }
                // The same request again says what it said: it is judged by its first time.
                match self.ended.get(token) {
                    Some(first) if first == key => {}
                    Some(first) => {
                        return Err(format!("{token:?} was ended by {first:?} and by {key:?}"));
                    }
                    None => {
                        self.ended.insert(*token, *key);
                        self.accepted(*token, *applied_ms)?;
                    }
                }
            }
            What::Renewed { token, ok: true, applied_ms, .. } => {
                self.accepted(*token, *applied_ms)?;
            }
            _ => {}
        }
        self.book.see(record);
        Ok(())
    }
}
