//! E1: every grant of a lease has a larger term than all before it. The same grant may be told
//! again under its term. What was told is not undone by a crash.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use crate::history::{Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    highest: BTreeMap<u8, u64>,
    told: BTreeSet<(u8, u64, u128)>,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "E1 terms_only_grow"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        if let What::LeaseIs { election, term, .. } = &record.what {
            let told = self.highest.get(election).copied().unwrap_or(0);
            let grows = told <= *term;
            return grows.then_some(()).ok_or(format!("election {election}: {term} after {told}"));
        }
        let What::Granted { election, term, id, .. } = &record.what else { return Ok(()) };
        if !self.told.insert((*election, *term, *id)) {
            return Ok(());
        }
        let highest = self.highest.entry(*election).or_default();
        if *term <= *highest {
            return Err(format!("election {election}: term {term} after {highest}"));
        }
        *highest = *term;
        Ok(())
    }
}
