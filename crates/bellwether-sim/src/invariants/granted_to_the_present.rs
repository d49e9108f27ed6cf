//! E7: a lease is granted to nobody who has said goodbye.

use std::collections::BTreeSet;

use super::Invariant;
use crate::history::{Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    /// Goodbyes that were applied in this life, and those that were answered.
    leaving: BTreeSet<u32>,
    left: BTreeSet<u32>,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "E7 granted_to_the_present"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::LeaveApplied { slot } => drop(self.leaving.insert(*slot)),
            What::Left { slot } => drop(self.left.insert(*slot)),
            // A goodbye that was not answered may be undone.
            What::Killed | What::PowerCut => self.leaving.clear(),
            What::LeaseIs { election, term, id: Some(_), slot, opened: false, .. }
                if self.leaving.contains(slot) || self.left.contains(slot) =>
            {
                return Err(format!("election {election}: term {term} went to {slot}, who left"));
            }
            _ => {}
        }
        Ok(())
    }
}
