//! D2: nothing is delivered that was never sent, and every body is what was sent, to the byte.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use crate::history::{Body, Queue, Record, Spot, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    sent_to: BTreeMap<u64, BTreeSet<Queue>>,
    /// A call to the disk was made to fail in this life: a body may be unreadable for once.
    disk_failed: bool,
}

impl Check {
    fn check(&self, spot: Spot, body: &Body) -> Result<(), String> {
        // What moves on goes to the first queue, from another one.
        let may_be_in =
            |queue: &Queue| *queue == spot.queue || (spot.queue.index == 0 && queue.index != 0);
        match body {
            Body::Of(id) if self.sent_to.get(id).into_iter().flatten().any(may_be_in) => Ok(()),
            Body::Of(id) => Err(format!("message {id} at {spot:?} was never sent there")),
            Body::Unreadable(_) if self.disk_failed => Ok(()),
            Body::Unreadable(why) => Err(format!("message at {spot:?} cannot be read: {why}")),
            Body::Wrong(how) => Err(format!("message at {spot:?} has another body: {how}")),
        }
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "D2 delivered_is_what_was_sent"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::Killed | What::PowerCut => self.disk_failed = false,
            What::DiskCallFails => self.disk_failed = true,
            What::SendApplied { queue, ids, .. } => {
                for id in ids {
                    self.sent_to.entry(*id).or_default().insert(*queue);
                }
            }
            What::Delivered(delivery) => self.check(delivery.token.spot, &delivery.body)?,
            What::Removed { known, .. } => {
                known.iter().try_for_each(|(spot, body)| self.check(*spot, body))?;
            }
            What::Audited { messages, .. } => {
                for seen in messages {
                    self.check(seen.spot, &seen.body)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
