//! `bellwether work`: a command that is run for message after message.

mod child;
mod environment;
mod input;
mod plan;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bellwether::pump::{Pump, PumpCounts, PumpError, PumpHandle, Retry, Work as Message};
use bellwether::{Bellwether, Queue};
use clap::{Args, ValueEnum};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::failure::{Ended, Failure};
use super::fence::UnderFence;
use super::form::time;
use super::human::{Span, ms, parse_duration};
use super::reach::{Reach, half, now};
use super::screen::Format;
use super::stop::Stop;
use plan::Plan;

const EXAMPLES: &str = "\
Examples:
  bellwether work orders -- ./make-order
  bellwether work orders --concurrency 8 --timeout 5m -- python3 make.py
  bellwether work questions --reply -- ./answer
  bellwether work accounts --session --concurrency 4 -- ./book
  bellwether work orders --input file --until-empty -- sh -c 'convert \"$BELLWETHER_BODY\" out.png'";

const EXIT_CODES: &str = "\
What the command's exit code says:
  0       done: the message is completed; with --reply, what it wrote is the reply
  65      it can never work: a dead letter, described by the end of its error output
  75      not now: the message comes back after --retry-after, or as after a failure
  others, a signal, --timeout   a failure: it comes back after a delay that grows each time, until
          the queue makes it a dead letter

Exit codes:
  0       told to stop by SIGTERM or SIGINT, and all that ran has ended and is settled; with
          --until-empty, nothing was left to do
  126,127 the command cannot be run; it is not there: nothing was received
  130     told twice: what ran was killed and given back
  others  as for every command";

/// How often an empty queue is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Run a command for every message of a queue, so many at once.
///
/// The command finds the body on its input, or with `--input file` in the file that `BELLWETHER_BODY`
/// names, and everything else in its environment: `BELLWETHER_QUEUE`, `BELLWETHER_SEQUENCE`,
/// `BELLWETHER_DELIVERIES` (1 the first time), `BELLWETHER_DELIVERY` (the token of this delivery, another
/// one each time), `BELLWETHER_ENQUEUED_AT`, as far as the sender has set them `BELLWETHER_MESSAGE_ID`,
/// `_SESSION`, `_SUBJECT`, `_CORRELATION_ID`, `_TO`, `_REPLY_TO`, `_REPLY_TO_SESSION`, `_CONTENT_TYPE`,
/// each property as `BELLWETHER_PROPERTY_NAME`, and all of them as JSON in `BELLWETHER_PROPERTIES`.
///
/// The message is kept locked while its command runs. If the lock is lost all the same, or the command
/// takes longer than `--timeout`, its process group is sent SIGTERM and after `--grace` SIGKILL; if this
/// process is killed, the command is killed as well. SIGTERM or SIGINT takes no more, lets what runs end
/// for `--drain`, and tells it to stop then; a second one kills it. What was told to stop and has not
/// done its work is given back uncounted.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Work {
    /// Where the messages come from.
    queue: String,
    /// So many commands at once; with --session, in so many sessions at once.
    #[arg(long, short, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    concurrency: u32,
    /// A command that takes longer is stopped, and that is a failure [default: as long as it likes].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// For a queue with sessions: the messages of a session are handled one after the other.
    #[arg(long, conflicts_with = "dead_letters")]
    session: bool,
    /// What the command writes to its output becomes the reply, if the message asks for one.
    #[arg(long)]
    reply: bool,
    /// How the command gets the body.
    #[arg(long, value_enum, default_value_t, value_name = "WAY")]
    input: Input,
    /// From the queue's dead letters.
    #[arg(long)]
    dead_letters: bool,
    /// After exit code 75 the message comes back after so long.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    retry_after: Option<Duration>,
    /// After its first failure a message comes back after so long; after each further one, twice as
    /// long.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1s")]
    backoff: Duration,
    /// But never longer than this.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "5m")]
    backoff_max: Duration,
    /// How long a command may take to stop when it is told to.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    grace: Duration,
    /// How long commands may go on when this is told to stop, before they are told as well.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    drain: Duration,
    /// End when no message is ready and no command runs.
    #[arg(long)]
    until_empty: bool,
    /// Say nothing of what goes wrong with messages.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// How the command gets the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Input {
    /// On its input.
    #[default]
    Stdin,
    /// In the file that `BELLWETHER_BODY` names.
    File,
}

impl Work {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        if let Err((code, words)) = child::can_run(&self.command) {
            eprintln!("bellwether: {words}");
            return Ok(ExitCode::from(code));
        }
        self.reach.look(out, async |store, _| {
            let store = &self.fence.of(store);
            let mut stop = Stop::listen()?;
            self.pump(store, &mut stop).await
        })
    }

    async fn pump(&self, store: &Bellwether, stop: &mut Stop) -> Ended {
        let queue = half(store.queue(&self.queue)?, self.dead_letters);
        // A queue that is not there is a slip of the pen; one that goes later may come again.
        queue.info().await?;
        let pump = self.configured(&queue);
        let handle = pump.handle();
        let (shutdown, hurry) = (CancellationToken::new(), CancellationToken::new());
        let plan = Arc::new(Plan {
            command: self.command.clone(),
            queue: self.queue.clone(),
            input: self.input,
            reply: self.reply,
            timeout: self.timeout,
            retry_after: self.retry_after,
            grace: self.grace,
            hurry: hurry.clone(),
        });
        let handler = move |message: Message| {
            let plan = Arc::clone(&plan);
            async move { plan.handle(message).await }
        };
        let run = pump.run(handler, shutdown.clone());
        let mut run = std::pin::pin!(run);
        tokio::select! {
            ended = &mut run => return ended.map(|()| ExitCode::SUCCESS).map_err(Failure::from),
            () = stop.asked() => {}
            emptied = until_empty(&queue, &handle), if self.until_empty => emptied?,
        }
        shutdown.cancel();
        tokio::select! {
            ended = &mut run => return ended.map(|()| ExitCode::SUCCESS).map_err(Failure::from),
            () = stop.asked() => hurry.cancel(),
        }
        run.await?;
        let words = "told twice to stop: what ran was killed, and its messages given back";
        Err(Failure::Stopped(words.into()))
    }

    fn configured(&self, queue: &Queue) -> Pump {
        let mut pump = queue.pump();
        pump = if self.session {
            pump.sessions(self.concurrency)
        } else {
            pump.concurrency(self.concurrency)
        };
        let (base_ms, max_ms) = (ms(self.backoff), ms(self.backoff_max));
        let (quiet, format) = (self.quiet, self.reach.output);
        pump.retry(Retry { base_ms, max_ms, ..Retry::default() })
            .stop_grace(self.drain)
            // A command may take as long as --timeout says.
            .renew_max(Duration::MAX)
            .on_error(move |error| {
                if !quiet {
                    tell(error, format);
                }
            })
    }
}

/// Ready when there is nothing to do: no command runs, and no message waits for one.
async fn until_empty(queue: &Queue, handle: &PumpHandle) -> Result<(), Failure> {
    let is_still = |counts: &PumpCounts| {
        counts.receiving && counts.waiting + counts.running + counts.settling == 0
    };
    loop {
        let before = handle.wait_for(is_still).await;
        let counts = queue.info().await?.counts;
        let ready = if queue.is_dead_letters() { counts.dead_letters } else { counts.ready };
        let after = handle.counts();
        if ready == 0 && is_still(&after) && after.handled == before.handled {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What goes wrong, as a sentence for people or an object for programs.
fn tell(error: &PumpError, format: Format) {
    if format == Format::Table {
        eprintln!("bellwether: {error}");
        return;
    }
    let told = json!({
        "at": time(now()),
        "queue": error.queue.queue.as_str(),
        "event": format!("{:?}", error.source).to_lowercase(),
        "why": format!("{:?}", error.why).to_lowercase(),
        "sequence": error.sequence.map(|sequence| sequence.0),
        "error": error.error.as_ref().map(ToString::to_string),
    });
    eprintln!("{told}");
}
