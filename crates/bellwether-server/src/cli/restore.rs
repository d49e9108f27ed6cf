//! `bellwether restore`.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bellwether::backup::{Contents, RestoreFault, Restored, restore, verify};
use clap::Args;
use serde_json::{Value, json};

use super::failure::{Ended, Failure};
use super::form;
use super::human::{Wall, count};
use super::progress::Progress;
use super::screen::{Format, Screen};
use crate::unfinished::Unfinished;

const EXAMPLES: &str = "\
Examples:
  bellwether restore store.backup --data ./store
  bellwether restore store.backup --check
  bellwether restore store.backup --data ./store --output json
  zcat store.backup.gz | bellwether restore - --data ./store";

/// Read of the input at once.
const READ_BYTES: usize = 1 << 20;

/// Make a store out of a backup that `bellwether backup` wrote.
///
/// The whole backup is read and checked before anything is written, and the folder must have no store
/// in it. The store is the one that was backed up, as after a restart, but for its numbers: terms,
/// sequence numbers and incarnations go on far above all that can have been given out after the
/// backup was taken, so whatever the lost store still granted or handed out is refused here.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Restore {
    /// The backup; `-` reads the input, and keeps it in a file beside the new store meanwhile.
    file: PathBuf,
    /// The folder of the new store.
    #[arg(long, value_name = "DIR", required_unless_present = "check")]
    data: Option<PathBuf>,
    /// Only read and check the backup, and say what is in it.
    #[arg(long, conflicts_with = "data")]
    check: bool,
    /// How the answer is written: a line for people, or JSON.
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    output: Format,
}

impl Restore {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let mut screen = Screen::new(out, self.output);
        let (sentence, value) = if self.file == Path::new("-") {
            let kept = self.keep_input()?;
            self.read(kept.path(), INPUT).map_err(|fault| Failure::from(of_input(fault)))?
        } else {
            self.read(&self.file, &self.file.display().to_string())?
        };
        screen.say(&sentence, &value)?;
        Ok(ExitCode::SUCCESS)
    }

    fn read(&self, file: &Path, name: &str) -> Result<(String, Value), RestoreFault> {
        let bytes = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        let progress = Progress::of_bytes(bytes, "read");
        Ok(if let Some(dir) = &self.data {
            let restored = restore(file, dir, |bytes| progress.add(bytes))?;
            let holds = holds(&restored.contents);
            (format!("restored into {}: {holds}", dir.display()), as_json(&restored))
        } else {
            let contents = verify(file, |bytes| progress.add(bytes))?;
            (format!("{name} is sound: {}", holds(&contents)), contents_json(&contents))
        })
    }

    /// A backup is read twice, which the input cannot be.
    fn keep_input(&self) -> Result<Unfinished, Failure> {
        let beside = self.data.clone().unwrap_or_else(|| std::env::temp_dir().join("bellwether"));
        let mut kept = Unfinished::beside(&beside)?;
        let mut input = io::stdin().lock();
        let mut bytes = vec![0; READ_BYTES];
        loop {
            let read = input.read(&mut bytes);
            match read.map_err(|error| Failure::Input { what: INPUT.into(), error })? {
                0 => return Ok(kept),
                count => kept.write(&bytes[..count])?,
            }
        }
    }
}

const INPUT: &str = "the input";

/// Nobody knows the file that it was kept in.
fn of_input(mut fault: RestoreFault) -> RestoreFault {
    if let RestoreFault::Damaged { file, .. }
    | RestoreFault::NotABackup { file }
    | RestoreFault::UnknownVersion { file, .. } = &mut fault
    {
        *file = INPUT.into();
    }
    fault
}

fn holds(contents: &Contents) -> String {
    format!(
        "{}, {} and {} as of {}",
        count(contents.queues, "queue"),
        count(contents.messages, "message"),
        count(contents.leases, "lease"),
        Wall(contents.head.taken_at)
    )
}

fn contents_json(contents: &Contents) -> Value {
    json!({
        "taken_at": form::time(contents.head.taken_at),
        "program": contents.head.program,
        "frame": contents.head.frame,
        "end_frame": contents.end_frame,
        "incarnation": contents.incarnation.0,
        "highest_term": contents.highest_term.0,
        "queues": contents.queues,
        "messages": contents.messages,
        "leases": contents.leases,
    })
}

fn as_json(restored: &Restored) -> Value {
    json!({
        "backup": contents_json(&restored.contents),
        "terms_from": restored.raised.terms_from.0,
        "incarnation": restored.raised.incarnation.0,
    })
}

impl From<RestoreFault> for Failure {
    fn from(fault: RestoreFault) -> Self {
        match fault {
            RestoreFault::Journal(fault) => Self::Journal(fault),
            RestoreFault::Occupied(_) => Self::Usage(fault.to_string()),
            RestoreFault::Io { what, cause } if cause.kind() == io::ErrorKind::NotFound => {
                Self::NotThere(format!("cannot {what}: {cause}"))
            }
            RestoreFault::Io { what, cause } => Self::Start(format!("cannot {what}: {cause}")),
            RestoreFault::Damaged { .. }
            | RestoreFault::NotABackup { .. }
            | RestoreFault::UnknownVersion { .. } => Self::BadInput(fault.to_string()),
        }
    }
}
