//! E10, without wall time: once nothing goes wrong any more every election has a leader.

use super::Invariant;
use crate::history::{Record, What};

#[derive(Debug)]
pub(super) struct Check;

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "E10 somebody_leads"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::Ended { leaderless, .. } if !leaderless.is_empty() => {
                Err(format!("nobody leads elections {leaderless:?}"))
            }
            _ => Ok(()),
        }
    }
}
