//! `bellwether lease release`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::LeaseId;
use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::form::lease::parse_id;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether lease release backup --id 0123456789abcdef0123456789abcdef";

/// Give a lease back, so that the next in line has it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Release {
    /// Which lease.
    lease: String,
    /// The id it is held under, as `lease acquire` printed it.
    #[arg(long, value_parser = parse_id)]
    id: LeaseId,
    #[command(flatten)]
    reach: Reach,
}

impl Release {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            store.lease(&self.lease)?.release(self.id).await?;
            let name = &self.lease;
            screen.say(
                &format!("lease {name:?} is given back"),
                &json!({ "lease": name, "released": true }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
