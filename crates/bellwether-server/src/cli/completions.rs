//! `bellwether completions`.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use super::failure::Ended;

const EXAMPLES: &str = "\
Examples:
  bellwether completions bash > ~/.local/share/bash-completion/completions/bellwether
  bellwether completions zsh > ~/.zfunc/_bellwether
  bellwether completions fish > ~/.config/fish/completions/bellwether.fish";

/// Write what a shell needs to complete these commands.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// Which shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        // Into memory first: the generator panics where the reader has gone.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "bellwether", &mut script);
        out.write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}
