//! Long work, to be run on any thread.

use std::any::Any;
use std::io;
use std::sync::Arc;

use super::names;
use super::segment::KeptUnit;
use super::snapshot::SnapshotHeader;
use super::snapshot_writer::SnapshotWriter;
use super::store::Store;
use super::supply::Supply;
use crate::journal::{Block, Job};

#[derive(Debug)]
pub(super) enum FileJob {
    Replenish(Arc<Supply>),
    Recycle(Arc<Supply>, Vec<KeptUnit>),
    Write {
        store: Arc<Store>,
        header: SnapshotHeader,
        /// `None` for the first piece.
        writer: Option<SnapshotWriter>,
        blocks: Vec<Box<dyn Block>>,
        /// Given with the last piece.
        end_frame: Option<u64>,
    },
    Publish {
        writer: SnapshotWriter,
        previous: Option<u64>,
    },
}

#[derive(Debug)]
pub(super) enum Done {
    /// True if nothing is missing any more.
    Replenish(io::Result<bool>),
    Recycle(io::Result<()>),
    Write(io::Result<SnapshotWriter>),
    /// The snapshot's size.
    Publish(io::Result<u64>),
}

impl Job for FileJob {
    fn run(self: Box<Self>) -> Box<dyn Any + Send> {
        Box::new(match *self {
            Self::Replenish(supply) => Done::Replenish(supply.replenish()),
            Self::Recycle(supply, units) => Done::Recycle(supply.recycle(&units)),
            Self::Write { store, header, writer, blocks, end_frame } => {
                let written = writer
                    .map_or_else(|| SnapshotWriter::create(store.clone(), header), Ok)
                    .and_then(|mut writer| {
                        writer.write(blocks)?;
                        if let Some(end_frame) = end_frame {
                            writer.finish(end_frame)?;
                        }
                        Ok(writer)
                    });
                if written.is_err() {
                    // Gives the space back; the next open would sweep it all the same.
                    let _ = store.disk.remove(&store.path(names::ROOM));
                }
                Done::Write(written)
            }
            Self::Publish { writer, previous } => {
                Done::Publish(writer.publish(previous).map(|()| writer.bytes()))
            }
        })
    }
}
