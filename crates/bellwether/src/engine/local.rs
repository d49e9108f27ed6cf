//! The local engine: one shard, a lock around it, and three helpers beside it.
//!
//! ```text
//!   callers ──► inbox ──► whoever holds the writer: Shard::apply … Shard::seal
//!      ▲                                 ▲                           │
//!      │ one is woken, and answers all   │ time, upkeep              ▼
//!      └──────────────────────────────── │ ─────────────────────── flusher
//!                                     keeper ◄── jobs
//! ```
//!
//! `shared.rs` says who writes and when. The keeper does what nobody asks for, the flusher makes
//! durable what was written, the jobs thread does what takes long.

mod company;
mod flusher;
mod jobs;
mod keeper;
pub(crate) mod shared;
mod stir;
#[cfg(all(test, feature = "testing"))]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::Call;
use super::ask::Asker;
use super::pending::Pending;
use super::shard::{Shard, ShardOptions};
use crate::clock::Clock;
use crate::journal::file::{FileJournal, FileOptions, RealDisk};
use crate::journal::{Journal, JournalFault};
use crate::stats::Stats;
use keeper::Keeper;
use shared::Shared;

/// A running local engine. The last handle to go closes it.
#[derive(Debug)]
pub struct Local {
    shared: Arc<Shared>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl Local {
    /// An engine that keeps nothing.
    pub fn in_memory(clock: Clock, options: &ShardOptions) -> Self {
        let shard = Shard::in_memory(clock.now(), options);
        Self::start(shard, clock)
    }

    /// An engine kept in a folder.
    pub fn file(
        path: &Path,
        clock: Clock,
        options: &ShardOptions,
        file: FileOptions,
    ) -> Result<Self, JournalFault> {
        let shard = Shard::open(clock.now(), options, |replay| {
            let journal = FileJournal::open(Arc::new(RealDisk), path, file, replay)?;
            Ok(Box::new(journal) as Box<dyn Journal>)
        })?;
        Ok(Self::start(shard, clock))
    }

    /// Puts threads around a shard.
    pub(crate) fn start(shard: Shard<Asker>, clock: Clock) -> Self {
        let shared = Arc::new(Shared::new(shard, clock));
        if let Clock::Virtual(clock) = &shared.clock {
            let shared = Arc::downgrade(&shared);
            clock.on_move(move || shared.upgrade().is_some_and(|shared| shared.time_moved()));
        }
        let keeper = Keeper::new(Arc::clone(&shared));
        let keeper = std::thread::Builder::new()
            .name("bellwether-keeper".into())
            .spawn(move || keeper.run())
            .expect("a thread for the keeper");
        Self { shared, keeper: Mutex::new(Some(keeper)) }
    }

    /// Where calls are left and turns are taken.
    #[cfg(feature = "listen")]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Hands in a call.
    pub(crate) fn submit(&self, call: Call) -> Pending<'_> {
        Pending::local(&self.shared, call, false)
    }

    /// Hands in a call whose outcome stands even if nobody takes its answer.
    pub(crate) fn submit_for_good(&self, call: Call) -> Pending<'_> {
        Pending::local(&self.shared, call, true)
    }

    /// Hands in a call whose answer nobody waits for.
    pub(crate) fn tell(&self, call: Call) {
        self.shared.tell(call);
    }

    /// Looks at the shard, as the writer; `None` if it was closed.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Shard<Asker>) -> T) -> Option<T> {
        let mut writer = self.shared.claim();
        let seen = writer.guarded(|shard| look(shard));
        drop(writer);
        // Whoever found the writer taken has left its call to us.
        self.shared.work();
        seen
    }

    /// Until something has changed since this said `seen`; `None` if it was closed.
    pub(crate) async fn changed(&self, seen: u64) -> Option<u64> {
        self.shared.stir.after(seen).await
    }

    /// How the store is; `None` if it was closed.
    pub(crate) fn stats(&self) -> Option<Stats> {
        let flush_us = self.shared.flusher.flush_us.read();
        self.look(|shard| Stats {
            health: shard.health(),
            members: shard.ledger().members_present() as u64,
            memory_bytes: shard.ledger().memory_bytes(),
            refused: shard.refused(),
            flush_us,
            batch: shard.batch(),
        })
    }

    /// Finishes what is in flight, flushes and lets go of the store.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.shared.keeper.close(done);
        // An error means that the keeper has ended already.
        let _ = closed.await;
        self.join();
    }

    fn join(&self) {
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper {
            // What could panic there is caught there.
            let _ = keeper.join();
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.shared.keeper.close(oneshot::channel().0);
        self.join();
    }
}
