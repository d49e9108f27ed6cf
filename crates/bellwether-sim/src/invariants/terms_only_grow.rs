//! E1: every grant of a lease has a larger term than all that were told before it. What is told was
//! decided, under that id, and is not undone by a crash. Answers may overtake each other.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use crate::history::{Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    /// By lease and term: who has it.
    decided: BTreeMap<(u8, u64), u128>,
    told: BTreeSet<(u8, u64)>,
}

impl Check {
    fn decide(&mut self, election: u8, term: u64, id: u128) -> Result<(), String> {
        let newest = self.told.range(..=(election, u64::MAX)).next_back().copied();
        if let Some((_, newest)) = newest.filter(|(of, told)| *of == election && *told > term) {
            return Err(format!("election {election}: {term} after {newest}"));
        }
        let first = self.decided.insert((election, term), id).filter(|first| *first != id);
        match first.filter(|_| self.told.contains(&(election, term))) {
            Some(first) => Err(format!("election {election}: {term} is {first}'s and {id}'s")),
            None => Ok(()),
        }
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "E1 terms_only_grow"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::LeaseIs { election, term, id: Some(id), .. } => {
                self.decide(*election, *term, *id)
            }
            What::LeaseIs { election, term, id: None, .. } => {
                let id = self.decided.get(&(*election, *term)).copied().unwrap_or_default();
                self.decide(*election, *term, id)
            }
            What::Granted { election, term, id, .. } => {
                self.told.insert((*election, *term));
                match self.decided.get(&(*election, *term)) {
                    Some(decided) if decided == id => Ok(()),
                    decided => Err(format!(
                        "election {election}: {term} was told to {id} and is {decided:?}'s"
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}
