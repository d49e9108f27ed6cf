//! More changes than one frame holds.
//!
//! A command that must be whole is refused before it grows so large ([`Shard::apply`]). What the
//! store does of itself may: a session ends with very many deliveries out, a member goes that
//! held very many leases. Each of these changes stands by itself, so they may lie in several
//! frames; but nobody hears of any before all are written.

use bellwether_core::change::Change;
use bellwether_core::codec::{self, Reader};
use bellwether_core::time::BootTime;

use super::Shard;
use crate::engine::content::CHECKSUM_BYTES;
use crate::error::Error;

impl<R> Shard<R> {
    /// Appends pieces of the frame being filled until one frame holds what is left. Stops early on
    /// a full disk or a fault, with what is left still to be sealed.
    pub(super) fn seal_in_pieces(&mut self) {
        while self.payload.len() > self.frame_bytes_max {
            let cut = last_boundary(&self.payload, self.frame_bytes_max);
            if cut == 0 {
                return;
            }
            let rest = self.payload.split_off(cut);
            let in_piece = self.placed.partition_point(|(_, offset, _)| (*offset as usize) < cut);
            let placed_in_rest = self.placed.split_off(in_piece);
            let waiting = std::mem::take(&mut self.at_append);
            let piece = self.frame;
            self.seal_one();
            let sealed = self.payload.is_empty();
            let shift = if sealed { cut as u32 } else { 0 };
            self.payload.extend(rest);
            self.placed.extend(
                placed_in_rest.into_iter().map(|(id, offset, len)| (id, offset - shift, len)),
            );
            if let Some(fault) = &self.broken {
                let unknown = || Err(Error::Unknown(fault.to_string()));
                self.free.extend(waiting.into_iter().map(|(asker, _)| (asker, unknown())));
                return;
            }
            self.at_append = waiting;
            if !sealed {
                return;
            }
            self.wait_on(piece, self.frame);
        }
    }

    /// What waits for frame `from` waits for `to` instead, where the rest of it is written.
    fn wait_on(&mut self, from: u64, to: u64) {
        let frames = self.at_flush.iter_mut().rev().map(|(frame, _)| frame);
        frames.take_while(|frame| **frame == from).for_each(|frame| *frame = to);
        self.ledger.put_off(from, to);
        if self.opened_in == from {
            self.opened_in = to;
        }
        self.upkeep.put_off(from, to);
    }
}

/// The end of the last change that ends within the first `max` bytes.
fn last_boundary(payload: &[u8], max: usize) -> usize {
    let mut reader = Reader::new(payload);
    let mut boundary = 0;
    while !reader.is_empty() {
        let change = codec::decode_change(&mut reader, BootTime(0));
        let content = match change.expect("what was encoded just now decodes") {
            Change::Content { len, .. } => CHECKSUM_BYTES as usize + len as usize,
            _ => 0,
        };
        reader.take(content).expect("a content follows its change");
        if reader.position() > max {
            break;
        }
        boundary = reader.position();
    }
    boundary
}
