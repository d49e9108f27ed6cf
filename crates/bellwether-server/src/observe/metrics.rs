//! `/metrics`: read off the ledger when somebody asks, so counting costs nothing in between.
//!
//! The number of labels has a limit: so many queues and so many elections have one of their own
//! (`metrics_names_max`), the rest share `_other`. Which ones depends only on the queues' age and
//! the elections' names, so that a line does not come and go while both stay.

mod drain;
mod rows;
mod text;

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bellwether::{Bellwether, Error, Stats};
use bellwether_core::name::QueueId;
use bellwether_core::time::Now;

pub(crate) use drain::Drain;
use rows::{ElectionRow, Labelled, LeaseCounts, QueueRow};

use super::health::{OPENING, not_yet};
use crate::serve::{Site, disk};

/// What the text says it is.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Queues or leases looked at in one go.
const SLICE: usize = 1000;

/// Everything there is to tell, at one moment.
#[derive(Debug)]
struct Snapshot {
    now: Now,
    stats: Stats,
    /// `None` for a store in memory, or a disk that does not say.
    disk_free_bytes: Option<u64>,
    queue_count: u64,
    queues: Labelled<QueueRow>,
    leases: LeaseCounts,
    elections: Labelled<ElectionRow>,
    site: Arc<Site>,
}

pub(super) async fn show(State(site): State<Arc<Site>>) -> Response {
    let Some(store) = site.store() else { return not_yet(OPENING).into_response() };
    let seen_by = Arc::clone(&site);
    match site.metrics.at(move || Snapshot::take(seen_by, &store)).await {
        Ok(snapshot) => {
            ([(header::CONTENT_TYPE, OPEN_METRICS)], text::of(snapshot)).into_response()
        }
        Err(why) => not_yet(why).into_response(),
    }
}

impl Snapshot {
    fn take(site: Arc<Site>, store: &Bellwether) -> Result<Self, Error> {
        let names_max = site.config.metrics_names_max.size();
        let now = site.clock.now();
        let stats = store.stats()?;
        let mut queue_count = 0;
        let mut queues = Labelled::new(names_max);
        let mut after = QueueId(0);
        loop {
            let slice = store.queue_stats(after, SLICE)?;
            let Some(last) = slice.last() else { break };
            after = last.id;
            queue_count += slice.len() as u64;
            for queue in slice {
                queues.add(queue.name.as_str(), &QueueRow::from(&queue));
            }
        }
        site.drain.fill_in(now.boot, &mut queues);
        let (mut leases, mut elections) = (LeaseCounts::default(), Labelled::new(names_max));
        let mut after = None;
        loop {
            let slice = store.lease_stats(after.as_ref(), SLICE)?;
            let Some(last) = slice.last() else { break };
            after = Some(last.name.clone());
            for lease in slice {
                leases.add(lease.state);
                elections.add(lease.name.as_str(), &ElectionRow::from(&lease));
            }
        }
        let disk_free_bytes = disk::free_bytes(&site.config);
        Ok(Self { now, stats, disk_free_bytes, queue_count, queues, leases, elections, site })
    }
}
