//! Ctrl-C and its like: a wish to stop, answered by stopping well.

use std::pin::pin;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;

/// Hears of the wish to stop, from when it is made.
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    /// It was heard, and what was at work then was let finish.
    is_asked: bool,
}

impl Stop {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let hear = |kind| {
            signal(kind).map_err(|e| Failure::Internal(format!("cannot listen to signals: {e}")))
        };
        Ok(Self {
            interrupt: hear(SignalKind::interrupt())?,
            terminate: hear(SignalKind::terminate())?,
            is_asked: false,
        })
    }

    /// Ready when somebody wants this to stop.
    pub(crate) async fn asked(&mut self) {
        if !self.is_asked {
            self.signalled().await;
        }
    }

    /// Lets `work` finish, so that it is known what became of it: the wish to stop holds from then
    /// on. `None` if somebody says so twice and will not wait.
    pub(crate) async fn after<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        tokio::select! {
            done = &mut work => return Some(done),
            () = self.signalled() => self.is_asked = true,
        }
        tokio::select! {
            done = work => Some(done),
            () = self.signalled() => None,
        }
    }

    async fn signalled(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
