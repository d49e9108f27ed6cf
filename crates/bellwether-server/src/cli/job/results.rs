//! `bellwether job results`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::core::limits;
use bellwether::job::Which;
use clap::Args;

use super::super::failure::Ended;
use super::super::form::job as form;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether job results thumbnails
  bellwether job results thumbnails --from 5000 --output json | jq -r .text";

/// What came of the items that are done, in their order: a line each, or a JSON object a line.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Results {
    /// Which job.
    job: String,
    /// From this index on.
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    from: u32,
    #[command(flatten)]
    reach: Reach,
}

impl Results {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let job = store.job(&self.job)?;
            let mut from = self.from;
            loop {
                let some = job.items(from, limits::RECEIVE_MESSAGES_MAX, Which::Done).await?;
                let Some(last) = some.last() else { return Ok(ExitCode::SUCCESS) };
                from = last.info.index + 1;
                for item in &some {
                    if screen.is_json() {
                        screen.json(&form::item(item))?;
                    } else {
                        screen.bytes(item.result.as_deref().unwrap_or_default())?;
                        screen.bytes(b"\n")?;
                    }
                }
            }
        })
    }
}
