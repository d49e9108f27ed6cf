//! `bellwether queue pause`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::{SettingsPatch, Status};
use clap::{Args, ValueEnum};
use serde_json::json;

use super::super::failure::Ended;
use super::super::form::queue::status_name;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether queue pause orders
  bellwether queue pause orders --what both";

/// What a pause stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum What {
    /// Receivers get nothing; senders go on.
    #[default]
    Receiving,
    /// Senders are refused; receivers go on.
    Sending,
    /// Both.
    Both,
}

/// Stop handing out messages, or taking them in, until `resume`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pause {
    /// Which queue.
    queue: String,
    /// What stops.
    #[arg(long, value_enum, default_value_t)]
    what: What,
    #[command(flatten)]
    reach: Reach,
}

impl Pause {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let status = match self.what {
            What::Receiving => Status::ReceiveDisabled,
            What::Sending => Status::SendDisabled,
            What::Both => Status::Disabled,
        };
        set_status(&self.reach, out, &self.queue, status)
    }
}

/// Sets a queue's status and says so.
pub(super) fn set_status(reach: &Reach, out: &mut dyn Write, queue: &str, status: Status) -> Ended {
    reach.look(out, async |store, screen| {
        let patch = SettingsPatch { status: Some(status), ..SettingsPatch::default() };
        let info = store.queue(queue)?.update(patch).await?;
        let (name, status) = (info.name.as_str(), status_name(info.settings.status));
        screen.say(
            &format!("queue {name:?} is {status}"),
            &json!({ "queue": name, "status": status }),
        )?;
        Ok(ExitCode::SUCCESS)
    })
}
