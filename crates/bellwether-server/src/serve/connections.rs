//! How many connections there are, and when they have all ended.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Config;

/// See the module.
#[derive(Debug)]
pub(crate) struct Connections {
    max: u32,
    free: Arc<Semaphore>,
    http: SocketAddr,
    refused: AtomicU64,
    pub(crate) refusals: Arc<Refusals>,
}

/// Requests that were refused before any route saw them, and why.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    host: AtomicU64,
    origin: AtomicU64,
}

impl Refusals {
    pub(super) fn count_host(&self) {
        self.host.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_origin(&self) {
        self.origin.fetch_add(1, Ordering::Relaxed);
    }

    /// How many, by reason.
    pub(crate) fn read(&self) -> [(&'static str, u64); 2] {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [("host", read(&self.host)), ("origin", read(&self.origin))]
    }
}

impl Connections {
    pub(super) fn new(config: &Config, http: SocketAddr) -> Arc<Self> {
        let wanted = u32::try_from(config.http_connections_max.get()).unwrap_or(u32::MAX);
        let max = wanted.min(connections_of_system());
        if max < wanted {
            tracing::warn!(
                http_connections_max = wanted,
                max,
                "the system lets this process open few files; raise its limit (ulimit -n, \
                 LimitNOFILE) or lower the setting"
            );
        }
        Arc::new(Self {
            max,
            free: Arc::new(Semaphore::new(max as usize)),
            http,
            refused: AtomicU64::new(0),
            refusals: Arc::default(),
        })
    }

    /// A place for one connection more, or none. It is free again when the place is dropped.
    pub(super) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.free).try_acquire_owned().ok();
        if place.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        place
    }

    /// Whether all have ended within `time`.
    pub(super) async fn ended_within(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.free.acquire_many(self.max)).await.is_ok()
    }

    /// Where HTTP is listened for.
    pub(super) fn http(&self) -> SocketAddr {
        self.http
    }

    /// How many there are.
    pub(crate) fn open(&self) -> u64 {
        (self.max as usize).saturating_sub(self.free.available_permits()) as u64
    }

    /// How many there may be.
    pub(crate) fn max(&self) -> u64 {
        self.max.into()
    }

    /// How many came when there were so many already.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Four fifths of the files that may be open, after asking for as many as may be asked for: the
/// journal needs some too.
fn connections_of_system() -> u32 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = raised;
        }
    }
    let files = limit.current.unwrap_or(u64::MAX);
    u32::try_from(files / 5 * 4).unwrap_or(u32::MAX).max(1)
}
