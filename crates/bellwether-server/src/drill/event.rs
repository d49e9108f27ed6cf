//! What happened, one JSON line an event.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// A process leads from now on.
    Lead,
    /// Its trust was moved on by a renewal.
    Trust,
    /// It does not lead any more, and knows.
    Stop,
    /// A write to the fenced file.
    Write,
    /// Somebody makes a fault; `what` says which, `target` on whom.
    Fault,
    /// `target` is killed: whatever it believed is over.
    Kill,
    /// The faults have ended: somebody must lead again.
    Heal,
}

/// How far it is. An operation without an end is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It begins.
    Invoke,
    /// It was done.
    Ok,
    /// It was definitely not done.
    Fail,
    /// It may have been done.
    Unknown,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What the faults were drawn from.
    pub seed: u64,
    /// When, in nanoseconds of the boot clock.
    pub t_boot_ns: u64,
    /// Which process, by a name that is used once.
    pub proc: String,
    /// Its number in that process.
    pub op_id: u64,
    /// How far.
    pub phase: Phase,
    /// What.
    pub op: Op,
    /// In which election.
    pub election: String,
    /// Under which term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    /// Until when the process may act without a new renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_until_ns: Option<u64>,
    /// The process that a fault is made on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Which fault, or why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
}

impl Event {
    /// Something that was done; the rest is set by whoever knows more.
    pub fn new(op: Op, phase: Phase, election: impl Into<String>, t_boot_ns: u64) -> Self {
        Self {
            seed: 0,
            t_boot_ns,
            proc: String::new(),
            op_id: 0,
            phase,
            op,
            election: election.into(),
            term: None,
            trusted_until_ns: None,
            target: None,
            what: None,
        }
    }
}

/// A write that the fenced file accepted: a line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Under which term.
    pub term: u64,
    /// By whom.
    pub proc: String,
    /// Its number in that process.
    pub op_id: u64,
}

impl Accepted {
    /// The line.
    pub fn line(&self) -> String {
        format!("{} {} {}\n", self.term, self.proc, self.op_id)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (term, proc, op_id) = (words.next()?, words.next()?, words.next()?);
        let (term, op_id) = (term.parse().ok()?, op_id.parse().ok()?);
        words.next().is_none().then(|| Self { term, proc: proc.into(), op_id })
    }
}

/// Everything that is known of the drill of one election.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What processes said, in any order.
    pub events: Vec<Event>,
    /// What the fenced file accepted, in the order in which it did.
    pub accepted: Vec<Accepted>,
}

impl History {
    /// Reads both files. One that is not there yet is empty; a line that is not whole is an error, for
    /// nobody writes such a one.
    pub fn read(events: &Path, accepted: &Path) -> io::Result<Self> {
        let wrong = |path: &Path, line: &str| {
            let why = format!("{}: {line:?} is no line of it", path.display());
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let mut history = Self::default();
        for line in text(events)?.lines() {
            let event = serde_json::from_str(line).map_err(|_| wrong(events, line))?;
            history.events.push(event);
        }
        for line in text(accepted)?.lines() {
            let write = Accepted::parse(line).ok_or_else(|| wrong(accepted, line))?;
            history.accepted.push(write);
        }
        Ok(history)
    }
}

fn text(path: &Path) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// Writes events down. Several processes may write to one file: a line is one call, and is added as a
/// whole.
#[derive(Debug)]
pub struct Recorder {
    file: File,
}

impl Recorder {
    /// At this path; made if it is not there.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().append(true).create(true).open(path)? })
    }

    /// Adds a line.
    pub fn record(&self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        (&self.file).write_all(&line)
    }
}

/// Reads a history while it is being written.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    read: u64,
}

impl Tail {
    /// From the beginning of the file at this path.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), read: 0 }
    }

    /// What was added since the last time.
    pub fn news(&mut self) -> io::Result<Vec<Event>> {
        let mut file = match File::open(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.read += whole as u64;
        let lines = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| Ok(serde_json::from_slice(line)?)).collect()
    }
}
