//! L9: a scheduled message is not delivered before its time, nor a failed one before its delay is
//! over.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use super::volatile::Volatile;
use crate::history::{Body, How, Record, Spot, What};
use crate::plan::Plan;

#[derive(Debug)]
pub(super) struct Check {
    due: BTreeMap<u64, u64>,
    not_before: BTreeMap<Spot, u64>,
    /// Set aside once: an abandoned delivery sets it aside again, without delay.
    deferred: BTreeSet<Spot>,
    /// Delays are wall-clock times; they can be told only if that clock does not jump.
    steady: bool,
    volatile: Volatile<Spot>,
}

impl Check {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            due: BTreeMap::new(),
            not_before: BTreeMap::new(),
            deferred: BTreeSet::new(),
            steady: plan.faults.wall_ms.is_none(),
            volatile: Volatile::default(),
        }
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "L9 never_before_due"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        for spot in self.volatile.see(record) {
            self.not_before.remove(&spot);
        }
        match &record.what {
            What::SendApplied { ids, due_wall_ms, .. } if *due_wall_ms != 0 => {
                self.due.extend(ids.iter().map(|id| (*id, *due_wall_ms)));
            }
            What::SettleApplied { token, how: How::Defer } => {
                self.deferred.insert(token.spot);
            }
            What::Settled {
                token,
                how: How::Abandon(delay_ms),
                ok: true,
                applied_ms,
                volatile,
                ..
            } if self.steady && !self.deferred.contains(&token.spot) => {
                if *volatile {
                    self.volatile.note(record, token.spot);
                }
                self.not_before.insert(token.spot, applied_ms + delay_ms);
            }
            What::Delivered(delivery) => {
                let token = delivery.token;
                if let Some(at) = self.not_before.get(&token.spot)
                    && delivery.granted_ms < *at
                {
                    return Err(format!("{token:?} was to stay away until {at} ms"));
                }
                let Body::Of(id) = delivery.body else { return Ok(()) };
                if let Some(due) = self.due.get(&id).filter(|due| **due > record.wall_ms_max) {
                    return Err(format!(
                        "message {id} is due at {due}, the clock never went beyond {}",
                        record.wall_ms_max
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
