//! Asking before something is lost.

use std::io::{self, IsTerminal as _, Write as _};

use clap::Args;

use super::failure::Failure;

/// The answer given ahead.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Yes {
    /// Do not ask; without a terminal this is needed.
    #[arg(long, short)]
    yes: bool,
}

impl Yes {
    /// Whether to go on. Asks on a terminal; where there is none, silence is no answer.
    pub(crate) fn confirm(self, question: &str) -> Result<bool, Failure> {
        if self.yes {
            return Ok(true);
        }
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(Failure::Usage(format!(
                "{question} There is no terminal to ask on: say --yes to go ahead"
            )));
        }
        eprint!("{question} [y/N] ");
        io::stderr().flush()?;
        let mut answer = String::new();
        let what = || "the answer".to_owned();
        io::stdin()
            .read_line(&mut answer)
            .map_err(|error| Failure::Input { what: what(), error })?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}
