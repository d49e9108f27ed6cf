//! What the documentation shows is what the code runs.

use bellwether::fencing::{postgres, redis};

const DOCS: &str = include_str!("../../../../docs/fencing.md");

#[test]
fn the_sql_and_the_script_in_the_documentation_are_those_that_run() {
    for text in [postgres::SETUP_SQL, redis::FENCED_LUA] {
        assert!(DOCS.contains(text.trim_end()), "docs/fencing.md does not hold this:\n{text}");
    }
}
