//! D1: a send that was acknowledged is never lost. Whenever the auditor looks, every message that
//! was acknowledged before is there, unless something was applied that ended it.

use super::Invariant;
use super::fates::{Fates, ids_of};
use crate::history::{Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    fates: Fates,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "D1 no_acknowledged_message_lost"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        self.fates.see(record);
        let What::Audited { as_of, messages } = &record.what else { return Ok(()) };
        let Some(there) = ids_of(messages) else { return Ok(()) };
        let mut missing = self.fates.by_id.iter().filter(|(id, fate)| {
            fate.acknowledged.is_some_and(|index| index < *as_of)
                && !fate.may_be_gone(record)
                && !there.contains(id)
        });
        match missing.nth(self.fates.unnamed()) {
            Some((id, fate)) => Err(format!(
                "message {id}, acknowledged in record {:?}, is gone and nobody ended it",
                fate.acknowledged
            )),
            None => Ok(()),
        }
    }
}
