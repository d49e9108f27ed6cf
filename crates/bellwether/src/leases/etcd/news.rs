//! One watch for the process: which of our keys changed, for whoever waits for one of them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::broadcast;

use super::Shared;
use super::keys;
use crate::etcd::{base64, bytes};

/// A watch that says nothing for so long may be dead: another one is begun.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

/// A hint. Whoever missed some looks for itself.
#[derive(Clone, Debug)]
pub(super) struct News {
    pub(super) key: String,
    pub(super) is_gone: bool,
}

/// Watches until closed.
pub(super) async fn watch(shared: Arc<Shared>, news: broadcast::Sender<News>) {
    loop {
        tokio::select! {
            () = shared.closed.cancelled() => return,
            () = read(&shared, &news) => {}
        }
        // Whatever happened in between is not told: everybody looks.
        let _ = news.send(News { key: String::new(), is_gone: true });
        tokio::time::sleep(PAUSE).await;
    }
}

async fn read(shared: &Shared, news: &broadcast::Sender<News>) {
    let create = json!({ "create_request": {
        "key": base64(keys::ALL), "range_end": keys::end(keys::ALL),
    } });
    let (current, gateway) = shared.cluster.gateway();
    let opened = tokio::time::timeout(SILENCE_MAX, gateway.stream("watch", &create)).await;
    let Ok(Ok(mut stream)) = opened else {
        shared.cluster.pass_over(current);
        return;
    };
    // Whoever looked before it began could miss what came between.
    let _ = news.send(News { key: String::new(), is_gone: true });
    while let Ok(Ok(part)) = tokio::time::timeout(SILENCE_MAX, stream.next()).await {
        if part["canceled"].as_bool() == Some(true) {
            return;
        }
        for event in part["events"].as_array().into_iter().flatten() {
            let key = bytes(&event["kv"]["key"]).and_then(|key| String::from_utf8(key).ok());
            if let Some(key) = key {
                let is_gone = event["type"] == "DELETE";
                shared.heard(&key, is_gone);
                // Nobody waits at the moment, if nobody takes it.
                let _ = news.send(News { key, is_gone });
            }
        }
    }
}
