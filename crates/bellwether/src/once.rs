//! Work that is done once, however often its message is delivered.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use bellwether::Bellwether;
//! # let bw = Bellwether::open("memory:").await?;
//! let pay = || async { Ok::<_, std::io::Error>("receipt 7".into()) }; // the effect
//! let first = bw.once("payments", "order-17")?.run(pay).await?;
//! let again = bw.once("payments", "order-17")?.run(pay).await?; // not paid again
//! assert_eq!((&first.outcome[..], &again.outcome[..]), (&b"receipt 7"[..], &b"receipt 7"[..]));
//! assert!(first.is_first && !again.is_first);
//! # Ok(()) }
//! ```
//!
//! ```text
//!   claim ── granted ─► act ─► finish with the outcome        later: done, here is the outcome
//!     │                  └─ crash: held until its lock is over, then the next who claims has it
//!     ├── in progress: somebody is at it, or died a moment ago: come back later
//!     └── conflict: the key was used for other content: a bug of whoever chose the key
//! ```
//!
//! 1. The claim is one atomic insert. Of any number that claim a key at once one is granted it.
//! 2. An effect outside of the store and its finishing are two steps: a crash between them leaves a
//!    claim that is taken over ([`Claim::taken_over`]), and whoever takes over must find out whether
//!    the effect happened. Where effect and marker can be one transaction, make them one:
//!    [`Transaction::finish`] for what happens in the store, `bellwether::once::postgres` for
//!    PostgreSQL.
//! 3. The key is the message's id or a business key, never a lock token or a delivery count, which
//!    differ from delivery to delivery. Keep markers longer than the longest redelivery.

#[cfg(feature = "once-postgres")]
pub mod postgres;

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bellwether_core::command::Command;
use bellwether_core::name::{MemberId, NoteKey, QueueName};
use bellwether_core::note::{self, ClaimToken};
use bellwether_core::outcome::Outcome;
use bellwether_core::time::WallTime;
use bytes::Bytes;

use crate::error::Error;
use crate::handle::{Bellwether, Inner, unreachable_outcome};
use crate::message::bytes_hash;
use crate::queue::{ID_HASH_KEY, ms};
use crate::transaction::Transaction;

/// For how long a claim is held if nobody says.
const LOCK: Duration = Duration::from_mins(1);
/// For how long a claim is remembered if nobody says: longer than most redeliveries.
const KEEP: Duration = Duration::from_hours(7 * 24);

/// How often what came of claims, since the store was opened by this process.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    granted: AtomicU64,
    taken_over: AtomicU64,
    duplicates: AtomicU64,
    in_progress: AtomicU64,
    conflicts: AtomicU64,
}

/// How often what came of claims, since the store was opened by this process. A growing part of
/// duplicates tells of locks that are too short, of consumers that die, or of a producer that
/// repeats itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnceCounts {
    /// Granted, taken over or not.
    pub granted: u64,
    /// Of these, taken over from somebody who had not finished.
    pub taken_over: u64,
    /// Done already.
    pub duplicates: u64,
    /// Somebody else was at it.
    pub in_progress: u64,
    /// The key belonged to other content.
    pub conflicts: u64,
}

impl Bellwether {
    /// A piece of work that shall be done once; nothing is asked of the store yet. Consumers that
    /// work independently of each other have scopes of their own. A scope is named as a queue is, and
    /// a credential needs the right to listen there.
    pub fn once(&self, scope: &str, key: &str) -> Result<Once, Error> {
        Ok(Once {
            inner: Arc::clone(&self.inner),
            scope: QueueName::new(scope)?,
            key: NoteKey::new(key)?,
            hash: 0,
            lock: LOCK,
            keep: KEEP,
        })
    }

    /// What came of this process's claims.
    pub fn once_counts(&self) -> OnceCounts {
        let Counters { granted, taken_over, duplicates, in_progress, conflicts } = &self.inner.once;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OnceCounts {
            granted: read(granted),
            taken_over: read(taken_over),
            duplicates: read(duplicates),
            in_progress: read(in_progress),
            conflicts: read(conflicts),
        }
    }
}

/// A piece of work that shall be done once; see the [module](self).
#[derive(Clone, Debug)]
pub struct Once {
    inner: Arc<Inner>,
    scope: QueueName,
    key: NoteKey,
    hash: u128,
    lock: Duration,
    keep: Duration,
}

/// What became of a claim.
#[derive(Debug)]
pub enum Claimed {
    /// It is ours: do it, and finish.
    Granted(Claim),
    /// Somebody else is at it, or died a moment ago.
    InProgress {
        /// Who; `None` if it has left.
        by: Option<MemberId>,
        /// For how long nobody else can have it.
        remaining: Duration,
    },
    /// It was done before.
    Done {
        /// When.
        at: WallTime,
        /// What came of it.
        outcome: Bytes,
    },
    /// The key was used for other content.
    Conflict,
}

/// Work that was done, now or before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// What came of it.
    pub outcome: Bytes,
    /// It was done by this very call.
    pub is_first: bool,
}

/// Why work was not done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OnceError<E: Display> {
    /// Somebody else is at it, or died a moment ago: come back later, as by abandoning the message.
    #[error("{key:?} is being done by somebody else for up to {remaining:?}; come back later")]
    InProgress {
        /// Which piece of work.
        key: String,
        /// For how long nobody else can have it.
        remaining: Duration,
    },
    /// The key was used for other content: dead-letter the message, nothing was skipped in silence.
    #[error("{key:?} was used for other content; the key is not unique: dead-letter the message")]
    Conflict {
        /// Which piece of work.
        key: String,
    },
    /// The work failed, and the claim was given up: whoever claims next does it.
    #[error("{0}")]
    Work(E),
    /// The store said no, or failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Once {
    /// What is to be done. The same key with other content is a conflict, not a duplicate.
    #[must_use]
    pub fn content(self, content: impl AsRef<[u8]>) -> Self {
        Self { hash: bytes_hash(ID_HASH_KEY, content.as_ref()), ..self }
    }

    /// Nobody else gets it for so long; a minute if not said. Longer than the work takes.
    #[must_use]
    pub fn lock(self, lock: Duration) -> Self {
        Self { lock, ..self }
    }

    /// It is remembered for so long; a week if not said. Longer than the longest redelivery.
    #[must_use]
    pub fn keep(self, keep: Duration) -> Self {
        Self { keep, ..self }
    }

    /// Asks to be the one who does it.
    pub async fn claim(&self) -> Result<Claimed, Error> {
        let command = Command::Claim {
            scope: self.scope.clone(),
            key: self.key.clone(),
            hash: self.hash,
            lock_ms: u32::try_from(ms(self.lock)).unwrap_or(u32::MAX),
            ttl_ms: ms(self.keep),
        };
        let reply = self.inner.ask(command).await?;
        let Outcome::Claimed(claimed) = reply.outcome else { unreachable_outcome(&reply.outcome) };
        let counters = &self.inner.once;
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        Ok(match claimed {
            note::Claimed::Granted { token, taken_over } => {
                count(&counters.granted);
                if taken_over {
                    count(&counters.taken_over);
                }
                let (scope, key) = (self.scope.clone(), self.key.clone());
                let inner = Arc::clone(&self.inner);
                Claimed::Granted(Claim { inner, scope, key, token, taken_over })
            }
            note::Claimed::InProgress { by, remaining_ms } => {
                count(&counters.in_progress);
                Claimed::InProgress { by, remaining: Duration::from_millis(remaining_ms) }
            }
            note::Claimed::Done { at, .. } => {
                count(&counters.duplicates);
                let outcome = reply.contents.into_iter().next().unwrap_or_else(|| Ok(Bytes::new()));
                let unreadable =
                    |what| Error::Unreadable { queue: self.scope.to_string(), sequence: 0, what };
                Claimed::Done { at, outcome: outcome.map_err(unreadable)? }
            }
            note::Claimed::Conflict => {
                count(&counters.conflicts);
                Claimed::Conflict
            }
        })
    }

    /// Does the work unless it was done, and tells what came of it, now or then. If the work fails
    /// the claim is given up. If this future is dropped while the work runs, or the process dies, the
    /// claim stays until its lock is over.
    pub async fn run<E, F>(self, work: impl FnOnce() -> F) -> Result<Done, OnceError<E>>
    where
        E: Display,
        F: Future<Output = Result<Bytes, E>>,
    {
        let key = self.key.to_string();
        match self.claim().await? {
            Claimed::Granted(claim) => match work().await {
                Ok(outcome) => {
                    claim.finish(outcome.clone()).await?;
                    Ok(Done { outcome, is_first: true })
                }
                Err(why) => {
                    claim.give_up().await?;
                    Err(OnceError::Work(why))
                }
            },
            Claimed::Done { outcome, .. } => Ok(Done { outcome, is_first: false }),
            Claimed::InProgress { remaining, .. } => Err(OnceError::InProgress { key, remaining }),
            Claimed::Conflict => Err(OnceError::Conflict { key }),
        }
    }
}

/// A claim that is held: the work is ours to do, and to finish or give up.
///
/// One that is dropped stays held until its lock is over: nobody knows what was done of it.
#[derive(Debug)]
pub struct Claim {
    pub(crate) inner: Arc<Inner>,
    pub(crate) scope: QueueName,
    pub(crate) key: NoteKey,
    pub(crate) token: ClaimToken,
    taken_over: bool,
}

impl Claim {
    /// Somebody had it before and did not finish: it may have done all of it, half of it or nothing.
    pub fn taken_over(&self) -> bool {
        self.taken_over
    }

    /// The proof of the claim.
    pub fn token(&self) -> ClaimToken {
        self.token
    }

    /// The work is done, and this came of it: whoever claims it from here on is told. Refused with
    /// [`Refusal::ClaimLost`](crate::Refusal::ClaimLost) if somebody took it over.
    pub async fn finish(self, outcome: impl Into<Bytes>) -> Result<(), Error> {
        let transaction = Transaction::new(Arc::clone(&self.inner));
        transaction.finish(self, outcome).commit().await?;
        Ok(())
    }

    /// The work was not done: whoever claims it next has it at once.
    pub async fn give_up(self) -> Result<(), Error> {
        let transaction = Transaction::new(Arc::clone(&self.inner));
        transaction.give_up(self).commit().await?;
        Ok(())
    }
}
