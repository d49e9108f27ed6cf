//! `bellwether send`.

use std::io::{self, IsTerminal as _, Read as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bellwether::message::{BodyKind, Value};
use bellwether::{Message, Queue, QueueSettings, SequenceNumber};
use clap::{Args, ValueEnum};
use serde_json::json;

use super::failure::{Ended, Failure};
use super::fence::UnderFence;
use super::form::value::parse_property;
use super::human::{When, parse_duration, parse_when};
use super::lines::Lines;
use super::progress::Progress;
use super::reach::{Absent, Reach, now};
use super::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  bellwether send orders 'two coffees'
  bellwether send orders --file order.json --content-type application/json --id order-17
  bellwether send orders 'later' --delay 5m --property tries:int=1
  bellwether send orders --batch 500 < lines.txt
  seq 1 1000 | bellwether send orders --data ./store --create";

/// A batch is sent when its bodies are so large together, however few they are.
const BATCH_BYTES_MAX: usize = 4 << 20;
const BATCH_DEFAULT: usize = 100;

/// Kind of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Bytes, as they are.
    #[default]
    Data,
    /// One value, as AMQP encodes it.
    Value,
    /// Lists of values, as AMQP encodes them.
    Sequence,
}

/// Send messages: one from the command line or a file, or one for every line of the input.
///
/// When this ends without an error all of them are flushed to disk. Stopped by Ctrl-C it says how
/// many lines are, and ends with 130.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Send {
    /// Where to.
    queue: String,
    /// The body; without it and without --file every line of the input is a message.
    #[arg(conflicts_with = "file")]
    body: Option<String>,
    /// The body is this file, whole; `-` is the input.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Lines sent together, all or none [default: 100, on a terminal 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: Option<u32>,
    #[command(flatten)]
    fields: Fields,
    /// Make the queue if it is not there, and with --data the store.
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

/// What a message says besides its body.
#[derive(Clone, Debug, Args)]
struct Fields {
    /// The sender's name for it; a queue that detects duplicates takes each id once.
    #[arg(long)]
    id: Option<String>,
    /// The ordered group it belongs to.
    #[arg(long)]
    session: Option<String>,
    /// From 0 to 9, and 9 is received first [default: 4].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Whose it is, for fairness: keys take turns, however many messages each has.
    #[arg(long)]
    key: Option<String>,
    /// What it is about.
    #[arg(long)]
    subject: Option<String>,
    /// The id of what it belongs to or answers.
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Whom it is meant for.
    #[arg(long)]
    to: Option<String>,
    /// The queue an answer goes to.
    #[arg(long, value_name = "QUEUE")]
    reply_to: Option<String>,
    /// The session an answer goes to.
    #[arg(long, value_name = "SESSION")]
    reply_to_session: Option<String>,
    /// What the body is, as a media type.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// A property: NAME=TEXT, or NAME:TYPE=VALUE as in tries:int=3. May be repeated.
    #[arg(long = "property", short, value_name = "NAME=VALUE", value_parser = parse_property)]
    properties: Vec<(String, Value)>,
    /// It expires so long after it was enqueued; at least 1ms.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,
    /// Not to be received before so long from now.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// Not to be received before this time: RFC 3339, or +5m.
    #[arg(long, value_name = "TIME", value_parser = parse_when, conflicts_with = "delay")]
    at: Option<When>,
    /// How the body is to be read.
    #[arg(long, value_enum, default_value_t, value_name = "KIND")]
    body_kind: Kind,
}

impl Fields {
    fn message(&self, body: Vec<u8>) -> Message {
        let mut message = Message::new(body).body_kind(match self.body_kind {
            Kind::Data => BodyKind::Data,
            Kind::Value => BodyKind::Value,
            Kind::Sequence => BodyKind::Sequence,
        });
        message.id.clone_from(&self.id);
        message.session.clone_from(&self.session);
        message.priority = self.priority;
        message.key.clone_from(&self.key);
        message.subject.clone_from(&self.subject);
        message.correlation_id.clone_from(&self.correlation_id);
        message.to.clone_from(&self.to);
        message.reply_to.clone_from(&self.reply_to);
        message.reply_to_session.clone_from(&self.reply_to_session);
        message.content_type.clone_from(&self.content_type);
        message.properties = self.properties.iter().cloned().collect();
        message.ttl = self.ttl;
        let due = self.at.or(self.delay.map(When::In));
        message.scheduled_at = due.map(|due| due.wall(now()));
        message
    }
}

impl Send {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let whole = self.whole_body()?;
        if whole.is_none() && self.fields.id.is_some() {
            let why = "--id names one message; give its body as an argument or with --file";
            return Err(Failure::Usage(why.into()));
        }
        self.reach.run(out, Absent::unless(self.create), async |store, screen| {
            let store = &self.fence.of(store);
            let queue = store.queue(&self.queue)?;
            if self.create {
                store.create_queue(&self.queue, QueueSettings::default()).await?;
            }
            let sent = match whole {
                Some(body) => vec![queue.send(self.fields.message(body)).await?],
                None => self.send_lines(&queue).await?,
            };
            let name = queue.name().as_str();
            screen.say(&sentence(name, &sent), &told(name, &sent))?;
            Ok(ExitCode::SUCCESS)
        })
    }

    /// The one body that was given, if it was.
    fn whole_body(&self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(path) = &self.file else {
            return Ok(self.body.as_ref().map(|body| body.clone().into_bytes()));
        };
        let what = path.display().to_string();
        let read = if path.as_os_str() == "-" {
            let mut body = Vec::new();
            io::stdin().lock().read_to_end(&mut body).map(|_| body)
        } else {
            std::fs::read(path)
        };
        read.map(Some).map_err(|error| Failure::Input { what, error })
    }

    async fn send_lines(&self, queue: &Queue) -> Result<Vec<SequenceNumber>, Failure> {
        let mut stop = Stop::listen()?;
        let mut lines = Lines::of("the input", io::stdin())?;
        let usual = if io::stdin().is_terminal() { 1 } else { BATCH_DEFAULT };
        let batch_max = self.batch.map_or(usual, |batch| batch as usize);
        let progress = Progress::of_input("sent", "every line is sent as a message");
        let mut sent = Vec::new();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        loop {
            let line = tokio::select! {
                line = lines.next() => line?,
                () = stop.asked() => return Err(interrupted(sent.len(), 0)),
            };
            let ended = line.is_none();
            if let Some(line) = line {
                bytes += line.len();
                batch.push(self.fields.message(line));
            }
            if batch.len() >= batch_max || bytes >= BATCH_BYTES_MAX || (ended && !batch.is_empty())
            {
                let count = batch.len() as u64;
                match stop.after(queue.send_batch(std::mem::take(&mut batch))).await {
                    Some(Ok(numbers)) => sent.extend(numbers),
                    Some(Err(error)) => return Err(stopped(sent.len(), count, error)),
                    None => return Err(interrupted(sent.len(), count)),
                }
                bytes = 0;
                progress.add(count);
            }
            if ended {
                return Ok(sent);
            }
        }
    }
}

/// What was sent before the failure stays sent: whoever sends the rest must know how much.
fn stopped(sent: usize, batch: u64, error: bellwether::Error) -> Failure {
    if sent > 0 {
        eprintln!(
            "bellwether: the first {sent} lines were sent, the {batch} after them were not accepted"
        );
    }
    error.into()
}

/// Where to go on after Ctrl-C; `unknown` lines are on their way.
fn interrupted(sent: usize, unknown: u64) -> Failure {
    let next = sent + 1;
    let done = match sent {
        0 => "stopped; no line was sent".into(),
        1 => "stopped; the first line was sent and acknowledged, line 2 is the next".into(),
        sent => format!(
            "stopped; the first {sent} lines were sent and acknowledged, line {next} is the next"
        ),
    };
    Failure::Stopped(match unknown {
        0 => done,
        unknown => format!("{done}; of {unknown} from line {next} on it is not known"),
    })
}

fn sentence(queue: &str, sent: &[SequenceNumber]) -> String {
    let numbers: Vec<u64> = sent.iter().map(|n| n.0).filter(|n| *n != 0).collect();
    let dropped = sent.len() - numbers.len();
    let duplicates = match dropped {
        0 => String::new(),
        dropped => format!("; {dropped} dropped as duplicates"),
    };
    match numbers[..] {
        [] => format!("sent nothing to {queue:?}{duplicates}"),
        [one] => format!("sent message {one} to {queue:?}{duplicates}"),
        [first, .., last] => {
            let count = numbers.len();
            format!("sent {count} messages to {queue:?}, {first} to {last}{duplicates}")
        }
    }
}

fn told(queue: &str, sent: &[SequenceNumber]) -> serde_json::Value {
    let numbers: Vec<u64> = sent.iter().map(|n| n.0).filter(|n| *n != 0).collect();
    let duplicates = sent.len() - numbers.len();
    json!({ "queue": queue, "sequences": numbers, "duplicates": duplicates })
}
