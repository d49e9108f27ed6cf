//! E6: a fenced resource accepts no write of an older term than the newest it has seen, and within
//! a term those of one process only.

use std::collections::BTreeMap;

use super::Invariant;
use crate::history::{Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    newest: BTreeMap<u8, (u64, u32)>,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "E6 fenced_resource"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        let What::Written { election, term, process, accepted: true } = &record.what else {
            return Ok(());
        };
        let newest = self.newest.entry(*election).or_insert((*term, *process));
        if *term < newest.0 || (*term == newest.0 && *process != newest.1) {
            return Err(format!(
                "election {election}: a write of term {term} by {process} after {newest:?}"
            ));
        }
        *newest = (*term, *process);
        Ok(())
    }
}
