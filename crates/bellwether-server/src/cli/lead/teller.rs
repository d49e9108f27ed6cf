//! What `lead` tells of itself: on the error output, because the other one is its command's.

use serde_json::{Value, json};

use super::super::form::time;
use super::super::reach::now;
use super::super::screen::Format;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Teller {
    pub(super) election: String,
    pub(super) format: Format,
    pub(super) quiet: bool,
}

impl Teller {
    /// An event with its details for programs, and as a sentence for people.
    pub(super) fn tell(&self, event: &str, sentence: &str, details: &[(&str, Value)]) {
        if self.quiet {
            return;
        }
        if self.format == Format::Table {
            eprintln!("bellwether: {sentence}");
            return;
        }
        let mut told = json!({ "at": time(now()), "election": self.election, "event": event });
        for (name, value) in details {
            told[*name] = value.clone();
        }
        eprintln!("{told}");
    }
}
