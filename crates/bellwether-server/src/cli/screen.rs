//! Where answers go: tables for people, JSON for programs.

use std::io::{self, IsTerminal as _, Write};

use clap::ValueEnum;
use serde_json::Value;

use super::table::Table;

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines and columns for people.
    #[default]
    Table,
    /// One JSON value a line.
    Json,
}

/// Where answers go, and how they look there.
pub(crate) struct Screen<'a> {
    out: &'a mut dyn Write,
    format: Format,
    colour: bool,
}

impl<'a> Screen<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, format: Format) -> Self {
        Self { out, format, colour: wants_colour() }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// One line of text.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// One JSON value, on one line.
    pub(crate) fn json(&mut self, value: &Value) -> io::Result<()> {
        writeln!(self.out, "{value}")
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        table.write(self.out, self.colour)
    }

    /// A sentence for people, or the same for programs.
    pub(crate) fn say(&mut self, sentence: &str, value: &Value) -> io::Result<()> {
        if self.is_json() { self.json(value) } else { self.line(sentence) }
    }

    /// Brings everything to whoever reads it: what is settled afterwards was written before.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Colour is for terminals, and never where `NO_COLOR` is set.
fn wants_colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && !is_set("NO_COLOR") && !dumb
}
