//! What a scaler reads of a queue, and how those who scale together speak to each other.
//!
//! The rules are [`bellwether_core::scaler`]: a pure step from a [`Reading`] to a [`Decision`]. Inside a
//! process [`Pump::scaled`](crate::Pump::scaled) carries them out; the program has `bellwether scale`
//! for worker processes, and an endpoint for KEDA.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
//! use bellwether::Bellwether;
//! use bellwether::scaler::{Policy, Scaler, Workers, reading};
//!
//! let bw = Bellwether::open("memory:").await?;
//! let orders = bw.create_queue("orders", Default::default()).await?;
//! orders.send_batch(["one"; 12]).await?;
//!
//! let policy = Policy { per_worker: Some(5), ..Policy::default() };
//! let load = orders.load().await?;
//! let workers = Workers { running: 1, ..Workers::default() };
//! let decision = Scaler::new(policy).step(bw.clock().now().boot, reading(&load, workers));
//! assert_eq!(decision.to_string(), "out from 1 to 3: 12 messages, 5 to a worker, want 3");
//! # Ok(()) }
//! ```

use bellwether_core::command::Command;
use bellwether_core::name::LeaseName;
pub use bellwether_core::outcome::{Busy, Load, Report};
pub use bellwether_core::scaler::{
    Candidate, Decision, Host, Pace, Policy, Reading, Rule, Scaler, WORKERS_MAX, Why, Wish,
    choose_victims, spread,
};

use bellwether_core::outcome::Outcome;

use crate::error::Error;
use crate::handle::{Bellwether, unreachable_outcome};
use crate::queue::Queue;

/// Set in the environment of a worker process: the name it is known by. A store that is opened there
/// says it of itself as `worker=NAME`, so that whoever started it knows whether it is busy, or leads.
pub const WORKER_VARIABLE: &str = "BELLWETHER_WORKER";

/// How many workers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// That take messages.
    pub running: u32,
    /// That do not yet.
    pub starting: u32,
    /// Of those that run, those that have a message.
    pub busy: u32,
}

/// What the scaler looks at.
pub fn reading(load: &Load, workers: Workers) -> Reading {
    let Workers { running, starting, busy } = workers;
    Reading {
        ready: load.counts.ready,
        locked: load.counts.locked,
        arrived: load.totals.sent,
        completed: load.totals.completed + load.totals.dead_lettered,
        oldest_ms: load.oldest_ms,
        is_paused: load.is_paused,
        running,
        starting,
        busy,
    }
}

impl Queue {
    /// How much there is to do, and who is at it.
    pub async fn load(&self) -> Result<Load, Error> {
        match self.ask(Command::ReadLoad { queue: self.name().clone() }).await?.outcome {
            Outcome::Load(load) => Ok(*load),
            other => unreachable_outcome(&other),
        }
    }
}

impl Bellwether {
    /// Tells the others in an election something, in the place of what this member told them before,
    /// and hears what they tell. It is kept in memory, for as long as this member is here.
    pub async fn report(&self, election: &str, text: &str) -> Result<Vec<Report>, Error> {
        let (lease, text) = (LeaseName::new(election)?, text.to_owned());
        self.reported(Command::Report { lease, text }).await
    }

    /// What those in an election tell each other.
    pub async fn reports(&self, election: &str) -> Result<Vec<Report>, Error> {
        self.reported(Command::ListReports { lease: LeaseName::new(election)? }).await
    }

    async fn reported(&self, command: Command) -> Result<Vec<Report>, Error> {
        match self.inner.ask(command).await?.outcome {
            Outcome::Reports(reports) => Ok(reports),
            other => unreachable_outcome(&other),
        }
    }
}
