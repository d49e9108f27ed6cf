//! `bellwether serve`.

use std::process::ExitCode;

use clap::Args;

use super::Failure;

const NOT_YET: &str = "the server comes with the next version: this one has no network. \
    What works today is the library inside one process, opened at a `file:` or `memory:` address, \
    and `bellwether journal` for looking at a `file:` store";

/// Start the server (comes with the next version; exits with 69).
#[derive(Debug, Args)]
pub(crate) struct Serve {}

impl Serve {
    #[expect(clippy::unused_self, reason = "the server will have options")]
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        Err(Failure::NotYet(NOT_YET))
    }
}
