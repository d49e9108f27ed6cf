//! Takes a backup: asks the store step by step and puts what it brings into blocks.

use std::sync::Arc;

use bellwether_core::backup::BackupStep;
use bellwether_core::change::Change;
use bellwether_core::codec::{self, Reader};
use bellwether_core::command::Command;
use bellwether_core::outcome::Outcome;
use bellwether_core::time::BootTime;
use bytes::Bytes;

use super::Head;
use super::block::{Kind, put_block, start};
use crate::engine::Reply;
use crate::engine::shard::backup::GIVE_UP;
use crate::error::Error;
use crate::handle::{Bellwether, Inner, unreachable_outcome};

/// A backup being taken. Its bytes come from [`Backup::next`], in order, and are a backup only
/// together. The store keeps what the backup still needs until its end, or until this is dropped.
#[derive(Debug)]
pub struct Backup {
    inner: Arc<Inner>,
    id: u64,
    step: u32,
    /// Blocks put so far.
    blocks: u64,
    head: Option<Head>,
    is_done: bool,
}

impl Bellwether {
    /// Takes a backup of the whole store, while it goes on: everything acknowledged before the first
    /// [`Backup::next`] is in it, and of what happens meanwhile a beginning. One at a time.
    pub fn backup(&self) -> Backup {
        Backup {
            inner: Arc::clone(&self.inner),
            id: crate::chance::random_u64(),
            step: 0,
            blocks: 0,
            head: None,
            is_done: false,
        }
    }
}

impl Backup {
    /// The next bytes; `None` when it is whole.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let mut out = Vec::new();
        while out.is_empty() && !self.is_done {
            let command = Command::Backup { id: self.id, step: self.step };
            let reply = self.inner.ask(command).await?;
            self.step += 1;
            self.put(reply, &mut out)?;
        }
        Ok((!out.is_empty()).then(|| out.into()))
    }

    /// What it says of itself, once it has begun.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    fn put(&mut self, reply: Reply, out: &mut Vec<u8>) -> Result<(), Error> {
        let step = match reply.outcome {
            Outcome::Backup(step) => step,
            other => unreachable_outcome(&other),
        };
        let contents = reply.contents.into_iter().collect::<Result<Vec<Bytes>, String>>();
        let contents = contents.map_err(|why| {
            Error::Failed(format!(
                "a message's content cannot be read: {why}; `bellwether journal check` tells more"
            ))
        })?;
        match step {
            BackupStep::State { frame, bytes } => {
                if self.head.is_none() {
                    self.begin(frame, bytes, out);
                }
                let row = weave(&contents).map_err(|what| {
                    Error::Failed(format!("a step of the backup does not read: {what}"))
                })?;
                self.block(Kind::State, &[&row], out);
            }
            BackupStep::Frames { numbers } => {
                for (number, payload) in numbers.iter().zip(&contents) {
                    self.block(Kind::Frame, &[&number.to_le_bytes(), payload], out);
                }
            }
            BackupStep::End { frame } => {
                self.block(Kind::End, &[&frame.to_le_bytes()], out);
                self.is_done = true;
            }
        }
        Ok(())
    }

    fn begin(&mut self, frame: u64, bytes: u64, out: &mut Vec<u8>) {
        let head = Head {
            taken_at: self.inner.clock.now().wall,
            frame,
            bytes,
            program: format!("bellwether {}", env!("CARGO_PKG_VERSION")),
        };
        out.extend_from_slice(&start());
        let mut said = Vec::new();
        head.put(&mut said);
        self.block(Kind::Head, &[&said], out);
        self.head = Some(head);
    }

    fn block(&mut self, kind: Kind, parts: &[&[u8]], out: &mut Vec<u8>) {
        put_block(self.blocks, kind, parts, out);
        self.blocks += 1;
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        if self.step > 0 && !self.is_done {
            self.inner.tell(Command::Backup { id: self.id, step: GIVE_UP });
        }
    }
}

/// A row of changes in which contents lie somewhere, as one in which each stands behind its change.
fn weave(contents: &[Bytes]) -> Result<Vec<u8>, String> {
    let (row, contents) = contents.split_first().ok_or("there is no row of changes")?;
    let mut contents = contents.iter();
    let mut out =
        Vec::with_capacity(row.len() + contents.as_slice().iter().map(Bytes::len).sum::<usize>());
    let mut reader = Reader::new(row);
    while !reader.is_empty() {
        let start = reader.position();
        let change = codec::decode_change(&mut reader, BootTime(0)).map_err(|e| e.to_string())?;
        match change {
            Change::ContentAt { id, place } if place.unit != 0 => {
                let content = contents.next().ok_or("a content is missing")?;
                let len = content.len() as u32;
                codec::encode_change(&Change::Content { id, index: 0, len }, BootTime(0), &mut out);
                out.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
                out.extend_from_slice(content);
            }
            _ => out.extend_from_slice(&row[start..reader.position()]),
        }
    }
    Ok(out)
}
