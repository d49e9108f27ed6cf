//! `bellwether queue set`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::SettingsPatch;
use clap::Args;

use super::super::failure::{Ended, Failure};
use super::super::fence::UnderFence;
use super::super::reach::Reach;
use super::settings::Settings;
use super::show::show;

const EXAMPLES: &str = "\
Examples:
  bellwether queue set orders --lock 5m
  bellwether queue set orders --ttl none --dead-letter-expired
  bellwether queue set orders --forward-dead-letters-to graveyard";

/// Change a queue's settings; locks that stand are not touched.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Set {
    /// Which queue.
    queue: String,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl Set {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let patch = self.settings.patch();
        if patch == SettingsPatch::default() {
            let why = "name at least one setting, as in --lock 5m; --help lists them";
            return Err(Failure::Usage(why.into()));
        }
        self.reach.look(out, async |store, screen| {
            let store = &self.fence.of(store);
            let queue = store.queue(&self.queue)?;
            let (info, outage) = (queue.update(patch).await?, queue.outage().await?);
            show(screen, &info, outage.as_ref())?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
