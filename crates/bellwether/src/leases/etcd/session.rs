//! One etcd lease for all elections of this process that have the same ttl.

use std::time::Duration;

use bellwether_core::time::BootTime;
use serde_json::json;
use tokio::sync::Mutex;

use super::Cluster;
use super::keys::number;
use crate::clock::Clock;
use crate::error::Error;

/// See the module. It is kept alive by whoever waits or leads, and by nobody else.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) ttl: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    id: Option<i64>,
    /// When the newest keepalive that was answered had been sent.
    alive_since: BootTime,
}

impl Session {
    pub(super) fn new(ttl: Duration) -> Self {
        Self { ttl, state: Mutex::default() }
    }

    /// The etcd lease, after a sign of life that was sent at `from` or later; a new one if the old
    /// one is over, and with it everything that lived as long.
    pub(super) async fn open(
        &self,
        cluster: &Cluster,
        clock: &Clock,
        from: BootTime,
    ) -> Result<i64, Error> {
        if let Some(id) = self.keep_alive(cluster, clock, from).await? {
            return Ok(id);
        }
        let mut state = self.state.lock().await;
        if let Some(id) = state.id {
            return Ok(id);
        }
        let sent_at = clock.boot();
        let id = grant(cluster, self.ttl).await?;
        *state = State { id: Some(id), alive_since: sent_at };
        Ok(id)
    }

    /// The etcd lease if it lives, after a sign of life that was sent at `from` or later. `None` is
    /// etcd's own word that it is over, or that there never was one.
    pub(super) async fn keep_alive(
        &self,
        cluster: &Cluster,
        clock: &Clock,
        from: BootTime,
    ) -> Result<Option<i64>, Error> {
        let mut state = self.state.lock().await;
        let Some(id) = state.id else { return Ok(None) };
        if state.alive_since >= from {
            return Ok(Some(id));
        }
        let sent_at = clock.boot();
        let ask = json!({ "ID": id.to_string() });
        let answer = cluster.call("lease/keepalive", &ask, self.ttl / 2).await?;
        // No ttl is a ttl of zero: etcd does not know that lease.
        let is_alive = number(&answer["result"]["TTL"]) > 0;
        if is_alive {
            state.alive_since = sent_at;
        } else {
            state.id = None;
        }
        Ok(state.id)
    }

    /// etcd refused to attach something to it: it is over.
    pub(super) async fn is_over(&self, id: i64) {
        let mut state = self.state.lock().await;
        if state.id == Some(id) {
            state.id = None;
        }
    }

    pub(super) async fn id(&self) -> Option<i64> {
        self.state.lock().await.id
    }
}

/// Whole seconds; etcd rounds up what is too short for it.
pub(super) async fn grant(cluster: &Cluster, ttl: Duration) -> Result<i64, Error> {
    let seconds = ttl.as_millis().div_ceil(1000);
    let answer =
        cluster.call("lease/grant", &json!({ "TTL": seconds.to_string() }), ttl / 2).await?;
    match number(&answer["ID"]) {
        0 => Err(Error::Failed("etcd granted a lease without an id".into())),
        id => Ok(id.cast_signed()),
    }
}
