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
        set_status(&self.reach, out, &self.queue, status, false)
    }
}

/// Sets a queue's status, ends its outage if that is wanted, and says so.
pub(super) fn set_status(
    reach: &Reach,
    out: &mut dyn Write,
    queue: &str,
    status: Status,
    ends_outage: bool,
) -> Ended {
    reach.look(out, async |store, screen| {
        let patch = SettingsPatch { status: Some(status), ..SettingsPatch::default() };
        let queue = store.queue(queue)?;
        let info = queue.update(patch).await?;
        let ended = if ends_outage { queue.end_outage().await? } else { None };
        let (name, status) = (info.name.as_str(), status_name(info.settings.status));
        let mut json = json!({ "queue": name, "status": status });
        if ends_outage {
            json["ended_outage"] = ended.is_some().into();
        }
        screen.say(
            &match ended {
                None => format!("queue {name:?} is {status}"),
                Some(_) => format!("queue {name:?} is {status}, and its outage is over"),
            },
            &json,
        )?;
        Ok(ExitCode::SUCCESS)
    })
}
