//! `docs/wire.md` as a program reads it: tables by their headings, bytes by their names.

use std::collections::BTreeMap;

const TEXT: &str = include_str!("../../../../docs/wire.md");

/// See the module.
#[derive(Debug)]
pub(crate) struct Page {
    tables: BTreeMap<&'static str, Table>,
    bytes: BTreeMap<&'static str, Vec<Line>>,
}

/// The table under a heading like ``#### `Command` ``.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<&'static str>>,
}

/// One line of a block like ```` ```hex hello ````.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) bytes: Vec<u8>,
    pub(crate) says: &'static str,
}

impl Page {
    pub(crate) fn read() -> Self {
        let mut page = Self { tables: BTreeMap::new(), bytes: BTreeMap::new() };
        let (mut heading, mut block) = (None, None);
        for line in TEXT.lines() {
            if let Some(name) = line.strip_prefix("```hex ") {
                block = Some(name);
                let before = page.bytes.insert(name, Vec::new());
                assert!(before.is_none(), "two blocks are called {name}");
            } else if line.starts_with("```") {
                block = None;
            } else if let Some(name) = block {
                page.bytes.entry(name).or_default().push(Line::read(line));
            } else if line.starts_with('#') {
                let name = line.strip_prefix("#### `").and_then(|rest| rest.strip_suffix('`'));
                heading = name;
            } else if let Some(cells) = line.strip_prefix('|')
                && let Some(name) = heading
            {
                let cells = cells.strip_suffix('|').expect("a row ends as it begins");
                page.tables.entry(name).or_default().push(cells.split('|').map(str::trim));
            }
        }
        page
    }

    pub(crate) fn table(&self, name: &str) -> &Table {
        self.tables.get(name).unwrap_or_else(|| panic!("the page has no table `{name}`"))
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = (&&'static str, &Table)> {
        self.tables.iter()
    }

    pub(crate) fn lines(&self, name: &str) -> &[Line] {
        self.bytes.get(name).unwrap_or_else(|| panic!("the page has no bytes called {name}"))
    }

    /// All bytes of a block.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        self.lines(name).iter().flat_map(|line| line.bytes.iter().copied()).collect()
    }
}

impl Table {
    fn push(&mut self, cells: impl Iterator<Item = &'static str>) {
        let cells: Vec<_> = cells.collect();
        if self.columns.is_empty() {
            self.columns = cells;
        } else if !cells.iter().all(|cell| cell.chars().all(|c| c == '-')) || cells.is_empty() {
            assert_eq!(cells.len(), self.columns.len(), "cells of {cells:?}");
            self.rows.push(cells);
        }
    }

    /// What stands in a column of a row.
    pub(crate) fn cell(&self, row: &[&'static str], column: &str) -> &'static str {
        let place = self.columns.iter().position(|name| *name == column);
        row[place.unwrap_or_else(|| panic!("no column {column} in {:?}", self.columns))]
    }

    /// Tag and name of every row.
    pub(crate) fn tags(&self) -> impl Iterator<Item = (u8, &'static str)> {
        self.rows.iter().map(|row| {
            let tag = self.cell(row, "tag").parse().expect("a tag is a number");
            (tag, self.cell(row, "name"))
        })
    }
}

impl Line {
    fn read(line: &'static str) -> Self {
        let (bytes, says) = line.split_once(';').unwrap_or((line, ""));
        let byte = |hex| u8::from_str_radix(hex, 16).unwrap_or_else(|_| panic!("{hex} in {line}"));
        Self { bytes: bytes.split_whitespace().map(byte).collect(), says: says.trim() }
    }
}

/// Bytes as the page writes them, for messages.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
