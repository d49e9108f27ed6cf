//! A command in its guardian's hands, seen from `lead`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::CommandExt as _;
use std::process::Child;
use std::time::Duration;

use bellwether::core::time::BootTime;
use rustix::process::{Pid, Signal, kill_process_group};

use super::super::human::ms;
use super::link::{Link, hand_over};
use super::system::{kill_all, reap, this_program};
use super::word::{Kept, News, Order};

/// Pause between two rounds of killing.
const ROUND: Duration = Duration::from_millis(10);
/// What is said of a command that was killed.
const KILLED: u8 = 128 + 9;

/// What to run, and how long it may live.
#[derive(Debug)]
pub(in crate::cli) struct Plan<'a> {
    pub(in crate::cli) command: &'a [OsString],
    pub(in crate::cli) environment: Vec<(&'static str, OsString)>,
    /// Whether it reads what `lead` was given to read.
    pub(in crate::cli) reads: bool,
    pub(in crate::cli) until: BootTime,
    /// How long before that it is told to stop.
    pub(in crate::cli) notice: Duration,
    /// How long it may take to stop.
    pub(in crate::cli) grace: Duration,
    /// If we have died it is asked to stop, and killed after the grace only.
    pub(in crate::cli) is_polite: bool,
    /// What the guardian gives back if we have died, when nothing is left of the command.
    pub(in crate::cli) kept: Option<Kept>,
}

/// See the module.
#[derive(Debug)]
pub(in crate::cli) struct Guarded {
    guardian: Child,
    link: Link<News>,
    /// The command's process group, once it is known.
    group: Option<Pid>,
}

/// What the command comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Turn {
    /// The guardian told it to stop: nobody moved the time on.
    CutOff,
    /// Nothing of it is left; the exit code it stands for.
    Ended(u8),
    /// The guardian has died. The command must be put down.
    Unguarded,
}

impl Guarded {
    pub(in crate::cli) fn start(plan: &Plan<'_>) -> io::Result<Self> {
        let (ours, theirs) = Socket::pair()?;
        let mut program = this_program();
        program
            .arg("__guardian")
            .arg(format!("--until-ms={}", plan.until.0))
            .arg(format!("--notice-ms={}", ms(plan.notice)))
            .arg(format!("--grace-ms={}", ms(plan.grace)))
            .args(plan.is_polite.then_some("--polite"))
            .arg("--")
            .args(plan.command)
            .envs(plan.environment.iter().map(|(name, value)| (*name, value)))
            .stdin(OwnedFd::from(theirs))
            // What stops or ends the group of `lead` leaves its guardian alone.
            .process_group(0);
        let guardian = program.spawn()?;
        // Holds the other end of the socket.
        drop(program);
        let input = io::stdin();
        // From a background group a terminal cannot be read: the command would be stopped.
        if plan.reads && !input.is_terminal() {
            hand_over(&ours, input.as_fd())?;
        } else {
            hand_over(&ours, File::open("/dev/null")?.as_fd())?;
        }
        // What nobody can see would end a word in the middle: then the ttl counts.
        let is_sayable = |flag: &String| !flag.contains(char::is_control);
        let kept = plan.kept.clone().filter(|kept| kept.reach.iter().all(is_sayable));
        if let Some(kept) = kept {
            writeln!(&ours, "{}", Order::Keep(kept))?;
        }
        Ok(Self { guardian, link: Link::new(ours)?, group: None })
    }

    /// What happens next. Safe to drop and call again.
    pub(in crate::cli) async fn turn(&mut self) -> Turn {
        loop {
            match self.link.hear().await {
                Some(News::Started(group)) => self.group = Some(group),
                Some(News::Stopping) => return Turn::CutOff,
                Some(News::Ended(code)) => {
                    // It has nothing left to do but to end, and waits for this word.
                    self.link.say(Order::Thanks).await;
                    let _ = self.guardian.wait();
                    return Turn::Ended(code);
                }
                None => return Turn::Unguarded,
            }
        }
    }

    pub(in crate::cli) async fn until(&mut self, until: BootTime) {
        self.link.say(Order::Until(until)).await;
    }

    pub(in crate::cli) async fn forward(&mut self, signal: Signal) {
        self.link.say(Order::Forward(signal)).await;
    }

    pub(in crate::cli) async fn stop(&mut self, signal: Signal) {
        self.link.say(Order::Stop(signal)).await;
    }

    pub(in crate::cli) async fn kill(&mut self) {
        self.link.say(Order::Kill).await;
    }

    /// Kills the guardian and the command's group: for whoever has other children, which must not be
    /// touched. What has left the group is left alone.
    pub(in crate::cli) fn put_down_alone(mut self) -> u8 {
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        KILLED
    }

    /// Kills the guardian, the command, and all that comes of it, by ourselves: we adopt the orphans
    /// when the guardian is dead. Ends when nothing is left.
    pub(in crate::cli) async fn put_down(mut self) -> u8 {
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        kill_all(self.group);
        while reap(|_, _| {}).is_some() {
            kill_all(None);
            tokio::time::sleep(ROUND).await;
        }
        KILLED
    }
}
