//! The guardian: the process between `lead` and its command, which outlives neither.
//!
//! ```text
//!   lead ── until, stop, forward ──► guardian ── SIGTERM, SIGKILL ──► the command's group
//!   (asks the store)  ◄── ended ──   (looks at the clock)             (and what has left it)
//! ```
//!
//! 1. *Silence kills.* The command may live until the last time that was told. `lead` frozen, stuck or
//!    dead, and a machine that slept, all look the same from here: the time comes, on the boot clock.
//! 2. *Nothing is left.* The guardian adopts the orphans among its descendants, so that what has left
//!    the command's process group is found and killed as well. It ends when it has no child.
//! 3. *Then it speaks for the dead.* If `lead` has died, the guardian gives its lease back when nothing
//!    is left: never before, and under its id. Nobody else could: an engine of others does not see
//!    deaths, and a server of ours is told that the end of `lead` is not the end of its command.
//! 4. *It cannot be got rid of.* When the guardian is killed, the kernel kills the command, and `lead`
//!    the rest.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;
use std::time::Duration;

use bellwether::core::time::BootTime;
use clap::{Args, Parser};
use rustix::process::{
    Pid, Signal, WaitStatus, getpid, kill_process_group, test_kill_process_group,
};
use tokio::signal::unix::{SignalKind, signal};

use super::super::election::Candidate;
use super::super::failure::{Ended, Failure};
use super::super::reach::Reach;
use super::link::{Link, take_over};
use super::system::{Alarm, adopt_orphans, boot, die_with, kill_all, reap, this_program};
use super::word::{Kept, News, Order};

/// What a shell says of a command that is not there, or is none.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;
/// Pause between two rounds of killing.
const ROUND_MS: u64 = 10;
/// So long is a dead leader's lease tried to be given back, and so long is the pause between.
const GIVE_BACK_MS_MAX: u64 = 60_000;
const GIVE_BACK_PAUSE: Duration = Duration::from_millis(100);

/// What this program starts of itself: no commands for people, so neither help nor a shell's completion
/// tells of them.
#[derive(Debug, Parser)]
pub(crate) enum Inner {
    #[command(name = "__guardian")]
    Guardian(Guardian),
    #[command(name = "__run")]
    Run(Run),
    #[command(name = "__candidate")]
    Candidate(Box<Candidate>),
    #[command(name = bellwether::guardian::ARGUMENT)]
    LeaseGuardian,
}

impl Inner {
    /// Whether such a one is meant.
    pub(crate) fn is_meant() -> bool {
        let first = std::env::args_os().nth(1);
        let all = ["__guardian", "__run", "__candidate", "__lease-guardian"];
        first.is_some_and(|word| all.iter().any(|inner| word == *inner))
    }

    pub(crate) fn run(&self) -> Ended {
        match self {
            Self::Guardian(guardian) => guardian.run(),
            Self::Run(run) => run.run(),
            Self::Candidate(candidate) => candidate.run(),
            Self::LeaseGuardian => bellwether::guardian::run()
                .map(|()| ExitCode::SUCCESS)
                .map_err(|e| Failure::Internal(format!("the guardian of leases: {e}"))),
        }
    }
}

/// Keep a command in hand for `lead`, which starts this.
#[derive(Debug, Args)]
pub(crate) struct Guardian {
    /// The command may live until then, on the boot clock, if nothing else is said.
    #[arg(long)]
    until_ms: u64,
    /// How long before that it is told to stop.
    #[arg(long)]
    notice_ms: u64,
    /// How long it may take to stop.
    #[arg(long)]
    grace_ms: u64,
    /// If whoever started this dies, the command may take its time to stop.
    #[arg(long)]
    polite: bool,
    /// The command.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Guardian {
    pub(crate) fn run(&self) -> Ended {
        let failed = |e: io::Error| Failure::Internal(format!("the guardian of a command: {e}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Failure::Internal(format!("cannot start a runtime: {e}")))?;
        runtime.block_on(self.guard()).map_err(failed)?;
        Ok(ExitCode::SUCCESS)
    }

    async fn guard(&self) -> io::Result<()> {
        adopt_orphans()?;
        bellwether::guardian::turn_a_deaf_ear()?;
        let mut died = signal(SignalKind::child())?;
        let alarm = Alarm::new()?;
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        let input = take_over(&socket)?;
        let mut lead = Link::<Order>::new(Socket::from(socket))?;
        let main = self.start(input)?;
        lead.say(News::Started(main)).await;
        let mut ward = Ward::new(main, self);
        let mut is_told = false;
        while ward.look(boot()).is_some() {
            if ward.is_cut_off && !is_told {
                is_told = true;
                lead.say(News::Stopping).await;
            }
            tokio::select! {
                order = lead.hear(), if !ward.is_alone => {
                    #[cfg(planted_bug = "guardian_speaks_early")]
                    if let (None, Some(kept)) = (&order, &ward.kept) {
                        give_back(kept).await;
                    }
                    ward.take(order);
                }
                _ = died.recv() => {}
                rung = alarm.at(ward.next_look(boot())) => rung?,
            }
        }
        lead.say(News::Ended(ward.code())).await;
        // Whether anybody has heard that: who has not is dead, or will be.
        while !ward.is_alone {
            match lead.hear().await {
                Some(Order::Thanks) => return Ok(()),
                order => ward.take(order),
            }
        }
        if let Some(kept) = &ward.kept {
            let_go_of_output()?;
            give_back(kept).await;
        }
        Ok(())
    }

    /// Through a process of this program, which ties its life to ours and becomes the command.
    fn start(&self, input: OwnedFd) -> io::Result<Pid> {
        let started = this_program()
            .arg("__run")
            .arg(format!("--parent={}", getpid()))
            .arg("--")
            .args(&self.command)
            .stdin(input)
            .process_group(0)
            .spawn()?;
        Ok(Pid::from_child(&started))
    }
}

/// Whoever reads what `lead` and its command wrote has read all of it.
fn let_go_of_output() -> io::Result<()> {
    let nothing = std::fs::File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(rustix::stdio::dup2_stderr(&nothing)?)
}

/// For a `lead` that has died, of whose command nothing is left. What cannot be given back runs out.
async fn give_back(Kept { id, lease, reach }: &Kept) {
    let Some(reach) = Reach::from_flags(reach) else { return };
    let until = boot().plus_ms(GIVE_BACK_MS_MAX);
    while boot() < until {
        if let Ok(elections) = reach.elections().await {
            let released = elections.release(lease.as_str(), *id).await;
            elections.close().await;
            if released.is_ok() {
                return;
            }
        }
        tokio::time::sleep(GIVE_BACK_PAUSE).await;
    }
}

/// The command and all that comes of it.
#[expect(clippy::struct_excessive_bools, reason = "what has happened to it, each for itself")]
struct Ward {
    main: Pid,
    /// Its process group, while there is one: the number may be given to others afterwards.
    group: Option<Pid>,
    /// How the command itself has ended.
    status: Option<WaitStatus>,
    until: BootTime,
    notice_ms: u64,
    grace_ms: u64,
    /// Told to stop; what is left then is killed.
    kill_at: Option<BootTime>,
    is_killed: bool,
    /// Told to stop because nobody moved the time on.
    is_cut_off: bool,
    /// `lead` has died.
    is_alone: bool,
    /// No lease is at stake: a death in the house is no reason to kill.
    is_polite: bool,
    /// What to give back if it has died.
    kept: Option<Kept>,
}

impl Ward {
    fn new(main: Pid, guardian: &Guardian) -> Self {
        Self {
            main,
            group: Some(main),
            status: None,
            until: BootTime(guardian.until_ms),
            notice_ms: guardian.notice_ms,
            grace_ms: guardian.grace_ms,
            kill_at: None,
            is_killed: false,
            is_cut_off: false,
            is_alone: false,
            is_polite: guardian.polite,
            kept: None,
        }
    }

    /// Takes leave of the dead and does what the time demands; `None` when nothing is left.
    fn look(&mut self, now: BootTime) -> Option<()> {
        let main = self.main;
        let status = &mut self.status;
        reap(|pid, ended| {
            if pid == main {
                *status = Some(ended);
            }
        })?;
        if self.status.is_some() {
            self.group = self.group.filter(|group| test_kill_process_group(*group).is_ok());
        }
        if self.kill_at.is_none() && self.status.is_some() {
            // What it left behind is asked as politely.
            self.stop(now, Signal::TERM);
        }
        if self.kill_at.is_none() && now >= self.notice_at() {
            self.is_cut_off = true;
            self.stop(now, Signal::TERM);
        }
        if self.is_killed || now >= self.deadline() {
            self.is_killed = true;
            kill_all(self.group);
        }
        Some(())
    }

    fn take(&mut self, order: Option<Order>) {
        let now = boot();
        match order {
            Some(Order::Keep(kept)) => self.kept = Some(kept),
            // Said only at the end.
            Some(Order::Thanks) => {}
            Some(Order::Until(until)) => self.until = until,
            Some(Order::Forward(signal)) => self.signal(signal),
            Some(Order::Stop(signal)) => self.stop(now, signal),
            Some(Order::Kill) => self.is_killed = true,
            // Nobody keeps the lease any more, and nobody says for how long it was trusted.
            None => {
                self.is_alone = true;
                if self.is_polite {
                    self.stop(now, Signal::TERM);
                } else {
                    self.is_killed = true;
                }
            }
        }
    }

    fn stop(&mut self, now: BootTime, signal: Signal) {
        self.signal(signal);
        // Who was stopped by a signal hears of it now.
        self.signal(Signal::CONT);
        self.kill_at.get_or_insert(now.plus_ms(self.grace_ms));
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // Who has ended meanwhile needs no signal.
            let _ = kill_process_group(group, signal);
        }
    }

    fn notice_at(&self) -> BootTime {
        BootTime(self.until.0.saturating_sub(self.notice_ms))
    }

    fn deadline(&self) -> BootTime {
        self.kill_at.unwrap_or(BootTime::NEVER).min(self.until)
    }

    fn next_look(&self, now: BootTime) -> BootTime {
        match (self.is_killed, self.kill_at) {
            (true, _) => now.plus_ms(ROUND_MS),
            (false, Some(_)) => self.deadline(),
            (false, None) => self.notice_at(),
        }
    }

    /// As a shell says it.
    fn code(&self) -> u8 {
        let Some(status) = self.status else { return u8::MAX };
        let code = status.exit_status().or_else(|| status.terminating_signal().map(|s| 128 + s));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
    }
}

/// Become a command whose life hangs on its guardian's, which starts this.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The guardian.
    #[arg(long)]
    parent: i32,
    /// The command.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Run {
    pub(crate) fn run(&self) -> Ended {
        let gone = || Failure::Internal("the guardian is gone".into());
        let parent = Pid::from_raw(self.parent).ok_or_else(gone)?;
        die_with(parent).map_err(|_| gone())?;
        let [program, arguments @ ..] = self.command.as_slice() else { return Err(gone()) };
        let error = std::process::Command::new(program).args(arguments).exec();
        eprintln!("bellwether: cannot run {}: {error}", program.display());
        let is_there = error.kind() != io::ErrorKind::NotFound;
        Ok(ExitCode::from(if is_there { NOT_RUNNABLE } else { NOT_FOUND }))
    }
}
