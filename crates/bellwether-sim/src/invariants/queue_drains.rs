//! Liveness: once nothing goes wrong any more every message that can be handled is handled, and a
//! message that is sent to waiting receivers reaches one of them at once.

use super::Invariant;
use crate::history::{Record, What};

#[derive(Debug)]
pub(super) struct Check;

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "liveness queue_drains"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::Ended { undrained, .. } if !undrained.is_empty() => {
                Err(format!("{} messages are left: {:?}", undrained.len(), undrained[0]))
            }
            What::Probe { queue, id } => {
                Err(format!("message {id} waits in queue {queue} although somebody waits for it"))
            }
            _ => Ok(()),
        }
    }
}
