//! D9: after the first failed write or flush of the log nothing durable is acknowledged in that
//! life of the process.

use super::Invariant;
use crate::history::{Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    broken: Option<u64>,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "D9 no_durable_answer_after_fault"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match (&record.what, self.broken) {
            (What::Broken { .. }, None) => self.broken = Some(record.index),
            (What::Opened { .. }, _) => self.broken = None,
            (What::Answered { key, durable: true, ok: true, .. }, Some(index)) => {
                return Err(format!("{key:?} was answered after the fault of record {index}"));
            }
            _ => {}
        }
        Ok(())
    }
}
