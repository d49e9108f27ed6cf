//! E2: a term was told to one member only.

use std::collections::BTreeMap;

use super::Invariant;
use crate::history::{Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    told: BTreeMap<(u8, u64), (u32, u128)>,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "E2 one_principal_per_term"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        let What::Granted { election, term, id, slot, .. } = &record.what else { return Ok(()) };
        let first = *self.told.entry((*election, *term)).or_insert((*slot, *id));
        if first == (*slot, *id) {
            Ok(())
        } else {
            Err(format!("election {election}: term {term} was told to {first:?} and {slot}"))
        }
    }
}
