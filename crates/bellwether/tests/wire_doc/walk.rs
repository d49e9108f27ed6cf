//! A reader that knows nothing but the page: it walks bytes along the page's own tables.
//!
//! What it finds is compared with what was written, field by field and by name, so that a table
//! with fields missing, of the wrong type or in the wrong order does not pass.

use bellwether::core::codec::Reader;

use crate::page::Page;

/// One value that was found, with where the page says it stands.
#[derive(Debug)]
pub(crate) struct Found {
    /// The table.
    table: String,
    /// The row, in a table of a choice.
    row: String,
    field: String,
    /// The value in the forms in which Rust may print it.
    prints: Vec<String>,
}

/// See the module.
pub(crate) struct Walk<'a> {
    page: &'a Page,
    bytes: Reader<'a>,
    found: Vec<Found>,
    at: (String, String, String),
    /// The flags that were read last: a structure without its own means those of its settings.
    flags: u8,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(page: &'a Page, bytes: &'a [u8]) -> Self {
        Self { page, bytes: Reader::new(bytes), found: Vec::new(), at: <_>::default(), flags: 0 }
    }

    /// Walks over a value of the named type.
    pub(crate) fn over(&mut self, kind: &str) {
        if let Some(inner) = kind.strip_suffix('?') {
            if self.number_of_byte() == 1 {
                self.over(inner);
            }
        } else if let Some(inner) = kind.strip_prefix('[').and_then(|k| k.strip_suffix(']')) {
            let outer = self.unnamed();
            for _ in 0..self.bytes.len_of_next().expect("how many") {
                self.over(inner);
            }
            self.at = outer;
        } else if let Some(inner) = kind.strip_prefix('(').and_then(|k| k.strip_suffix(')')) {
            let outer = self.unnamed();
            for kind in split(inner) {
                self.over(kind);
            }
            self.at = outer;
        } else if kind.starts_with(|c: char| c.is_ascii_uppercase()) {
            self.over_table(kind);
        } else {
            let prints = self.primitive(kind);
            let (table, row, field) = self.at.clone();
            self.found.push(Found { table, row, field, prints });
        }
    }

    fn over_table(&mut self, name: &str) {
        let table = self.page.table(name);
        let outer = std::mem::take(&mut self.at);
        if table.columns[0] == "tag" {
            let tag = self.bytes.byte("a tag").expect("a tag").to_string();
            let row = table.rows.iter().find(|row| row[0] == tag);
            let row = row.unwrap_or_else(|| panic!("`{name}` has no tag {tag}"));
            for field in split(table.cell(row, "fields")) {
                let (field, kind) = field.split_once(": ").expect("a field is `name: type`");
                self.at = (name.into(), table.cell(row, "name").into(), field.into());
                self.over(kind);
            }
        } else {
            let mut own_flags = None;
            for row in &table.rows {
                let field = table.cell(row, "field");
                let kind = table.cell(row, "type");
                if field == "flags" {
                    self.flags = self.number_of_byte();
                    own_flags = Some(self.flags);
                    continue;
                }
                let (kind, bit) = match kind.split_once(" if ") {
                    Some((kind, bit)) => (kind, bit.parse().expect("a bit is a number")),
                    None => (kind, 0),
                };
                if bit == 0 || own_flags.unwrap_or(self.flags) & bit != 0 {
                    self.at = (name.into(), String::new(), field.into());
                    self.over(kind);
                }
            }
        }
        self.at = outer;
    }

    /// What lies in lists and pairs has no name of its own.
    fn unnamed(&mut self) -> (String, String, String) {
        let (table, row, _) = self.at.clone();
        std::mem::replace(&mut self.at, (table, row, String::new()))
    }

    fn number_of_byte(&mut self) -> u8 {
        self.bytes.byte("a byte").expect("a byte")
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.bytes.array("bytes").expect("so many bytes")
    }

    fn primitive(&mut self, kind: &str) -> Vec<String> {
        let width = kind.get(1..).and_then(|bits| bits.parse::<u32>().ok());
        match (kind, width) {
            ("byte", _) => vec![self.number_of_byte().to_string()],
            ("i8", _) => vec![self.number_of_byte().cast_signed().to_string()],
            ("bool", _) => {
                let byte = self.number_of_byte();
                assert!(byte < 2, "a bool of {byte}");
                vec![(byte == 1).to_string()]
            }
            ("bits64", _) => vec![u64::from_le_bytes(self.array()).to_string()],
            ("bits128", _) => {
                let number = u128::from_le_bytes(self.array());
                vec![number.to_string(), format!("{number:032x}")]
            }
            ("f32", _) => vec![format!("{:?}", f32::from_le_bytes(self.array()))],
            ("f64", _) => vec![format!("{:?}", f64::from_le_bytes(self.array()))],
            ("uuid", _) => vec![format!("{:?}", self.array::<16>())],
            ("text", _) => vec![format!("{:?}", self.bytes.text().expect("a text"))],
            ("bytes", _) => {
                let len = self.bytes.len_of_next().expect("a length");
                vec![format!("b{:?}", String::from_utf8_lossy(self.bytes.take(len).unwrap()))]
            }
            (_, Some(bits)) if kind.starts_with('u') => {
                let number = self.bytes.number().expect("a number");
                assert!(number <= u64::MAX >> (64 - bits), "{number} is wider than {kind}");
                let mut prints = vec![number.to_string()];
                prints.extend(u32::try_from(number).ok().and_then(char::from_u32).map(print_char));
                prints
            }
            (_, Some(bits)) if kind.starts_with('i') => {
                let folded = self.bytes.number().expect("a number");
                assert!(folded <= u64::MAX >> (64 - bits), "{folded} is wider than {kind}");
                let number = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
                vec![number.to_string()]
            }
            _ => panic!("the page names a type {kind:?} that it does not explain"),
        }
    }

    /// Nothing may be left; then what was found is compared with the `Debug` form of what was
    /// written.
    pub(crate) fn finish(self, written: &str) {
        let left = self.bytes.remaining();
        assert_eq!(left, 0, "{left} bytes are left over of {written}; found {:#?}", self.found);
        for found in &self.found {
            assert!(found.is_in(written), "{found:?} is not in {written}");
        }
    }
}

impl Found {
    fn is_in(&self, written: &str) -> bool {
        let any = |form: &dyn Fn(&str) -> String| {
            self.prints.iter().any(|print| written.contains(&form(print)))
        };
        match (self.table.as_str(), self.field.as_str()) {
            // Printed as `sequence/number@incarnation`.
            ("LockToken", "sequence") => any(&|print| format!("{print}/")),
            ("LockToken", "number") => any(&|print| format!("/{print}@")),
            ("LockToken", "incarnation") => any(&|print| format!("@{print}")),
            (_, "") => any(&str::to_owned),
            // A pair in Rust, and a word.
            ("Hello", "version_min" | "version_max") | ("Goodbye", "why") => true,
            // Never printed.
            ("Hello", "credential") => written.contains("credential: \"<secret>\""),
            (_, field) => {
                stands_behind(written, &format!("{field}: "), &self.prints)
                    || stands_behind(written, &format!("{}(", self.row), &self.prints)
            }
        }
    }
}

/// Whether one of the values stands behind one of the places where `label` does. Types of one
/// field stand around it, as in `term: Term(7)`.
fn stands_behind(written: &str, label: &str, prints: &[String]) -> bool {
    written.match_indices(label).any(|(place, _)| {
        let before = written[..place].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            return false;
        }
        let mut rest = &written[place + label.len()..];
        loop {
            let is_value = |print: &String| {
                rest.strip_prefix(print.as_str())
                    .is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric()))
            };
            if prints.iter().any(is_value) {
                return true;
            }
            let wrapper = rest.find(|c: char| !c.is_alphanumeric());
            match wrapper.filter(|end| *end > 0).and_then(|end| rest[end..].strip_prefix('(')) {
                Some(inner) => rest = inner,
                None => return false,
            }
        }
    })
}

/// A character travels as a number.
fn print_char(c: char) -> String {
    format!("{c:?}")
}

/// Cuts a list at the commas that are not inside parentheses.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (place, c) in list.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..place].trim());
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(list[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}
