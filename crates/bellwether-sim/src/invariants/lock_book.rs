//! Who holds which message, and for how long at least and at most, from what the server said.

use std::collections::BTreeMap;

use crate::history::{Delivery, Record, Spot, Token, What};

/// Why a lock must still hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    Granted,
    Renewed,
    Restarted,
}

/// The newest delivery of one message.
#[derive(Clone, Debug)]
#[allow(clippy::struct_field_names, reason = "`lock_ms` is its name everywhere")]
pub(super) struct Lock {
    pub(super) token: Token,
    pub(super) said_ms: u64,
    /// How long a renewal or a restart makes it hold, at least and at most.
    lock_min_ms: u64,
    lock_max_ms: u64,
    /// It holds until then at least …
    pub(super) until_min_ms: u64,
    pub(super) basis: Basis,
    /// … and at most until then.
    pub(super) until_max_ms: u64,
    /// Settlements applied for it.
    pub(super) settled: u32,
    /// A session's message: it is held as long as the session is.
    pub(super) in_session: bool,
    /// A power cut may have lost it, or it may have run out before the last life ended.
    pub(super) unsure: bool,
    said: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LockBook {
    locks: BTreeMap<Spot, Lock>,
    said: u64,
    covered: u64,
    durable: u64,
}

impl LockBook {
    /// The newest delivery of a message.
    pub(super) fn get(&self, spot: Spot) -> Option<&Lock> {
        self.locks.get(&spot)
    }

    /// The delivery with this token, if it is the newest.
    pub(super) fn current(&self, token: Token) -> Option<&Lock> {
        self.locks.get(&token.spot).filter(|lock| lock.token == token)
    }

    /// Takes note. Ask before: a delivery replaces what is known of the one before it.
    pub(super) fn see(&mut self, record: &Record) {
        match &record.what {
            What::Delivered(delivery) => self.deliver(record, delivery),
            What::SettleApplied { token, .. } => {
                if let Some(lock) = self.of(*token) {
                    lock.settled += 1;
                }
            }
            What::RenewApplied { token, lock_ms } => {
                let now = record.at_ms;
                let Some(lock) = self.of(*token) else { return };
                if let Some(ms) = lock_ms {
                    // It may be shorter than before, from now on.
                    lock.lock_min_ms = lock.lock_min_ms.min(*ms);
                    lock.lock_max_ms = lock.lock_max_ms.max(*ms);
                    lock.until_min_ms = lock.until_min_ms.min(now + ms);
                }
                lock.until_max_ms = lock.until_max_ms.max(now + lock.lock_max_ms);
            }
            What::Renewed { token, ok: true, applied_ms, .. } => {
                if let Some(lock) = self.of(*token) {
                    lock.until_min_ms = lock.until_min_ms.max(applied_ms + lock.lock_min_ms);
                    lock.basis = Basis::Renewed;
                }
            }
            What::Flushing => self.covered = self.said,
            What::Flushed => self.durable = self.covered,
            What::Killed | What::PowerCut => {
                let power_cut = matches!(record.what, What::PowerCut);
                let durable = self.durable;
                for lock in self.locks.values_mut() {
                    let may_be_lost = power_cut && lock.said > durable;
                    let may_have_run_out = lock.until_min_ms <= record.at_ms;
                    lock.unsure |= may_be_lost || may_have_run_out;
                }
            }
            What::Opened { .. } => {
                for lock in self.locks.values_mut() {
                    lock.until_min_ms = record.at_ms + lock.lock_min_ms;
                    lock.until_max_ms = lock.until_max_ms.max(record.at_ms + lock.lock_max_ms);
                    lock.basis = Basis::Restarted;
                }
            }
            _ => {}
        }
    }

    fn of(&mut self, token: Token) -> Option<&mut Lock> {
        self.locks.get_mut(&token.spot).filter(|lock| lock.token == token)
    }

    fn deliver(&mut self, record: &Record, delivery: &Delivery) {
        let token = delivery.token;
        let newer = |lock: &Lock| {
            (token.incarnation, token.number) > (lock.token.incarnation, lock.token.number)
        };
        if self.locks.get(&token.spot).is_some_and(|lock| !newer(lock)) {
            return;
        }
        self.said += 1;
        let until = delivery.granted_ms + delivery.lock_ms;
        let lock = Lock {
            token,
            said_ms: record.at_ms,
            lock_min_ms: delivery.lock_ms,
            lock_max_ms: delivery.lock_ms,
            until_min_ms: until,
            basis: Basis::Granted,
            until_max_ms: until,
            settled: 0,
            in_session: delivery.hold.is_some(),
            unsure: false,
            said: self.said,
        };
        self.locks.insert(token.spot, lock);
    }
}
