//! `bellwether request send`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use bellwether::Message;
use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::human::parse_duration;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether request send sums '6 times 7'
  bellwether request send sums '6 times 7' --id r1 --wait 10s
  bellwether request send sums '{\"a\": 6}' --content-type application/json --keep 1d";

/// Send a message and keep a result for it; with --wait, wait for it.
///
/// The id names the request, and is drawn if not said. The same id again asks nothing again and
/// tells the same answer.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Send {
    /// Where to.
    queue: String,
    /// The body.
    body: String,
    /// The request's name, and its message's id.
    #[arg(long)]
    id: Option<String>,
    /// What the body is, as a media type.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Wait so long for the answer; the wait may end without one.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// The result is kept so long after it was last written.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    keep: Duration,
    #[command(flatten)]
    reach: Reach,
}

impl Send {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let queue = store.queue(&self.queue)?;
            let mut message = Message::new(&self.body);
            message.id.clone_from(&self.id);
            message.content_type.clone_from(&self.content_type);
            let id = queue.request(message).keep(self.keep).send().await?;
            let result = match self.wait {
                Some(wait) => queue.result(&id, wait).await?,
                None => None,
            };
            match result {
                Some(result) => super::tell(screen, &id, &result)?,
                None => screen.say(
                    &format!("asked {id:?} of {:?}", self.queue),
                    &json!({ "queue": self.queue, "request": id }),
                )?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
