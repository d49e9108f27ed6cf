//! One worker process, in its guardian's hands.

use std::ffi::OsString;
use std::time::Duration;

use bellwether::core::time::BootTime;
use rustix::process::Signal;
use tokio::sync::mpsc;

use super::super::lead::guarded::{Guarded, Plan, Turn};

/// What a worker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// SIGTERM, and SIGKILL after the grace.
    Stop,
    /// SIGKILL.
    Kill,
}

/// What is run.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) command: Vec<OsString>,
    pub(super) environment: Vec<(&'static str, OsString)>,
    pub(super) grace: Duration,
}

impl Task {
    /// Starts it under that name, and tells its name and exit code when nothing of it is left.
    pub(super) fn start(
        &self,
        worker: String,
        ended: mpsc::UnboundedSender<(String, u8)>,
    ) -> std::io::Result<mpsc::UnboundedSender<Order>> {
        let mut environment = self.environment.clone();
        environment.push((bellwether::scaler::WORKER_VARIABLE, worker.clone().into()));
        let mut guarded = Guarded::start(&Plan {
            command: &self.command,
            environment,
            reads: false,
            until: BootTime::NEVER,
            notice: Duration::ZERO,
            grace: self.grace,
            is_polite: true,
            kept: None,
        })?;
        let (orders, mut told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let code = loop {
                tokio::select! {
                    turn = guarded.turn() => match turn {
                        Turn::CutOff => {}
                        Turn::Ended(code) => break code,
                        Turn::Unguarded => break guarded.put_down_alone(),
                    },
                    Some(order) = told.recv() => match order {
                        Order::Stop => guarded.stop(Signal::TERM).await,
                        Order::Kill => guarded.kill().await,
                    },
                }
            };
            // Nobody listens when all of it ends.
            let _ = ended.send((worker, code));
        });
        Ok(orders)
    }
}
