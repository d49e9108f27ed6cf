//! Signals: the first asks to stop, the second does not ask.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// The exit code of a process that a signal ended is this and the signal's number.
const BY_SIGNAL: i32 = 128;

/// So soon after the first it is the same one, told twice: `timeout` and others signal a process
/// and then its group.
const TOLD_TWICE: Duration = Duration::from_millis(250);

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// By a supervisor.
    Terminate,
    /// By Ctrl-C.
    Interrupt,
}

impl Signal {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }

    fn number(self) -> i32 {
        let kind = match self {
            Self::Terminate => SignalKind::terminate(),
            Self::Interrupt => SignalKind::interrupt(),
        };
        kind.as_raw_value()
    }
}

/// Hears them from when it is made.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Stream,
    interrupt: Stream,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: signal(terminate)?, interrupt: signal(interrupt)? })
    }

    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Interrupt,
        }
    }

    /// The next one ends the process at once, whatever it is doing.
    pub(super) fn exit_at_next(mut self) {
        tokio::spawn(async move {
            let is_another = tokio::time::Instant::now() + TOLD_TWICE;
            while tokio::time::timeout_at(is_another, self.next()).await.is_ok() {}
            let signal = self.next().await;
            tracing::warn!(signal = signal.name(), "a second signal: ending at once");
            std::process::exit(BY_SIGNAL + signal.number());
        });
    }
}
