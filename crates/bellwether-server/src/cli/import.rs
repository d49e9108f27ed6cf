//! `bellwether import`.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use bellwether::core::name::QueueName;
use bellwether::{Bellwether, Exported, OrderPatch, SettingsPatch};
use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};

use super::export::VERSION;
use super::failure::{Ended, Failure};
use super::fence::UnderFence;
use super::form::{Fields, exported, queue as form_queue, read_base64};
use super::human::count;
use super::lines::Lines;
use super::progress::Progress;
use super::reach::{Absent, Reach, has_queue};
use super::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  bellwether import store.jsonl
  bellwether import store.jsonl --dry-run
  bellwether import --data ./copy --create < store.jsonl";

/// Messages go in together, all or none: so many at most, and so large.
const BATCH_MAX: usize = 500;
const BATCH_BYTES_MAX: usize = 4 << 20;

/// What became of the messages from the line on at which an import was stopped.
const NOT_IMPORTED: &str = "no message from there on";
const NOT_KNOWN: &str = "of messages from there on it is not known";

/// Read what `bellwether export` wrote: queues, messages with their past, states of sessions.
///
/// A queue that is there keeps its settings and gets the messages added; messages get new numbers.
/// Importing twice adds twice. An error names the line; what was read before it stays. Stopped by
/// Ctrl-C it says up to which line everything is imported, and ends with 130.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Import {
    /// The file; without it the input is read.
    file: Option<PathBuf>,
    /// Read and check everything, change nothing.
    #[arg(long)]
    dry_run: bool,
    /// With --data: make a store in the folder if there is none.
    #[arg(long = "create", requires = "data")]
    make: bool,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl Import {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let lines = match &self.file {
            None => Lines::of("the export", io::stdin())?,
            Some(path) => {
                let what = path.display().to_string();
                let file = File::open(path).map_err(|error| Failure::Input { what, error })?;
                Lines::of("the export", file)?
            }
        };
        self.reach.run(out, Absent::unless(self.make), async |store, screen| {
            let store = &self.fence.of(store);
            let progress = match self.file {
                Some(_) => Progress::of(None, "imported"),
                None => Progress::of_input("imported", "what `export` wrote is read"),
            };
            let mut importing = Importing::new(store, self.dry_run, progress);
            let ended = importing.read(lines).await;
            let Importing { queues, sessions, messages, .. } = importing;
            if let Err(failure) = ended {
                if messages > 0 && !self.dry_run {
                    let before = count(messages, "message");
                    eprintln!("bellwether: {before} imported before this");
                }
                return Err(failure);
            }
            let would = if self.dry_run { "would import" } else { "imported" };
            screen.say(
                &format!(
                    "{would} {}, {}, {}",
                    count(queues, "queue"),
                    count(messages, "message"),
                    count(sessions, "session state")
                ),
                &json!({
                    "queues": queues,
                    "messages": messages,
                    "sessions": sessions,
                    "dry_run": self.dry_run,
                }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

struct Importing<'a> {
    store: &'a Bellwether,
    dry_run: bool,
    progress: Progress,
    /// The one that is put together now, and where it goes.
    batch: Vec<Exported>,
    batch_bytes: usize,
    batch_to: (String, bool),
    /// The line of its first message.
    batch_line: Option<u64>,
    /// Lines that were read.
    line: u64,
    /// What is set when everything is there: a queue that forwards would move its messages on.
    forwards: Vec<(String, SettingsPatch)>,
    begun: bool,
    ended: bool,
    queues: u64,
    sessions: u64,
    messages: u64,
}

impl<'a> Importing<'a> {
    fn new(store: &'a Bellwether, dry_run: bool, progress: Progress) -> Self {
        Self {
            store,
            dry_run,
            progress,
            batch: Vec::new(),
            batch_bytes: 0,
            batch_to: (String::new(), false),
            batch_line: None,
            line: 0,
            forwards: Vec::new(),
            begun: false,
            ended: false,
            queues: 0,
            sessions: 0,
            messages: 0,
        }
    }

    async fn read(&mut self, mut lines: Lines) -> Result<(), Failure> {
        let mut stop = Stop::listen()?;
        loop {
            let line = tokio::select! {
                line = lines.next() => line?,
                () = stop.asked() => return Err(self.interrupted(self.line + 1, NOT_IMPORTED)),
            };
            let Some(line) = line else { break };
            self.line += 1;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let number = self.line;
            let bad = |why: String| Failure::BadInput(format!("line {number}: {why}"));
            let value: Value = serde_json::from_slice(&line)
                .map_err(|error| bad(format!("this is not JSON: {error}")))?;
            let object = value.as_object().filter(|object| object.len() == 1);
            let (kind, value) = object
                .and_then(|object| object.iter().next())
                .ok_or_else(|| bad("a line is an object with one field".into()))?;
            let Some(done) = stop.after(self.take(kind, value)).await else {
                return Err(self.interrupted(self.line, NOT_KNOWN));
            };
            done.map_err(|wrong| match wrong {
                Wrong::Line(why) => bad(why),
                Wrong::Store(failure) => failure,
            })?;
        }
        let Some(done) = stop.after(self.finish()).await else {
            return Err(self.interrupted(self.line, NOT_KNOWN));
        };
        done
    }

    /// Where to go on after Ctrl-C: `line`, unless messages before it wait for company.
    fn interrupted(&self, line: u64, rest: &str) -> Failure {
        if self.dry_run {
            return Failure::Stopped("stopped; nothing was changed".into());
        }
        let line = self.batch_line.unwrap_or(line);
        Failure::Stopped(format!(
            "stopped; everything before line {line} is imported and acknowledged, {rest}"
        ))
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        self.send().await?;
        if !self.ended {
            let why = "the last line is missing: this is not a whole export";
            return Err(Failure::BadInput(why.into()));
        }
        for (queue, patch) in std::mem::take(&mut self.forwards) {
            if !self.dry_run {
                self.store.queue(&queue)?.update(patch).await?;
            }
        }
        Ok(())
    }

    async fn take(&mut self, kind: &str, value: &Value) -> Result<(), Wrong> {
        if !self.begun && kind != "export" {
            return Err(Wrong::Line("an export begins with a line {\"export\": …}".into()));
        }
        let fields = Fields::of(value, kind)?;
        match kind {
            "export" => {
                let version: u64 = fields.must("version", Value::as_u64)?;
                if version > VERSION {
                    return Err(Wrong::Line(format!(
                        "version {version} was written by a newer program; this one reads up to \
                         {VERSION}"
                    )));
                }
                self.begun = true;
            }
            "queue" => self.queue(&fields).await?,
            "session" => self.session(&fields).await?,
            "message" => self.message(&fields).await?,
            "end" => {
                let messages: Option<u64> = fields.number("messages")?;
                let read = self.messages + self.batch.len() as u64;
                if messages.is_some_and(|messages| messages != read) {
                    return Err(Wrong::Line(format!(
                        "{read} messages were read, not {messages:?}"
                    )));
                }
                self.ended = true;
            }
            other => return Err(Wrong::Line(format!("nothing is known of {other:?}"))),
        }
        Ok(())
    }

    async fn queue(&mut self, fields: &Fields<'_>) -> Result<(), Wrong> {
        let name = fields.must("name", |value| value.as_str().map(str::to_owned))?;
        let mut settings = form_queue::read_settings(fields.must("settings", Some)?)?;
        settings.check().map_err(Failure::from)?;
        QueueName::new(&name).map_err(Failure::from)?;
        let (to, dead_to) = (settings.forward_to.take(), settings.forward_dead_letters_to.take());
        let spill = settings.order.spill().is_some();
        let spill = spill.then(|| std::mem::take(&mut settings.order.overflow));
        self.queues += 1;
        if self.dry_run {
            return Ok(());
        }
        let existed = has_queue(self.store, &name).await.map_err(Failure::from)?;
        self.store.create_queue(&name, settings).await.map_err(Failure::from)?;
        if !existed && (to.is_some() || dead_to.is_some() || spill.is_some()) {
            let patch = SettingsPatch {
                forward_to: to.map(Some),
                forward_dead_letters_to: dead_to.map(Some),
                order: OrderPatch { overflow: spill, ..OrderPatch::default() },
                ..SettingsPatch::default()
            };
            self.forwards.push((name, patch));
        }
        Ok(())
    }

    async fn session(&mut self, fields: &Fields<'_>) -> Result<(), Wrong> {
        let queue = fields.must("queue", Value::as_str)?;
        let name = fields.must("name", Value::as_str)?;
        let state = fields.must("state_base64", |value| read_base64(value.as_str()?))?;
        self.sessions += 1;
        if self.dry_run {
            return Ok(());
        }
        let set = async {
            let queue = self.store.queue(queue)?;
            let session = queue.accept_session().named(name).await?;
            session.set_state(Some(Bytes::from(state))).await?;
            session.close().await
        };
        Ok(set.await.map_err(Failure::from)?)
    }

    async fn message(&mut self, fields: &Fields<'_>) -> Result<(), Wrong> {
        let (queue, dead_letter, exported) = exported::read(fields)?;
        let to = (queue, dead_letter);
        let full = self.batch.len() >= BATCH_MAX || self.batch_bytes >= BATCH_BYTES_MAX;
        if full || self.batch_to != to {
            self.send().await?;
            self.batch_to = to;
        }
        self.batch_line.get_or_insert(self.line);
        self.batch_bytes += exported.message.body().len();
        self.batch.push(exported);
        Ok(())
    }

    async fn send(&mut self) -> Result<(), Failure> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        if batch.is_empty() {
            return Ok(());
        }
        let count = batch.len() as u64;
        if !self.dry_run {
            let (queue, dead_letter) = &self.batch_to;
            let queue = self.store.queue(queue)?;
            let half = if *dead_letter { queue.dead_letters() } else { queue };
            half.import(batch).await?;
        }
        self.batch_line = None;
        self.messages += count;
        self.progress.add(count);
        Ok(())
    }
}

/// What is wrong with a line, or with what became of it.
enum Wrong {
    Line(String),
    Store(Failure),
}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self::Line(why)
    }
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}
