//! E5: no two members trust one lease at the same moment, as long as their clocks' rates differ by
//! less than 1.31. Beyond that only the fence holds (E6).

use super::Invariant;
use crate::history::{Record, What};
use crate::plan::Plan;

#[derive(Debug)]
pub(super) struct Check {
    sound: bool,
}

impl Check {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { sound: plan.clocks_are_sound }
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "E5 one_trusting_leader"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::Trusting { election, by } if self.sound && by.len() > 1 => {
                Err(format!("election {election} has {} leaders: {by:?}", by.len()))
            }
            _ => Ok(()),
        }
    }
}
