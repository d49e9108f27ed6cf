//! `bellwether journal dump DIR`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bellwether::journal::file::{RealDisk, Visitor, dump};
use bellwether::journal::{FrameNumber, Prepared};
use clap::Args;

use super::show::{self, Shown};
use super::{Failure, verdict};

const EXAMPLES: &str = "\
Examples:
  bellwether journal dump ./data
  bellwether journal dump ./data | grep 'message 1/main/42 '
  bellwether journal dump --contents ./data | less";

const FORM: &str = "\
A line is one change: the frame or snapshot block it is in, the file and byte where it lies, and
what it says. Messages are named queue/part/sequence. The last line begins with `#` and is the
verdict. Damage ends the listing where it was found.";

/// Print one line for every change a store holds: the snapshot's, then the log's.
///
/// Nothing is written. Refuses while a process has the store open.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{FORM}\n\n{EXAMPLES}\n\n{}", super::EXIT_CODES)
)]
pub(crate) struct Dump {
    /// The folder of the store.
    dir: PathBuf,
    /// Show the bytes of contents, text as it is and the rest as hex, not only their lengths.
    #[arg(long)]
    contents: bool,
}

struct Printing<'a> {
    out: &'a mut dyn Write,
    contents: bool,
    /// Why the last line could not be written.
    failed: Option<io::Error>,
}

impl Printing<'_> {
    fn each(&mut self, payload: &[u8], place: impl Fn(usize) -> String) -> Result<(), String> {
        show::each_change(payload, |shown: &Shown<'_>| {
            let line = show::line(shown, self.contents);
            let place = place(shown.offset);
            self.put(format_args!("{place}  {line}"))
        })
    }

    fn put(&mut self, line: std::fmt::Arguments<'_>) -> Result<(), String> {
        writeln!(self.out, "{line}").map_err(|e| {
            let why = e.to_string();
            self.failed = Some(e);
            why
        })
    }
}

impl Visitor for Printing<'_> {
    fn block(&mut self, index: u64, block: &[u8]) -> Result<(), String> {
        self.each(block, |offset| format!("snapshot block {index} byte {offset}"))
    }

    fn frame(&mut self, at: Prepared, flushed: FrameNumber, payload: &[u8]) -> Result<(), String> {
        let place = |offset: usize| {
            let byte = at.payload_offset as usize + offset;
            format!("frame {} {:016x}.log byte {byte}", at.number.0, at.unit)
        };
        if payload.is_empty() {
            return self.put(format_args!("{}  mark durable={}", place(0), flushed.0));
        }
        self.each(payload, place)
    }
}

impl Dump {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let mut printing = Printing { out, contents: self.contents, failed: None };
        let found = dump(Arc::new(RealDisk), &self.dir, &mut printing)?;
        if let Some(e) = printing.failed {
            return Err(e.into());
        }
        let code = verdict::code(&self.dir, &found)?;
        writeln!(out, "# {}", verdict::headline(&found))?;
        Ok(code)
    }
}
