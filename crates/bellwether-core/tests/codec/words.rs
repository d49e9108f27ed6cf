//! Words of refusals: those this program says, it also understands.

use std::fs;
use std::path::Path;

use super::{Coded, bytes_of};
use bellwether_core::codec::Reader;
use bellwether_core::error::Refusal;

fn sent_over(what: &'static str) -> Result<Refusal, impl std::fmt::Debug> {
    Refusal::decode(&mut Reader::new(&bytes_of(&Refusal::TooMany { what, max: 3 })))
}

/// The literals after `before` in all files below `folder`.
fn literals_after(before: &str, folder: &Path, found: &mut Vec<&'static str>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            literals_after(before, &path, found);
        } else {
            let source: &'static str = fs::read_to_string(&path).unwrap().leak();
            let literals = source.split(before).skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(literals);
        }
    }
}

#[test]
fn every_word_said_is_understood() {
    let mut words = Vec::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for before in ["what: \"", "between(\"", "invalid(\"", "check_name(\""] {
        literals_after(before, &source, &mut words);
    }
    assert!(words.contains(&"lock_ms"), "the search finds nothing");
    for what in words {
        let read = sent_over(what).unwrap();
        assert_eq!(read, Refusal::TooMany { what, max: 3 }, "add it to codec/words.rs");
    }
}

#[test]
fn an_unknown_word_is_read_as_some_value() {
    let read = sent_over("a word of tomorrow").unwrap();
    assert_eq!(read, Refusal::TooMany { what: "value", max: 3 });
}
