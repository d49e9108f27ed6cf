//! A store to try a case on.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bellwether_core::time::{Now, WallTime};

use crate::clock::{Clock, VirtualClock};
use crate::error::Error;
use crate::handle::Bellwether;

/// A store being opened.
pub type Opening<'a> = Pin<Box<dyn Future<Output = Result<Bellwether, Error>> + Send + 'a>>;

/// How an engine's store is opened and killed: all that an engine's test file has to say.
pub trait Store: std::fmt::Debug + Send + Sync + 'static {
    /// Opens the store: a fresh one the first time, then as it was left. `memory_bytes_max` limits
    /// what it may hold, if given.
    fn open(&self, memory_bytes_max: Option<u64>) -> Opening<'_>;

    /// Whatever has the store open dies in this moment, without a chance to finish anything. The
    /// old handles are dropped after that; the next [`Store::open`] opens what the dead left.
    fn kill(&self);

    /// The clock the store was opened with, if tests can move it; time really passes if not.
    fn clock(&self) -> Option<VirtualClock>;

    /// Whether an answer may get lost on its way. Then it is asked for again; but what was received
    /// and deleted is not there to be handed out again.
    fn loses_answers(&self) -> bool;
}

/// One fresh store, for one case.
#[derive(Debug)]
pub struct Fixture {
    store: Box<dyn Store>,
    current: Mutex<Bellwether>,
}

impl Fixture {
    /// Opens a store that no case has seen.
    pub async fn open(store: impl Store) -> Self {
        let opened = store.open(None).await.expect("a fresh store opens");
        Self { store: Box::new(store), current: Mutex::new(opened) }
    }

    /// The store as it is open now.
    pub fn bellwether(&self) -> Bellwether {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// See [`Store::loses_answers`].
    pub(super) fn loses_answers(&self) -> bool {
        self.store.loses_answers()
    }

    /// Both times, as the store sees them.
    pub fn now(&self) -> Now {
        self.store.clock().map_or_else(|| Clock::System.now(), |clock| clock.now())
    }

    /// The wall-clock time so much later.
    pub fn wall_in(&self, ms: u64) -> WallTime {
        self.now().wall.plus_ms(ms)
    }

    /// Lets time pass. When this returns, everything that became due has become so and can be
    /// seen.
    pub async fn advance(&self, by: Duration) {
        match self.store.clock() {
            Some(clock) => clock.advance(by),
            // Clocks are read in whole milliseconds on both sides.
            None => tokio::time::sleep(by + Duration::from_millis(5)).await,
        }
        self.settle().await;
    }

    /// Waits until everything that was asked for so far has happened and can be seen: an answer
    /// leaves only when all it has read is durable.
    pub async fn settle(&self) {
        self.bellwether().queues().await.expect("an open store answers");
    }

    /// Closes the store and opens it again.
    pub async fn restart(&self) -> Bellwether {
        self.bellwether().close().await;
        self.reopen(None).await
    }

    /// Kills whatever has the store open and opens it again.
    pub async fn kill(&self) -> Bellwether {
        self.store.kill();
        self.reopen(None).await
    }

    /// Closes the store and opens it again with so much memory.
    pub async fn restart_with_memory(&self, memory_bytes_max: u64) -> Bellwether {
        self.bellwether().close().await;
        self.reopen(Some(memory_bytes_max)).await
    }

    async fn reopen(&self, memory_bytes_max: Option<u64>) -> Bellwether {
        let opened = self.store.open(memory_bytes_max).await.expect("the store opens again");
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = opened.clone();
        opened
    }

    /// Ends the case.
    pub(super) async fn close(&self) {
        self.bellwether().close().await;
    }
}
