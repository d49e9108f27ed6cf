//! What a relaxed queue has acknowledged (D11): a power cut may undo it until a flush that began
//! later is done. A kill of the process may not.

use crate::history::{Record, What};

/// See the module.
#[derive(Debug)]
pub(super) struct Volatile<T> {
    said: Vec<(u64, T)>,
    covered: u64,
}

impl<T> Default for Volatile<T> {
    fn default() -> Self {
        Self { said: Vec::new(), covered: 0 }
    }
}

impl<T> Volatile<T> {
    /// Something was acknowledged.
    pub(super) fn note(&mut self, record: &Record, what: T) {
        self.said.push((record.index, what));
    }

    /// Takes note of flushes, and gives what a power cut may have undone.
    pub(super) fn see(&mut self, record: &Record) -> Vec<T> {
        match &record.what {
            What::Flushing => self.covered = record.index,
            What::Flushed => self.said.retain(|(index, _)| *index > self.covered),
            What::PowerCut => return self.said.drain(..).map(|(_, what)| what).collect(),
            _ => {}
        }
        Vec::new()
    }
}
