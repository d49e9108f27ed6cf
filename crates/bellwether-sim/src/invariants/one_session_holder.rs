//! L7: a session has one holder at a time, a hold's token is given to one request, and whoever
//! held before gets nothing more. A hold lasts as long as it says, and survives restarts.

use std::collections::BTreeMap;

use super::Invariant;
use crate::history::{Hold, Key, Queue, Record, What};

#[derive(Clone, Copy, Debug)]
struct Current {
    hold: Hold,
    said_ms: u64,
    lock_ms: u64,
    until_min_ms: u64,
    closing: bool,
}

#[derive(Debug, Default)]
pub(super) struct Check {
    given_to: BTreeMap<Hold, Key>,
    current: BTreeMap<(Queue, u8), Current>,
}

impl Check {
    fn current(&mut self, hold: Hold) -> Option<&mut Current> {
        self.current.get_mut(&(hold.queue, hold.session)).filter(|current| current.hold == hold)
    }

    fn held(&mut self, record: &Record, hold: Hold, key: Key, new: Current) -> Result<(), String> {
        match self.given_to.insert(hold, key) {
            Some(first) if first == key => return Ok(()),
            Some(first) => return Err(format!("{hold:?} was given to {first:?} and to {key:?}")),
            None => {}
        }
        let old = self.current.insert((hold.queue, hold.session), new);
        match old.filter(|old| !old.closing && record.at_ms < old.until_min_ms) {
            Some(old) => Err(format!(
                "{hold:?} was given out while {:?} holds until {} ms",
                old.hold, old.until_min_ms
            )),
            None => Ok(()),
        }
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "L7 one_session_holder"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::Held { hold, key, lock_ms, applied_ms } => {
                let until_min_ms = applied_ms + lock_ms;
                let new = Current {
                    hold: *hold,
                    said_ms: record.at_ms,
                    lock_ms: *lock_ms,
                    until_min_ms,
                    closing: false,
                };
                self.held(record, *hold, *key, new)?;
            }
            What::HoldRenewed { hold, ok: true, applied_ms } => {
                let newest = self.current.get(&(hold.queue, hold.session));
                if let Some(newest) = newest.filter(|n| n.hold != *hold && n.said_ms < *applied_ms)
                {
                    return Err(format!("{hold:?} was renewed after {:?}", newest.hold));
                }
                if let Some(current) = self.current(*hold) {
                    current.until_min_ms = current.until_min_ms.max(applied_ms + current.lock_ms);
                }
            }
            What::HoldRefused { hold, applied_ms }
            | What::HoldRenewed { hold, ok: false, applied_ms } => {
                let current = self.current(*hold).copied();
                if let Some(current) =
                    current.filter(|c| !c.closing && *applied_ms < c.until_min_ms)
                {
                    return Err(format!(
                        "{hold:?} was called lost at {applied_ms} ms and holds until {} ms",
                        current.until_min_ms
                    ));
                }
            }
            What::HoldClosing { hold } => {
                if let Some(current) = self.current(*hold) {
                    current.closing = true;
                }
            }
            What::Delivered(delivery) => {
                let Some(hold) = delivery.hold else { return Ok(()) };
                match self.current.get(&(hold.queue, hold.session)) {
                    Some(current) if current.hold != hold => {
                        return Err(format!(
                            "{:?} was handed out under {hold:?} after {:?} was given out",
                            delivery.token, current.hold
                        ));
                    }
                    _ => {}
                }
            }
            What::Killed | What::PowerCut => {
                // What had run out by then is nobody's any more.
                self.current.retain(|_, current| record.at_ms < current.until_min_ms);
            }
            What::Opened { .. } => {
                for current in self.current.values_mut() {
                    current.until_min_ms = record.at_ms + current.lock_ms;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
