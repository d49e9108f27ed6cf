//! Those who show what is not believed: slowed down, and mentioned in the log now and then.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bellwether_core::time::BootTime;

use super::Origin;

/// So many are told at once within [`WINDOW_MS`]; the next ones are told later.
const FREE_MAX: u32 = 10;
const WINDOW_MS: u64 = 60_000;
const LATER: Duration = Duration::from_secs(1);
/// So many addresses are remembered.
const ADDRESSES_MAX: usize = 10_000;
/// Between two lines in the log.
const LOG_EVERY_MS: u64 = 10_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    total: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    by_address: HashMap<IpAddr, (BootTime, u32)>,
    logged: Option<(BootTime, u64)>,
}

impl Failures {
    /// One more from there. How long to wait before it is told so.
    pub(super) fn count(&self, from: &Origin, now: BootTime) -> Duration {
        let total = self.total.fetch_add(1, Ordering::Relaxed) + 1;
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let said = inner.logged.map_or(0, |(_, said)| said);
        if inner.logged.is_none_or(|(at, _)| at.plus_ms(LOG_EVERY_MS) <= now) {
            inner.logged = Some((now, total));
            tracing::warn!(%from, times = total - said, "a credential was not accepted");
        }
        let Some(address) = from.remote() else { return Duration::ZERO };
        let by_address = &mut inner.by_address;
        if by_address.len() >= ADDRESSES_MAX {
            by_address.retain(|_, (since, _)| now < since.plus_ms(WINDOW_MS));
        }
        if by_address.len() >= ADDRESSES_MAX && !by_address.contains_key(&address) {
            return LATER;
        }
        let (since, times) = by_address.entry(address).or_insert((now, 0));
        if since.plus_ms(WINDOW_MS) <= now {
            (*since, *times) = (now, 0);
        }
        *times += 1;
        if *times > FREE_MAX { LATER } else { Duration::ZERO }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_guesses_waits_and_loopback_does_not() {
        let failures = Failures::default();
        let at = |address: &str| Origin::at(address.parse().unwrap());
        let (far, near) = (at("192.0.2.1"), at("127.0.0.1"));
        let delays: Vec<_> = (0..12).map(|_| failures.count(&far, BootTime(5))).collect();
        assert!(delays[..10].iter().all(Duration::is_zero) && delays[10..] == [LATER, LATER]);
        assert!((0..50).all(|_| failures.count(&near, BootTime(6)).is_zero()));
        assert!(failures.count(&at("192.0.2.2"), BootTime(7)).is_zero(), "another one");
        assert!(failures.count(&far, BootTime(5 + WINDOW_MS)).is_zero(), "a minute later");
        assert_eq!(failures.total(), 64);
    }
}
