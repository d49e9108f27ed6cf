//! Alive and ready, which are not the same.
//!
//! | | says | who asks | what they do if not |
//! |---|---|---|---|
//! | `/livez` | the process takes requests and answers them | whoever restarts it | restart it |
//! | `/readyz` | a request sent now will be served | whoever sends requests | send them elsewhere, or wait |
//!
//! Alive never looks at the store: a full disk or a long recovery is not mended by a restart.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bellwether::journal::JournalFault;
use bellwether::{Bellwether, Health};

use crate::http::problem::{Kind, Problem, Told};
use crate::serve::{Site, disk};

/// How often a store at work is looked at when nobody asks.
const WATCH_EVERY: Duration = Duration::from_secs(5);
/// How often one that nobody uses: only a writer that hangs is found by this.
const WATCH_IDLY_EVERY: Duration = Duration::from_secs(60);

/// Why there is nothing to look at yet.
pub(super) const OPENING: &str = "the store is being opened";

pub(super) async fn live() -> &'static str {
    "alive\n"
}

pub(super) async fn ready(State(site): State<Arc<Site>>) -> Response {
    match check_ready(&site).await {
        Ok(()) if site.config.is_insecure() => "ready\ninsecure_allow_remote\n".into_response(),
        Ok(()) => "ready\n".into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn check_ready(site: &Site) -> Told<()> {
    if site.stopping.is_cancelled() {
        return Err(not_yet("the server is stopping; ask again when it is back"));
    }
    let Some(store) = site.store() else { return Err(not_yet(OPENING)) };
    check_health(site.health.at(move || store.stats().map(|stats| stats.health)).await)
}

fn check_health(seen: Result<Health, String>) -> Told<()> {
    match seen {
        Ok(Health::Sound) => Ok(()),
        Ok(Health::ShortOfSpace) => Err(not_yet(
            "the disk is full, or has less free than disk_free_bytes_min; receiving and settling \
             go on; free space, sending resumes by itself",
        )),
        // The one that no waiting mends: this server ends, and somebody must look at the disk.
        Ok(Health::Broken(fault)) => Err(Problem::new(Kind::NotReady, fault.to_string())),
        Err(why) => Err(not_yet(why)),
    }
}

/// What may be over the next time somebody asks.
pub(super) fn not_yet(why: impl Into<String>) -> Box<Problem> {
    Problem::new(Kind::NotReady, why).retry_after(1000)
}

/// Watches over the store, logs what somebody must do something about, and returns the fault that
/// ends it.
pub(crate) async fn watch(site: &Arc<Site>) -> JournalFault {
    let (mut was_short, mut seen) = (false, 0);
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        let Some(store) = site.store() else { continue };
        match tokio::time::timeout(WATCH_IDLY_EVERY, store.changed(seen)).await {
            Ok(Ok(now)) => seen = now,
            // Another store is shown by now.
            Ok(Err(_)) => continue,
            Err(_) => {}
        }
        let health = |store: Bellwether| move || store.stats().map(|stats| stats.health);
        let is_short = match site.health.at(health(store)).await {
            Ok(Health::Broken(fault)) => return fault,
            Ok(Health::ShortOfSpace) => true,
            Ok(Health::Sound) => false,
            Err(why) => {
                tracing::warn!("{why}");
                continue;
            }
        };
        if is_short && !was_short {
            tracing::error!(
                store = %site.place(),
                free_bytes = disk::free_bytes(&site.config),
                disk_free_bytes_min = disk::free_bytes_min(&site.config),
                "the disk is full, or nearly: senders are refused, receiving and settling go on; \
                 free space"
            );
        } else if was_short && !is_short {
            tracing::info!("there is space again; sending goes on");
        }
        was_short = is_short;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retries(seen: Result<Health, String>) -> bool {
        let problem = check_health(seen).unwrap_err();
        let told: serde_json::Value = serde_json::from_slice(&problem.json()).unwrap();
        let retry = told["retry"].as_bool().unwrap();
        assert_eq!(told["retry_after_ms"].is_number(), retry, "{told}");
        retry
    }

    #[test]
    fn only_what_waiting_does_not_mend_is_not_to_be_asked_again() {
        assert!(check_health(Ok(Health::Sound)).is_ok());
        assert!(retries(Ok(Health::ShortOfSpace)));
        assert!(retries(Err("the store has not answered for 1 s; look at its disk".into())));
        let broken = JournalFault::Broken { what: "flush".into(), cause: "I/O error".into() };
        assert!(!retries(Ok(Health::Broken(broken))));
    }
}
