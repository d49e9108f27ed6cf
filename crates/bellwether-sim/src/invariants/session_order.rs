//! L6: a session's messages come in the order of their numbers: no message is handed out while an
//! earlier one of its session is ready, or locked by another holder.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::settings::QueueSettings;

use super::Invariant;
use super::fates::Fates;
use crate::history::{Delivery, Hold, How, Queue, Record, What};
use crate::plan::Plan;

#[derive(Debug)]
pub(super) struct Check {
    fates: Fates,
    /// By queue and session: acknowledged messages by number.
    sent: BTreeMap<(Queue, u8), BTreeMap<u64, u64>>,
    /// By message: the hold it was last handed out under.
    under: BTreeMap<u64, Hold>,
    /// Set aside, or perhaps.
    aside: BTreeSet<u64>,
    deliveries_max: Vec<u32>,
}

impl Check {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            fates: Fates::default(),
            sent: BTreeMap::new(),
            under: BTreeMap::new(),
            aside: BTreeSet::new(),
            deliveries_max: plan.queues.iter().map(|q| least_deliveries(&q.settings)).collect(),
        }
    }

    fn deliver(&mut self, record: &Record, delivery: &Delivery, hold: Hold) -> Result<(), String> {
        let Some(id) = self.fates.id_of(delivery.token) else { return Ok(()) };
        if self.aside.contains(&id) {
            return Ok(());
        }
        self.under.insert(id, hold);
        let max = self.deliveries_max[usize::from(hold.queue)];
        if delivery.counted + 1 >= max {
            // If this delivery fails it is the last one.
            self.aside.insert(id);
        }
        let Some(sent) = self.sent.get_mut(&(hold.queue, hold.session)) else { return Ok(()) };
        let fates = &self.fates.by_id;
        sent.retain(|_, id| !fates[id].may_be_gone(record));
        let earlier = sent
            .range(..delivery.token.spot.sequence)
            .find(|(_, id)| !self.aside.contains(id) && self.under.get(id) != Some(&hold));
        match earlier {
            Some((sequence, earlier)) => Err(format!(
                "{:?} (message {id}) was handed out before {sequence} (message {earlier})",
                delivery.token
            )),
            None => Ok(()),
        }
    }
}

/// After so many counted deliveries a message may be a dead letter: of any kind, or of crashes alone.
fn least_deliveries(settings: &QueueSettings) -> u32 {
    match settings.failures.crashes_max {
        0 => settings.deliveries_max,
        crashes_max => settings.deliveries_max.min(crashes_max + 1),
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "L6 session_order"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        self.fates.see(record);
        match &record.what {
            What::Sent {
                queue, ids, sequences, session: Some(session), scheduled: false, ..
            } => {
                let sent = self.sent.entry((*queue, *session)).or_default();
                let new = sequences.iter().zip(ids).filter(|(sequence, _)| **sequence != 0);
                sent.extend(new.map(|(sequence, id)| (*sequence, *id)));
            }
            What::SettleApplied { token, how: How::Defer | How::DeadLetter } => {
                self.aside.extend(self.fates.id_of(*token));
            }
            What::Delivered(delivery) => {
                if let Some(hold) = delivery.hold {
                    self.deliver(record, delivery, hold)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
