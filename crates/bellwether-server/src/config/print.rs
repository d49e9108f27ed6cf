//! `--print-config`.

use std::io::{self, Write};

use super::{Config, Source};

impl Config {
    /// Writes the configuration as TOML, with where each value was found. It can be read again: so
    /// the folder that a store in memory does not have is no value but a comment.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let lines = self.found.iter().map(|(name, toml, source)| {
            let is_unused = self.memory && *name == "data" && *source == Source::Default;
            format!("{}{name} = {toml}", if is_unused { "# " } else { "" })
        });
        let lines: Vec<_> = lines.collect();
        let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        for (line, (_, _, source)) in lines.iter().zip(&self.found) {
            writeln!(out, "{line:width$}  # {source}")?;
        }
        Ok(())
    }
}
