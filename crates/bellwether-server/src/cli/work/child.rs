//! A command's process, its group, and what it reads and writes.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bellwether::core::limits;
use bytes::Bytes;
use rustix::process::{Pid, Signal, getpid, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::input::Body;
use crate::cli::lead::system::this_program;

/// What a shell says of a command that is not there, or is none.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;
/// Of what a command writes to its error output so much is kept, the end of it.
const TAIL_BYTES_MAX: usize = 4 * 1024;
/// So long is waited for what a process may still write that has left the group.
const REST: Duration = Duration::from_millis(500);
/// Pause between two looks at what is left of a group.
const ROUND: Duration = Duration::from_millis(10);

/// Whether the command can be run, so that no message is received for one that cannot.
pub(super) fn can_run(command: &[OsString]) -> Result<(), (u8, String)> {
    let Some(program) = command.first() else { return Ok(()) };
    let shown = program.display();
    let candidates: Vec<PathBuf> = if program.as_encoded_bytes().contains(&b'/') {
        vec![program.into()]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
    };
    let found: Vec<&PathBuf> = candidates.iter().filter(|path| path.is_file()).collect();
    let runs = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
    };
    if found.is_empty() {
        return Err((NOT_FOUND, format!("cannot run {shown}: it is not there")));
    }
    if !found.into_iter().any(|path| runs(path)) {
        return Err((NOT_RUNNABLE, format!("cannot run {shown}: it is no program")));
    }
    Ok(())
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Code(i32),
    Signal(i32),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Code(code),
            None => Self::Signal(status.signal().unwrap_or(0)),
        }
    }
}

/// A command that runs in a group of its own, and dies if this process does.
#[derive(Debug)]
pub(super) struct Child {
    group: Pid,
    ended: JoinHandle<io::Result<ExitStatus>>,
}

impl Child {
    pub(super) fn start(
        command: &[OsString],
        environment: Vec<(OsString, OsString)>,
        body: &Body,
        reads_output: bool,
    ) -> io::Result<(Self, Pipes)> {
        // Through a process of this program, which ties its life to ours and becomes the command.
        let mut program = this_program();
        program
            .arg("__run")
            .arg(format!("--parent={}", getpid()))
            .arg("--")
            .args(command)
            .envs(environment)
            .stdin(if matches!(body, Body::Input(_)) { Stdio::piped() } else { Stdio::null() })
            .stdout(if reads_output { Stdio::piped() } else { Stdio::inherit() })
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = program.spawn()?;
        let group = Pid::from_child(&child);
        let input = child.stdin.take().map(OwnedFd::from);
        let output = child.stdout.take().map(OwnedFd::from);
        let error = child.stderr.take().map(OwnedFd::from);
        let ended = tokio::task::spawn_blocking(move || child.wait());
        let pipes = Pipes {
            input: input.map(pipe::Sender::from_owned_fd).transpose()?,
            output: output.map(pipe::Receiver::from_owned_fd).transpose()?,
            error: error.map(pipe::Receiver::from_owned_fd).transpose()?,
        };
        Ok((Self { group, ended }, pipes))
    }

    /// How the command itself has ended. Safe to drop and call again, until it is ready.
    pub(super) async fn end(&mut self) -> End {
        match (&mut self.ended).await {
            Ok(Ok(status)) => status.into(),
            // Nobody else waits for our children, so this does not happen.
            Ok(Err(_)) | Err(_) => End::Signal(0),
        }
    }

    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
        // Who was stopped by a signal hears of it now.
        self.signal(Signal::CONT);
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // Who has ended meanwhile needs no signal.
        let _ = kill_process_group(self.group, signal);
    }

    /// What the command has left in its group is asked to end, and is killed after the grace. Ends when
    /// the group is empty.
    pub(super) async fn clear_away(&self, grace: Duration, hurry: &CancellationToken) {
        if test_kill_process_group(self.group).is_err() {
            return;
        }
        self.terminate();
        let emptied = async {
            while test_kill_process_group(self.group).is_ok() {
                tokio::time::sleep(ROUND).await;
            }
        };
        let in_peace = async {
            tokio::select! {
                () = emptied => true,
                () = hurry.cancelled() => false,
                () = tokio::time::sleep(grace) => false,
            }
        };
        if !in_peace.await {
            while test_kill_process_group(self.group).is_ok() {
                self.kill();
                tokio::time::sleep(ROUND).await;
            }
        }
    }
}

/// Our ends of what a command reads and writes.
#[derive(Debug)]
pub(super) struct Pipes {
    input: Option<pipe::Sender>,
    output: Option<pipe::Receiver>,
    error: Option<pipe::Receiver>,
}

/// What a command has written.
#[derive(Debug, Default)]
pub(super) struct Streams {
    pub(super) output: Vec<u8>,
    /// Longer than any message, or not all there; the rest was not kept.
    pub(super) is_cut: bool,
    pub(super) error_tail: String,
}

impl Pipes {
    /// Gives the command its body and takes what it writes; the error output is passed on.
    pub(super) async fn carry(self, body: Bytes) -> Streams {
        let Self { input, output, error } = self;
        let give = async {
            if let Some(mut input) = input {
                // A command need not read its input.
                let _ = input.write_all(&body).await;
            }
        };
        let ((), (output, is_cut), error_tail) =
            tokio::join!(give, take_all(output), take_tail(error));
        Streams { output, is_cut, error_tail }
    }
}

impl Streams {
    /// What was written when nobody of the group is left.
    pub(super) async fn rest(carried: &mut JoinHandle<Self>) -> Self {
        if let Ok(Ok(streams)) = tokio::time::timeout(REST, &mut *carried).await {
            return streams;
        }
        // Somebody who has left the group still holds an end of it.
        carried.abort();
        Self { is_cut: true, ..Self::default() }
    }
}

async fn take_all(from: Option<pipe::Receiver>) -> (Vec<u8>, bool) {
    let Some(mut from) = from else { return (Vec::new(), false) };
    let (mut all, mut is_cut) = (Vec::new(), false);
    let mut piece = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        is_cut |= all.len() + count > limits::CONTENT_BYTES_MAX as usize;
        if !is_cut {
            all.extend_from_slice(&piece[..count]);
        }
    }
    (all, is_cut)
}

async fn take_tail(from: Option<pipe::Receiver>) -> String {
    let Some(mut from) = from else { return String::new() };
    let mut tail = Vec::new();
    let mut piece = vec![0; 4 * 1024];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let _ = io::stderr().write_all(&piece[..count]);
        tail.extend_from_slice(&piece[..count]);
        tail.drain(..tail.len().saturating_sub(TAIL_BYTES_MAX));
    }
    String::from_utf8_lossy(&tail).into_owned()
}
