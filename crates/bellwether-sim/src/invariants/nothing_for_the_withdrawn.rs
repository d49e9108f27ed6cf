//! M16: a request that was withdrawn gets nothing: no message is locked for somebody who is never
//! told, and no lease granted. What a life handed out and could not tell before it ended is found by
//! the incarnation.

use std::collections::BTreeSet;

use super::Invariant;
use crate::history::{Record, Token, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    incarnation: u32,
    /// Deliveries that were told in this life.
    told: BTreeSet<Token>,
    /// Leases that were asked for and are no longer wanted.
    unwanted: BTreeSet<(u8, u128)>,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "M16 nothing_for_the_withdrawn"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::Opened { incarnation } => {
                self.incarnation = *incarnation;
                self.told.clear();
            }
            What::Delivered(delivery) => drop(self.told.insert(delivery.token)),
            What::Audited { messages, .. } => {
                let locks = messages.iter().filter_map(|seen| seen.lock);
                let mut of_now = locks.filter(|token| token.incarnation >= self.incarnation);
                if let Some(token) = of_now.find(|token| !self.told.contains(token)) {
                    return Err(format!("{token:?} was handed out to nobody"));
                }
            }
            What::Withdrawn { lease, .. } => self.unwanted.extend(*lease),
            // A late copy is a request again.
            What::AcquireApplied { election, id } => drop(self.unwanted.remove(&(*election, *id))),
            What::LeaseIs { election, term, id: Some(id), opened: false, .. }
                if self.unwanted.contains(&(*election, *id)) =>
            {
                return Err(format!("election {election}: term {term} went to an ask withdrawn"));
            }
            _ => {}
        }
        Ok(())
    }
}
