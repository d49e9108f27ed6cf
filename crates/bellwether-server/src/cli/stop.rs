//! Ctrl-C and its like: a wish to stop, answered by stopping well.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;

/// Hears of the wish to stop, from when it is made.
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let hear = |kind| {
            signal(kind).map_err(|e| Failure::Internal(format!("cannot listen to signals: {e}")))
        };
        Ok(Self {
            interrupt: hear(SignalKind::interrupt())?,
            terminate: hear(SignalKind::terminate())?,
        })
    }

    /// Ready when somebody wants this to stop.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
