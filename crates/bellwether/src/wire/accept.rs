//! The server's side of the wire: a store, open to those who connect.
//!
//! The caller owns the sockets: it listens, and hands every stream it accepts to
//! [`Acceptor::serve`], whose future is the connection. Who is not trusted comes through a [`Gate`].

mod budget;
mod connection;
mod gate;
mod looks;
mod owners;
mod parting;
mod processes;
mod vigil;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bellwether_core::name::MemberSlot;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{Goodbye, VERSION, Welcome, Why, WireError};
use crate::engine::Engine;
use crate::engine::local::Local;
use crate::error::Error;
use crate::handle::Bellwether;
pub use budget::{Budget, Share};
use connection::Connection;
pub use gate::{Gate, Pass, Record, Turned};
pub use owners::{Owners, marked};
pub use parting::part;
pub use processes::Peer;
use processes::Processes;

/// What one connection may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Asks that may be unanswered at a time.
    pub asks_max: u32,
    /// Bytes that unanswered asks may have together.
    pub bytes_max: u32,
    /// Whoever is silent for so long is taken for dead.
    pub silence_ms_max: u32,
    /// Whoever connects says hello within this.
    pub hello_ms_max: u32,
    /// The longest hello: nobody knows yet who speaks.
    pub hello_bytes_max: u32,
    /// How fast a frame must come that has begun, and answers be taken.
    pub pace: Pace,
    /// Whoever asks again and again is waited for awake, for so long at most; never on one core, nor
    /// if it is zero.
    pub awake_us_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            asks_max: 16_384,
            bytes_max: 128 << 20,
            silence_ms_max: 30_000,
            hello_ms_max: 5_000,
            hello_bytes_max: 4096,
            pace: Pace::default(),
            awake_us_max: 200,
        }
    }
}

/// How fast bytes must move while they are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// So many a second; zero if there is no such limit.
    pub bytes_per_s_min: u32,
    /// On average over this time.
    pub over_ms: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { bytes_per_s_min: 1024, over_ms: 10_000 }
    }
}

impl Pace {
    /// How many bytes must move in [`Pace::over_ms`]; zero only if there is no such limit.
    pub fn bytes_min(self) -> u64 {
        (u64::from(self.bytes_per_s_min) * u64::from(self.over_ms)).div_ceil(1000)
    }
}

/// What was waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Late {
    /// The first words.
    #[error("no hello came in time")]
    Hello,
    /// The rest of a frame.
    #[error("a frame came too slowly")]
    Frame,
    /// That answers are read.
    #[error("answers were read too slowly")]
    Reader,
    /// Any sign of life.
    #[error("nothing was said for too long")]
    Silent,
}

/// How a connection ended.
#[derive(Debug)]
pub enum Ended {
    /// The other side closed it.
    Left,
    /// It was sent away, for this reason; or the server stopped.
    SentAway(Goodbye),
    /// The other side was not waited for any longer.
    Late(Late),
    /// The stream broke.
    Broken(std::io::Error),
}

impl Ended {
    /// Whether the other side was told something that it should have the time to read.
    fn has_last_words(&self) -> bool {
        matches!(self, Self::SentAway(_) | Self::Late(Late::Hello | Late::Frame))
    }
}

/// Opens a store to those who connect. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Acceptor {
    local: Arc<Local>,
    speakers: Arc<Speakers>,
    processes: Arc<Processes>,
    /// Who is at the other end of what is served.
    peer: Peer,
    limits: Limits,
    budget: Arc<Budget>,
    /// One of the connections stays awake for what is about to come.
    is_awake: Arc<AtomicBool>,
    name: Arc<str>,
}

impl Acceptor {
    /// Opens the store of this process. A store that is itself reached over a wire has a server
    /// already.
    pub fn new(bellwether: &Bellwether, mut limits: Limits) -> Result<Self, Error> {
        let local = match &bellwether.inner.engine {
            Engine::Local { local, .. } => local,
            Engine::Remote(remote) => {
                let address = remote.options().address.to_string();
                let why = "only the process that has the store open can let others in".into();
                return Err(Error::Address { address, why });
            }
        };
        let name = format!("bellwether {}", env!("CARGO_PKG_VERSION")).into();
        // On a single core, or with no more than that of several, it would take the time of those it
        // waits for.
        if std::thread::available_parallelism().map_or(1, usize::from) == 1 {
            limits.awake_us_max = 0;
        }
        let (local, budget) = (Arc::clone(local), Budget::new(u64::MAX));
        let (speakers, is_awake, processes, peer) = <_>::default();
        Ok(Self { local, speakers, processes, peer, limits, budget, is_awake, name })
    }

    /// The same within a budget, which others may share.
    #[must_use]
    pub fn within(self, budget: Arc<Budget>) -> Self {
        Self { budget, ..self }
    }

    /// The same for connections of this peer: what its process holds is free when that has died.
    #[must_use]
    pub fn for_peer(self, peer: Peer) -> Self {
        Self { peer, ..self }
    }

    /// Serves one connection until it ends, or until `stop`: then what was asked is answered first.
    /// Whoever is at its other end is trusted with everything.
    pub async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        stop: CancellationToken,
    ) -> Ended {
        self.serve_until(stream, None, stop).await
    }

    /// The same for whoever the gate lets in, as far as its pass allows. Whose members are whose is
    /// kept in `owners`, one for all connections to a store.
    pub async fn serve_through(
        &self,
        gate: &dyn Gate,
        owners: Arc<Owners>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        stop: CancellationToken,
    ) -> Ended {
        self.serve_until(stream, Some((gate, owners)), stop).await
    }

    async fn serve_until(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        gate: Option<(&dyn Gate, Arc<Owners>)>,
        stop: CancellationToken,
    ) -> Ended {
        // What it held is free again before the other side is waited for.
        let ended = Connection::new(self, &mut stream, gate).run(stop).await;
        if ended.has_last_words() {
            part(stream).await;
        }
        ended
    }

    fn welcome(&self) -> Welcome {
        let Limits { asks_max, bytes_max, silence_ms_max, .. } = self.limits;
        let name = self.name.to_string();
        Welcome { version: VERSION, name, asks_max, bytes_max, silence_ms_max }
    }
}

/// Which connection speaks for a member: the one it has joined on last. What an older one still
/// brings was said before the member came back, and it has said it again since.
#[derive(Debug, Default)]
struct Speakers {
    by_member: Mutex<HashMap<MemberSlot, Arc<AtomicBool>>>,
}

impl Speakers {
    fn lock(&self) -> MutexGuard<'_, HashMap<MemberSlot, Arc<AtomicBool>>> {
        self.by_member.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The member has joined on the connection whose end is told by `is_over`.
    fn joined(&self, member: MemberSlot, is_over: &Arc<AtomicBool>) {
        if let Some(before) = self.lock().insert(member, Arc::clone(is_over))
            && !Arc::ptr_eq(&before, is_over)
        {
            before.store(true, Ordering::Release);
        }
    }

    /// The connection has ended on which this member had joined. True if it has no other one.
    fn left(&self, member: MemberSlot, is_over: &Arc<AtomicBool>) -> bool {
        let mut by_member = self.lock();
        let is_last = by_member.get(&member).is_some_and(|speaker| Arc::ptr_eq(speaker, is_over));
        if is_last {
            by_member.remove(&member);
        }
        is_last
    }
}

/// To whoever said what cannot be understood, or too much of it.
impl From<WireError> for Goodbye {
    fn from(e: WireError) -> Self {
        let why = if matches!(e, WireError::Parts { .. }) { Why::Limit } else { Why::Protocol };
        goodbye(why, e.to_string())
    }
}

fn goodbye(why: Why, text: impl Into<String>) -> Goodbye {
    Goodbye { why, text: text.into() }
}
