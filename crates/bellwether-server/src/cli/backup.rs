//! `bellwether backup`.

use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bellwether::Bellwether;
use clap::Args;
use serde_json::json;

use super::failure::{Ended, Failure};
use super::form;
use super::human::{Size, Wall};
use super::progress::Progress;
use super::reach::Reach;
use super::screen::Screen;
use super::stop::Stop;
use crate::unfinished::Unfinished;

const EXAMPLES: &str = "\
Examples:
  bellwether backup store.backup
  bellwether backup nightly.backup --force --server bellwether://127.0.0.1:7401
  bellwether backup store.backup --data ./store
  bellwether backup - | gzip > store.backup.gz";

/// Write a backup of the whole store, while it goes on, for `bellwether restore`.
///
/// Everything acknowledged before the backup began is in it, and of what happens while it is taken a
/// beginning: it is the store as it stood at one moment. Every byte is under a checksum. The file gets
/// its name when it is whole and flushed; one that is there is left alone. One backup of a store is
/// taken at a time.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backup {
    /// The file; `-` writes to the output.
    file: PathBuf,
    /// Replace a file that is there, once the new one is whole.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Backup {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.check_target()?;
        self.reach.look(out, async |store, screen| {
            if self.is_output() {
                take(store, async |bytes| Ok(screen.bytes(bytes)?)).await?;
                screen.flush()?;
                return Ok(ExitCode::SUCCESS);
            }
            let mut stop = Stop::listen()?;
            let unfinished = Unfinished::beside(&self.file)?;
            let taken = tokio::select! {
                taken = self.take_to_file(store, unfinished) => taken?,
                () = stop.asked() => {
                    return Err(Failure::Stopped("stopped; no backup was written".into()));
                }
            };
            self.say(screen, &taken)
        })
    }

    fn is_output(&self) -> bool {
        self.file == Path::new("-")
    }

    fn check_target(&self) -> Result<(), Failure> {
        if self.is_output() {
            let why = "a backup is not for a terminal to show; name a file, or use a pipe";
            let is_shown = io::stdout().is_terminal();
            return if is_shown { Err(Failure::Usage(why.into())) } else { Ok(()) };
        }
        let file = self.file.display();
        match std::fs::metadata(&self.file) {
            Err(_) => Ok(()),
            Ok(there) if !there.is_file() => Err(Failure::Usage(format!(
                "{file} is there and no file, so nothing is put in its place; name a file, or use a pipe"
            ))),
            Ok(_) if self.force => Ok(()),
            Ok(_) => Err(Failure::Usage(format!(
                "{file} is there already; name another file, or add --force"
            ))),
        }
    }

    async fn take_to_file(
        &self,
        store: &Bellwether,
        mut unfinished: Unfinished,
    ) -> Result<Taken, Failure> {
        let taken = take(store, async |bytes| Ok(unfinished.write(bytes)?)).await?;
        // Again: somebody may have been quicker.
        self.check_target()?;
        unfinished.finish(&self.file)?;
        Ok(taken)
    }

    fn say(&self, screen: &mut Screen<'_>, taken: &Taken) -> Ended {
        let head = &taken.head;
        let (file, at) = (self.file.display().to_string(), head.taken_at);
        screen.say(
            &format!("backed up to {file}: {}, as of {}", Size(taken.bytes), Wall(at)),
            &json!({
                "file": file,
                "bytes": taken.bytes,
                "taken_at": form::time(at),
                "frame": head.frame,
            }),
        )?;
        Ok(ExitCode::SUCCESS)
    }
}

struct Taken {
    head: bellwether::backup::Head,
    bytes: u64,
}

async fn take(
    store: &Bellwether,
    mut write: impl AsyncFnMut(&[u8]) -> Result<(), Failure>,
) -> Result<Taken, Failure> {
    let mut backup = store.backup();
    let mut progress = None;
    let mut bytes = 0;
    while let Some(next) = backup.next().await? {
        write(&next).await?;
        bytes += next.len() as u64;
        let expected = backup.head().map_or(0, |head| head.bytes);
        let progress = progress.get_or_insert_with(|| Progress::of_bytes(expected, "backed up"));
        progress.add(next.len() as u64);
    }
    let head = backup.head().cloned();
    let head = head.ok_or_else(|| Failure::Internal("the store sent an empty backup".into()))?;
    Ok(Taken { head, bytes })
}
