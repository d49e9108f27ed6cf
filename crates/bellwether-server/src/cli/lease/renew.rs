//! `bellwether lease renew`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::LeaseId;
use clap::Args;

use super::super::failure::Ended;
use super::super::form::lease::parse_id;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether lease renew backup --id 0123456789abcdef0123456789abcdef";

/// Start a lease's time anew.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Renew {
    /// Which lease.
    lease: String,
    /// The id it is held under, as `lease acquire` printed it.
    #[arg(long, value_parser = parse_id)]
    id: LeaseId,
    #[command(flatten)]
    reach: Reach,
}

impl Renew {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let grant = store.lease(&self.lease)?.renew(self.id).await?;
            super::granted(screen, &self.lease, &grant)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
