//! From the journal back into a ledger.

use bellwether_core::change::Change;
use bellwether_core::codec::{self, Reader};
use bellwether_core::content::Place;
use bellwether_core::ledger::Ledger;
use bellwether_core::time::Now;

use super::history::History;
use crate::engine::content::CHECKSUM_BYTES;
use crate::journal::{Prepared, Replay};

/// Replays a journal into a ledger.
pub(crate) struct Replayer {
    pub(crate) ledger: Ledger,
    pub(super) history: History,
    now: Now,
}

impl Replay for Replayer {
    fn snapshot(&mut self, block: &[u8]) -> Result<(), String> {
        self.each(block, |_| None)
    }

    fn frame(&mut self, at: Prepared, payload: &[u8]) -> Result<(), String> {
        self.ledger.begin_frame(at.number.0);
        self.each(payload, |offset| {
            Some(Place { unit: at.unit, offset: at.payload_offset + offset, len: 0 })
        })
    }
}

impl Replayer {
    pub(crate) fn new(ledger: Ledger, now: Now) -> Self {
        Self { ledger, history: History::default(), now }
    }

    fn each(&mut self, payload: &[u8], place: impl Fn(u32) -> Option<Place>) -> Result<(), String> {
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            let change =
                codec::decode_change(&mut reader, self.now.boot).map_err(|e| e.to_string())?;
            let mut at = None;
            if let Change::Content { len, .. } = change {
                reader.take(CHECKSUM_BYTES as usize).map_err(|e| e.to_string())?;
                at = place(reader.position() as u32).map(|place| Place { len, ..place });
                reader.take(len as usize).map_err(|e| e.to_string())?;
            }
            self.ledger.replay(self.now, &change, at);
            self.history.note(&change, &self.ledger);
        }
        Ok(())
    }
}
