//! D12: a queue whose deletion was acknowledged never comes back, and nobody waits in it any more.
//! One of the same name starts with nothing: no message of the old one (D2), no token that was
//! handed out there, no hold of a session.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::name::Part;

use super::Invariant;
use crate::history::{Hold, Queue, Record, Token, What};

/// A token as its holder shows it: by the queue's name.
type Shown = (u8, Part, u64, u32, u32);

fn shown(token: Token) -> Shown {
    let spot = token.spot;
    (spot.queue.index, spot.part, spot.sequence, token.number, token.incarnation)
}

#[derive(Debug, Default)]
pub(super) struct Check {
    deleted: BTreeSet<Queue>,
    /// Where tokens and holds were handed out.
    tokens: BTreeMap<Shown, Queue>,
    holds: BTreeSet<Hold>,
}

impl Check {
    fn given(&mut self, token: Token) -> Result<(), String> {
        let queue = token.spot.queue;
        if self.deleted.contains(&queue) {
            return Err(format!("{token:?} was handed out after its queue was deleted"));
        }
        match self.tokens.insert(shown(token), queue).filter(|first| *first != queue) {
            Some(first) => Err(format!("{token:?} was handed out by {first:?} too")),
            None => Ok(()),
        }
    }

    fn accepted(&self, token: Token) -> Result<(), String> {
        match self.tokens.get(&shown(token)) {
            Some(queue) if *queue == token.spot.queue => Ok(()),
            queue => Err(format!("{token:?} was accepted, it was handed out by {queue:?}")),
        }
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "D12 deleted_stays_deleted"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::Deleted { queue, left } => {
                self.deleted.insert(*queue);
                if *left > 0 {
                    return Err(format!("{left} requests wait in {queue:?}, which is deleted"));
                }
            }
            What::QueueIs { queue } if self.deleted.contains(queue) => {
                return Err(format!("{queue:?} was deleted and is there"));
            }
            What::Delivered(delivery) => self.given(delivery.token)?,
            What::Settled { token, ok: true, .. } | What::Renewed { token, ok: true, .. } => {
                self.accepted(*token)?;
            }
            What::Held { hold, .. } => drop(self.holds.insert(*hold)),
            What::HoldRenewed { hold, ok: true, .. } if !self.holds.contains(hold) => {
                return Err(format!("{hold:?} was renewed, it was never given"));
            }
            _ => {}
        }
        Ok(())
    }
}
