//! A guardian: a process beside this one that gives back its leases when it has died.
//!
//! An engine that people already run cannot see that a leader has died: without a guardian the next
//! one waits for the ttl. A guardian is started by [`Elections::guarded`](crate::Elections::guarded),
//! is told of every lease before it is asked for, and sleeps until its process has ended.
//!
//! ```text
//!   this process ── asked 7, done 7 ──► guardian            engine
//!        ✗ killed ─── a pidfd tells ──► who is left of it?
//!                                       nobody ── release 7 ──► free ─► whoever waits leads
//! ```
//!
//! 1. *Dead means all of it.* A lease is released when neither the process nor anything it has
//!    started, nor what those have started, is alive; nothing is killed for it. Until then the
//!    guardian waits, and in the meantime the lease may run out as it would without one.
//! 2. *Only under its id.* A release that comes late, or twice, frees nothing of anybody else.
//! 3. *Unsure means no.* The guardian has no rights of its own: if it cannot know who is left, cannot
//!    reach the engine, or is killed, the ttl counts.
//!
//! Who is left is known from the kernel (`census.rs`). For that the process adopts the orphans among
//! its descendants (`PR_SET_CHILD_SUBREAPER`): one that starts daemons has to wait for them, as an
//! init does, or they stay as zombies. Not seen are a process that had been let go as a daemon before
//! the guardian was started, one that was made with `CLONE_PARENT`, and whatever others have started
//! at the process's wish: containers, units of systemd, commands on other machines.
//!
//! Linux only, with a `/proc` that hides nobody. A process that is the first of its container takes
//! its guardian along when it dies: start it under an init (`docker run --init`).

#[cfg(target_os = "linux")]
mod census;
#[cfg(target_os = "linux")]
mod ear;
mod guard;
#[cfg(target_os = "linux")]
mod vigil;
mod word;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

pub(crate) use guard::Guard;
use tokio::signal::unix::{SignalKind, signal};

/// The first argument of a program that is started to be a guardian.
pub const ARGUMENT: &str = "__lease-guardian";

/// How a guardian is started. It is never started unasked: it is a process more, and it makes this
/// one the parent of its orphans.
#[derive(Clone, Debug)]
pub struct Guardian {
    program: PathBuf,
}

impl Default for Guardian {
    /// The program `bellwether`, from the folders of `PATH`.
    fn default() -> Self {
        Self::program("bellwether")
    }
}

impl Guardian {
    /// This program: a `bellwether`, or any that calls [`run`] if its first argument is
    /// [`ARGUMENT`]. It must be built with the engine. A name without a slash is looked for in the
    /// folders of `PATH`.
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self { program: path.into() }
    }
}

/// Is the guardian of the process that has started this one, until there is nothing left to do.
#[cfg(target_os = "linux")]
pub fn run() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(vigil::keep())
}

/// Is the guardian of the process that has started this one: on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn run() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// From here on this process heeds no signal that can be heeded: what is meant for the one that a guardian
/// watches may reach it, too, from whoever signals everything that belongs to a service. On the threads
/// of a runtime, for as long as that lasts.
pub fn turn_a_deaf_ear() -> io::Result<()> {
    let all = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::alarm(),
    ];
    all.into_iter().try_for_each(|kind| signal(kind).map(drop))
}

/// Whether this process was started to be a guardian.
pub fn is_meant() -> bool {
    std::env::args_os().nth(1) == Some(OsString::from(ARGUMENT))
}
