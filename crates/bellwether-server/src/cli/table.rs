//! Tables: columns side by side, one line a row, nothing wrapped.

use std::io::{self, Write};

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";
const GAP: &str = "  ";

/// Rows under a heading. Columns of numbers are aligned to the right.
pub(crate) struct Table {
    heading: Vec<(&'static str, bool)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A heading; a name that begins with `>` is a column of numbers.
    pub(crate) fn new(heading: &[&'static str]) -> Self {
        let heading = heading.iter().map(|name| match name.strip_prefix('>') {
            Some(name) => (name, true),
            None => (*name, false),
        });
        Self { heading: heading.collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| plain(&cell)).collect());
    }

    pub(crate) fn write(&self, out: &mut dyn Write, colour: bool) -> io::Result<()> {
        let lines = self.lines();
        for (nth, line) in lines.iter().enumerate() {
            if nth == 0 && colour {
                writeln!(out, "{BOLD}{line}{PLAIN}")?;
            } else {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }

    /// The heading, then the rows.
    pub(crate) fn lines(&self) -> Vec<String> {
        let heading: Vec<String> =
            self.heading.iter().map(|(name, _)| (*name).to_owned()).collect();
        let all: Vec<&Vec<String>> = std::iter::once(&heading).chain(&self.rows).collect();
        let width = |column: usize| {
            let cells = all.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heading.len()).map(width).collect();
        let line = |row: &&Vec<String>| {
            let mut line = String::new();
            for ((cell, width), (_, is_number)) in row.iter().zip(&widths).zip(&self.heading) {
                if !line.is_empty() {
                    line.push_str(GAP);
                }
                let room = " ".repeat(width - cell.chars().count());
                if *is_number {
                    line.push_str(&room);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&room);
                }
            }
            line.truncate(line.trim_end().len());
            line
        };
        all.iter().map(line).collect()
    }
}

/// Names and values below each other.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> Vec<String> {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| {
        let line = format!("{name:width$}{GAP}{}", plain(value));
        line.trim_end().to_owned()
    };
    pairs.iter().map(line).collect()
}

/// A text that can do nothing to a terminal: what a sender wrote is shown, not obeyed.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let kept = escaped.is_none().then_some(c);
            escaped.into_iter().flatten().chain(kept)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_nothing_trails() {
        let mut table = Table::new(&["NAME", ">READY", "STATE"]);
        table.row(["orders".into(), "7".into(), "active".into()]);
        table.row(["b\u{1b}[2J".into(), "12345".into(), String::new()]);
        let lines = table.lines();
        assert_eq!(lines[0], "NAME        READY  STATE");
        assert_eq!(lines[1], "orders          7  active");
        assert_eq!(lines[2], "b\\u{1b}[2J  12345");
    }
}
