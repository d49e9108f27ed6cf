//! The machinery fails only when a fault was put into it: every disk that the failure model can
//! leave behind is recovered from, and no workload breaks a sound one.

use super::Invariant;
use crate::history::{Record, What};

#[derive(Debug)]
pub(super) struct Check;

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "S3 faults_have_a_cause"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::Broken { planted: false, fault } | What::NotOpened { planted: false, fault } => {
                Err(fault.clone())
            }
            _ => Ok(()),
        }
    }
}
