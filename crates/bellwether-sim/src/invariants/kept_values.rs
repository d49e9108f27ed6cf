//! M45, and the same for a queue's settings: what was acknowledged is there until something else is
//! written. What was applied and not answered may be there or not.

use std::collections::BTreeMap;

use super::Invariant;
use crate::history::{Cell, Key, Record, What};
use crate::plan::{Mood, Plan};

/// A value that may be there.
#[derive(Clone, Copy, Debug)]
struct Write {
    /// `None` for what was there at the beginning.
    key: Option<Key>,
    value: u64,
    /// The record in which a later one was acknowledged.
    over: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Check {
    cells: BTreeMap<Cell, Vec<Write>>,
    moods: Vec<u64>,
}

impl Check {
    pub(super) fn new(plan: &Plan) -> Self {
        let moods = plan.queues.iter().map(|queue| Mood::of(&queue.settings).value()).collect();
        Self { cells: BTreeMap::new(), moods }
    }

    fn writes(&mut self, cell: Cell) -> &mut Vec<Write> {
        let value = match cell {
            Cell::State { .. } => 0,
            Cell::Mood { queue } => self.moods[usize::from(queue)],
        };
        self.cells.entry(cell).or_insert_with(|| vec![Write { key: None, value, over: None }])
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "M45 kept_values"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::CellApplied { cell, key, value } => {
                self.writes(*cell).push(Write { key: Some(*key), value: *value, over: None });
            }
            What::CellSet { cell, key } => {
                // Which copy was decided is not known; what came before the first is over.
                let writes = self.writes(*cell);
                let first = writes.iter().position(|write| write.key == Some(*key)).unwrap_or(0);
                for write in &mut writes[..first] {
                    write.over.get_or_insert(record.index);
                }
            }
            What::CellRead { cell, value, as_of } => {
                let writes = self.writes(*cell);
                let may_be = |write: &Write| {
                    write.value == *value && write.over.is_none_or(|at| at > *as_of)
                };
                if !writes.iter().any(may_be) {
                    return Err(format!("{cell:?} is {value}, it should be one of {writes:?}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
