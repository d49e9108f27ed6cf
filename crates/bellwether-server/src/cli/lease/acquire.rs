//! `bellwether lease acquire`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use bellwether::{LeaseId, Ttl};
use clap::Args;

use super::super::failure::Ended;
use super::super::form::lease::parse_id;
use super::super::human::parse_duration;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether lease acquire backup --ttl 60s
  bellwether lease acquire backup --ttl 60s --wait 5m --metadata 'nightly on db-1'
  bellwether lease acquire migration --ttl forever --output json | jq -r .id";

/// Take a lease that stands by itself.
///
/// It ends when its time is over unless it is renewed under the id that is printed; the term is the
/// fencing token, to be shown to everything that is written under it. Ends with 75 if somebody else
/// holds it when the wait is over.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Acquire {
    /// Which lease.
    lease: String,
    /// How long it lasts without a renewal: a duration, or forever.
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    ttl: TtlArg,
    /// Wait in line so long while somebody else holds it.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "0s")]
    wait: Duration,
    /// What others see of the holder.
    #[arg(long, value_name = "TEXT", default_value = "")]
    metadata: String,
    /// The id to hold it under, so that the same call can be repeated: 32 hex digits.
    #[arg(long, value_parser = parse_id)]
    id: Option<LeaseId>,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Clone, Copy, Debug)]
struct TtlArg(Ttl);

fn parse_ttl(text: &str) -> Result<TtlArg, String> {
    if text == "forever" {
        return Ok(TtlArg(Ttl::Infinite));
    }
    let told = |why| format!("{why}, or forever");
    parse_duration(text).map(|ttl| TtlArg(Ttl::Fixed(ttl))).map_err(told)
}

impl Acquire {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let lease = store.lease(&self.lease)?.wait(self.wait).metadata(&self.metadata);
            let grant = match self.id {
                Some(id) => lease.acquire_as(id, self.ttl.0).await?,
                None => lease.acquire(self.ttl.0).await?,
            };
            super::granted(screen, &self.lease, &grant)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
