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

use crate::http::problem::{Kind, Problem};
use crate::serve::{Site, disk};

/// How often a store at work is looked at when nobody asks.
const WATCH_EVERY: Duration = Duration::from_secs(5);
/// How often one that nobody uses: only a writer that hangs is found by this.
const WATCH_IDLY_EVERY: Duration = Duration::from_secs(60);

pub(super) async fn live() -> &'static str {
    "alive\n"
}

pub(super) async fn ready(State(site): State<Arc<Site>>) -> Response {
    match why_not_ready(&site).await {
        None if site.config.is_insecure() => "ready\ninsecure_allow_remote\n".into_response(),
        None => "ready\n".into_response(),
        Some(why) => Problem::new(Kind::NotReady, why).into_response(),
    }
}

async fn why_not_ready(site: &Site) -> Option<String> {
    if site.stopping.is_cancelled() {
        return Some("the server is stopping".into());
    }
    let Some(store) = site.store() else { return Some("the store is being opened".into()) };
    match site.health.at(move || store.stats().map(|stats| stats.health)).await {
        Ok(Health::Sound) => None,
        Ok(Health::ShortOfSpace) => Some(
            "the disk is full, or has less free than disk_free_bytes_min; receiving and settling \
             go on; free space, sending resumes by itself"
                .into(),
        ),
        Ok(Health::Broken(fault)) => Some(fault.to_string()),
        Err(why) => Some(why),
    }
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
