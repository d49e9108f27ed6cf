//! `bellwether journal check DIR`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bellwether::journal::file::{RealDisk, Visitor, dump};
use bellwether::journal::{FrameNumber, Prepared};
use clap::Args;

use super::{Failure, show, verdict};

const EXAMPLES: &str = "\
Examples:
  bellwether journal check ./data
  bellwether journal check /backup/data && echo sound";

/// Say whether a store is clean, ends in a torn tail, or is damaged and where.
///
/// Reads every snapshot block and every frame that opening the store would read, checks each
/// checksum and decodes each change. Nothing is written. Refuses while a process has the store
/// open.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", super::EXIT_CODES))]
pub(crate) struct Check {
    /// The folder of the store.
    dir: PathBuf,
}

/// Decodes everything, counts the changes.
#[derive(Default)]
struct Decoding {
    changes: u64,
}

impl Decoding {
    fn count(&mut self, payload: &[u8]) -> Result<(), String> {
        show::each_change(payload, |_| {
            self.changes += 1;
            Ok(())
        })
    }
}

impl Visitor for Decoding {
    fn block(&mut self, _: u64, block: &[u8]) -> Result<(), String> {
        self.count(block)
    }

    fn frame(&mut self, _: Prepared, _: FrameNumber, payload: &[u8]) -> Result<(), String> {
        self.count(payload)
    }
}

impl Check {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let mut decoding = Decoding::default();
        let found = dump(Arc::new(RealDisk), &self.dir, &mut decoding)?;
        verdict::write(out, &self.dir, &found, decoding.changes)
    }
}
