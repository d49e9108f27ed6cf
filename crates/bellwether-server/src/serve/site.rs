//! What the doors open into: the store, if it is open, and the routes to it.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use bellwether::clock::Clock;
use bellwether::wire::accept::{Acceptor, Budget, Limits, Owners};
use bellwether::{Bellwether, Error};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::connections::Connections;
use super::tls::Tls;
use super::{LAST_WORDS, memory, routes};
use crate::access::Access;
use crate::cli::Failure;
use crate::config::Config;
use crate::http;
use crate::observe::look::Look;
use crate::observe::metrics::Drain;
use crate::observe::traces::Traces;

/// See the module.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) connections: Arc<Connections>,
    /// TLS at both doors, if there is to be any.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Who may ask, if not everybody.
    pub(crate) access: Option<Arc<Access>>,
    /// What all who ask may have unanswered together.
    pub(crate) budget: Arc<Budget>,
    /// Cancelled when the server is to stop; who waits long should listen.
    pub(crate) stopping: CancellationToken,
    pub(crate) health: Look,
    pub(crate) metrics: Look,
    pub(crate) drain: Drain,
    pub(super) traces: Option<Traces>,
    /// Those who watch the store.
    pub(super) observers: TaskTracker,
    shown: RwLock<Shown>,
    resetting: tokio::sync::Mutex<()>,
}

/// What requests see. All of it belongs to one store, and is made anew for another.
#[derive(Clone, Debug, Default)]
struct Shown {
    store: Option<Bellwether>,
    router: Router,
    acceptor: Option<Acceptor>,
    /// Whose members are whose, where that is told apart.
    owners: Option<Arc<Owners>>,
    /// Cancelled when this store is no longer shown, or the server stops.
    stop: CancellationToken,
    /// Connections of the wire into it.
    connections: TaskTracker,
}

/// What lets a connection of the wire into a store.
#[derive(Debug)]
pub(super) struct Entrance {
    pub(super) acceptor: Acceptor,
    /// Whose members are whose, where that is told apart.
    pub(super) owners: Option<Arc<Owners>>,
    /// Cancelled when the connection is to end.
    pub(super) stop: CancellationToken,
    /// Dropped when it has ended.
    pub(super) connection: TaskTrackerToken,
}

impl Site {
    /// A site whose store is not open yet.
    pub(super) fn new(
        config: Config,
        clock: Clock,
        connections: Arc<Connections>,
        tls: Option<Arc<Tls>>,
        access: Option<Arc<Access>>,
        traces: Option<Traces>,
    ) -> Self {
        Self {
            budget: Budget::new(memory::of_asks(&config)),
            config,
            clock,
            connections,
            tls,
            access,
            stopping: CancellationToken::new(),
            health: Look::within(Duration::from_secs(1)),
            // As long as whoever asks for metrics waits by default.
            metrics: Look::within(Duration::from_secs(10)),
            drain: Drain::default(),
            traces,
            observers: TaskTracker::new(),
            shown: RwLock::default(),
            resetting: tokio::sync::Mutex::default(),
        }
    }

    /// Shows the routes that are there before the store is.
    pub(super) fn show_opening(self: &Arc<Self>) {
        self.put(Shown { router: routes::all(self, None), ..Shown::default() });
    }

    /// Shows a store; whoever waits in the one before is asked to end.
    pub(super) async fn show(self: &Arc<Self>, store: Bellwether) -> Result<(), Error> {
        let acceptor = Acceptor::new(&store, self.wire_limits())?.within(Arc::clone(&self.budget));
        let stop = self.stopping.child_token();
        let owners = match &self.access {
            Some(_) => Some(Arc::new(Owners::of(&store).await?)),
            None => None,
        };
        let state = http::State::new(store.clone(), stop.clone(), owners.clone());
        self.observers.spawn(http::observe(state.clone()));
        let router = routes::all(self, Some(state));
        let connections = TaskTracker::new();
        let acceptor = Some(acceptor);
        self.put(Shown { store: Some(store), router, acceptor, owners, stop, connections });
        Ok(())
    }

    fn wire_limits(&self) -> Limits {
        Limits {
            asks_max: self.config.wire_asks_max.get_u32(),
            bytes_max: self.config.wire_bytes_max.get_u32(),
            silence_ms_max: self.config.wire_silence_ms_max.get_u32(),
            hello_ms_max: self.config.wire_hello_ms_max.get_u32(),
            hello_bytes_max: self.config.wire_hello_bytes_max.get_u32(),
            pace: self.config.pace(),
            awake_us_max: self.config.wire_awake_us_max.get_u32(),
        }
    }

    fn put(&self, shown: Shown) {
        let mut place = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *place, shown);
        drop(place);
        before.stop.cancel();
    }

    fn shown(&self) -> Shown {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The store, if it is open.
    pub(crate) fn store(&self) -> Option<Bellwether> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).store.clone()
    }

    pub(super) fn router(&self) -> Router {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).router.clone()
    }

    /// The way into the store for a connection of the wire; `None` if the store is not open.
    pub(super) fn entrance(&self) -> Option<Entrance> {
        let Shown { acceptor, owners, stop, connections, .. } = self.shown();
        Some(Entrance { acceptor: acceptor?, owners, stop, connection: connections.token() })
    }

    /// Where the store is.
    pub(crate) fn place(&self) -> String {
        if self.config.memory {
            return "memory; nothing is kept".into();
        }
        let path = &self.config.data;
        path.canonicalize().unwrap_or_else(|_| path.clone()).display().to_string()
    }

    /// Puts an empty store in the place of one in memory. Whoever came by the wire is answered what
    /// it has asked, and comes again; whoever still waits over HTTP hears that the store was closed.
    pub(super) async fn reset(self: &Arc<Self>) -> Result<(), Error> {
        let _one_at_a_time = self.resetting.lock().await;
        let empty =
            super::open(&self.config, &self.clock).await.map_err(|failure| match failure {
                Failure::Store(error) => error,
                other => Error::Failed(other.to_string()),
            })?;
        let old = self.shown();
        self.show(empty).await?;
        old.connections.close();
        let _ = tokio::time::timeout(LAST_WORDS, old.connections.wait()).await;
        if let Some(store) = old.store {
            store.close().await;
        }
        Ok(())
    }
}
