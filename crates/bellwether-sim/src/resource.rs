//! A fenced resource: it keeps the largest term it has seen and refuses smaller ones.

use crate::bus::{Bus, Write};
use crate::history::What;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Resource {
    newest: u64,
}

impl Resource {
    /// Somebody writes.
    pub(crate) fn write(&mut self, bus: &mut Bus, write: Write) {
        let accepted = write.term >= self.newest;
        self.newest = self.newest.max(write.term);
        if accepted {
            bus.stats.writes += 1;
        } else {
            bus.stats.writes_refused += 1;
        }
        let Write { election, term, process } = write;
        bus.record(What::Written { election, term, process, accepted });
    }
}
