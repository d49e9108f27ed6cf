//! How many connections there are, and when they have all ended.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::tally::Tally;
use crate::access::Origin;
use crate::config::{Config, Source};

/// See the module.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) http: Places,
    pub(crate) wire: Places,
    pub(crate) refusals: Arc<Refusals>,
    /// Connections of HTTP that were not waited for any longer.
    pub(crate) http_dropped: Tally<3>,
    /// Connections of the wire that were ended for what they did.
    pub(crate) wire_dropped: Tally<6>,
    /// Bodies of requests that were not read to their end.
    pub(crate) bodies_refused: Arc<Tally<4>>,
    /// How often a connection could not be accepted, at any door.
    pub(crate) accept_failed: AtomicU64,
    /// Places for those who are sent away.
    leaving: Arc<Semaphore>,
}

/// So many are listened to while they are sent away.
const LEAVING_MAX: usize = 64;

/// The limits that a connection may be one too many for: of its kind, and of where it comes from.
const OF_ALL: &str = "total";
const OF_ADDRESS: &str = "address";

/// The places of one kind of connection.
#[derive(Debug)]
pub(crate) struct Places {
    address: SocketAddr,
    max: u32,
    free: Arc<Semaphore>,
    /// Those for whom there was none, by the limit that was reached.
    pub(crate) refused: Tally<2>,
    addresses: Arc<Addresses>,
}

/// A place that is taken.
#[derive(Debug)]
pub(super) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_address: Option<OfAddress>,
}

/// How many come from where; loopback is not counted.
#[derive(Debug)]
struct Addresses {
    max: u64,
    open: Mutex<HashMap<IpAddr, u64>>,
}

/// One of an address.
#[derive(Debug)]
struct OfAddress {
    address: IpAddr,
    addresses: Arc<Addresses>,
}

impl Addresses {
    /// One more, or too many.
    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<OfAddress> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(OfAddress { address, addresses: Arc::clone(self) })
    }
}

impl Drop for OfAddress {
    fn drop(&mut self) {
        let mut open = self.addresses.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
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
    /// Places for those who come in at these addresses.
    pub(super) fn new(config: &Config, http: SocketAddr, wire: SocketAddr) -> Arc<Self> {
        let of_system = connections_of_system();
        let max = config.connections_per_address_max.get();
        let addresses = Arc::new(Addresses { max, open: Mutex::default() });
        let (of_http, of_wire) =
            (config.http_connections_max.get(), config.wire_connections_max.get());
        let places = |setting: &str, (wanted, others), address| {
            let max = share(of_system, wanted, others);
            let places = Places::new(max, address, Arc::clone(&addresses));
            // What nobody asked for is not missed; the metrics show what there is.
            if places.max() < wanted && *config.source(setting) != Source::Default {
                tracing::warn!(
                    setting,
                    wanted,
                    max = places.max(),
                    "the system lets this process open few files; raise its limit (ulimit -n, \
                     LimitNOFILE) or lower the setting"
                );
            }
            places
        };
        Arc::new(Self {
            http: places("http_connections_max", (of_http, of_wire), http),
            wire: places("wire_connections_max", (of_wire, of_http), wire),
            refusals: Arc::default(),
            http_dropped: Tally::new(["head", "idle", "reader"]),
            wire_dropped: Tally::new(["hello", "frame", "reader", "silence", "limit", "protocol"]),
            bodies_refused: Arc::new(Tally::new(["too_long", "late", "slow", "unclear"])),
            accept_failed: AtomicU64::new(0),
            leaving: Arc::new(Semaphore::new(LEAVING_MAX)),
        })
    }

    /// A place for one who is sent away, if there is one.
    pub(super) fn send_away(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.leaving).try_acquire_owned().ok()
    }

    /// Whether all have ended within `time`.
    pub(super) async fn ended_within(&self, time: Duration) -> bool {
        let ended = async { tokio::join!(self.http.ended(), self.wire.ended()) };
        tokio::time::timeout(time, ended).await.is_ok()
    }

    /// How many there are.
    pub(super) fn open(&self) -> u64 {
        self.http.open() + self.wire.open()
    }
}

impl Places {
    fn new(max: u32, address: SocketAddr, addresses: Arc<Addresses>) -> Self {
        let free = Arc::new(Semaphore::new(max as usize));
        Self { address, max, free, refused: Tally::new([OF_ALL, OF_ADDRESS]), addresses }
    }

    /// A place for one connection more, or none. It is free again when the place is dropped.
    pub(super) fn enter(&self, origin: &Origin) -> Option<Place> {
        self.try_enter(origin).map_err(|limit| self.refused.count(limit)).ok()
    }

    /// The same, or the limit that was reached.
    fn try_enter(&self, origin: &Origin) -> Result<Place, &'static str> {
        let of_all = Arc::clone(&self.free).try_acquire_owned().map_err(|_| OF_ALL)?;
        let of_address = match origin.remote() {
            Some(address) => Some(self.addresses.enter(address).ok_or(OF_ADDRESS)?),
            None => None,
        };
        Ok(Place { _of_all: of_all, _of_address: of_address })
    }

    async fn ended(&self) {
        // Nobody closes the semaphore: when all places can be had, nobody has one.
        let _ = self.free.acquire_many(self.max).await;
    }

    /// Where it is listened for them.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many there are.
    pub(crate) fn open(&self) -> u64 {
        (self.max as usize).saturating_sub(self.free.available_permits()) as u64
    }

    /// How many there may be.
    pub(crate) fn max(&self) -> u64 {
        self.max.into()
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

/// How many of one kind there may be, so that both kinds may be there in full: half of what the
/// system allows, and what the other kind leaves of its half.
fn share(of_system: u32, wanted: u64, others: u64) -> u32 {
    let half = (of_system / 2).max(1);
    let left = u64::from(of_system).saturating_sub(others);
    let max = left.max(half.into()).min(wanted);
    u32::try_from(max).unwrap_or(of_system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_kind_does_not_want_is_the_others() {
        assert_eq!((share(16_000, 100, 10_100), share(16_000, 10_100, 100)), (100, 10_100));
        assert_eq!((share(16_000, 10_000, 10_000), share(800, 10_000, 10_000)), (8_000, 400));
        assert_eq!((share(800, 10_000, 100), share(800, 100, 10_000)), (700, 100));
        assert_eq!((share(1, 10, 10), share(u32::MAX, 10_000, 10_000)), (1, 10_000));
    }

    #[test]
    fn one_address_does_not_take_all_places() {
        let addresses = Arc::new(Addresses { max: 2, open: Mutex::default() });
        let places = Places::new(9, "127.0.0.1:0".parse().unwrap(), addresses);
        let from = |address: &str| places.enter(&Origin::at(address.parse().unwrap()));
        let first = from("192.0.2.1");
        let _second = from("192.0.2.1").unwrap();
        assert!(from("192.0.2.1").is_none() && from("::ffff:192.0.2.1").is_none());
        assert!(from("192.0.2.2").is_some(), "another one");
        let _network = (from("2001:db8::1").unwrap(), from("2001:db8::ffff:1").unwrap());
        assert!(from("2001:db8::2").is_none(), "one machine can have all of these");
        assert!(from("2001:db8:0:1::1").is_some(), "but not those");
        drop(first);
        assert!(from("192.0.2.1").is_some(), "one has gone");
        let near: Vec<_> = (0..5).map(|_| from("127.0.0.1")).collect();
        assert!(near.iter().all(Option::is_some), "loopback");
        let taken: Vec<_> = std::iter::from_fn(|| from("127.0.0.1")).collect();
        assert!(from("127.0.0.1").is_none() && !taken.is_empty(), "there is no place for anybody");
        let refused: Vec<_> = places.refused.read().collect();
        assert_eq!(refused, [("total", 2), ("address", 3)], "each by what it came up against");
    }
}
