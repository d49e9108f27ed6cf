//! etcd.

use std::sync::Arc;

use bellwether::conformance::fencing::{self, FencedResource};
use bellwether::fencing::FenceError;
use bellwether::fencing::etcd::{Error, EtcdFault, FencedEtcd, fenced_txn};
use bellwether::{Fence, Term};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::servers::Etcd;
use crate::{ELECTION, fence};

/// A key for each record, in the order of their revisions. What asks is made anew each time, as
/// by other processes.
struct History(Mutex<Etcd>);

impl History {
    async fn new() -> Self {
        Self(Mutex::new(Etcd::start().await))
    }

    async fn etcd(&self) -> FencedEtcd {
        FencedEtcd::new(&self.0.lock().await.url()).unwrap()
    }

    /// As anybody asks it who has no library of ours.
    async fn ask(&self, what: &str, body: Value) -> Value {
        let url = format!("{}/v3/{what}", self.0.lock().await.url());
        let ask = move || ureq::post(&url).send_json(body).unwrap().body_mut().read_json().unwrap();
        tokio::task::spawn_blocking(ask).await.unwrap()
    }

    /// The value of every key that begins so, in the order of the revisions that made them.
    async fn values(&self, prefix: &str) -> Vec<String> {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().unwrap() += 1;
        let range = json!({
            "key": base64(prefix), "range_end": base64(end),
            "sort_target": "CREATE", "sort_order": "ASCEND",
        });
        let found = self.ask("kv/range", range).await;
        let kvs = found["kvs"].as_array().cloned().unwrap_or_default();
        kvs.iter().map(|kv| text(&kv["value"])).collect()
    }
}

impl FencedResource for History {
    type Fault = EtcdFault;

    async fn append(&self, fence: &Fence, record: &str) -> Result<(), Error> {
        self.etcd().await.put(fence, format!("records/{record}"), record).await
    }

    async fn records(&self) -> Vec<String> {
        self.values("records/").await
    }
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(bytes)
}

fn text(value: &Value) -> String {
    use base64::Engine as _;
    let bytes = base64::prelude::BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_late_write_is_refused() {
    let history = History::new().await;
    let restart = async || history.0.lock().await.restart().await;
    fencing::a_late_write_is_refused(&history, ELECTION, restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_never_go_down() {
    fencing::terms_never_go_down(Arc::new(History::new().await), ELECTION).await;
}

/// A transaction of one's own keeps its own compares, branches and answers, and every number of
/// 64 bits is compared as one.
#[tokio::test]
async fn a_transaction_keeps_what_it_does() {
    let history = History::new().await;
    let etcd = history.etcd().await;
    let swap = |from: &str, to: &str| {
        json!({
            "compare": [{ "target": "VALUE", "result": "EQUAL", "key": base64("k"), "value": base64(from) }],
            "success": [{ "request_put": { "key": base64("k"), "value": base64(to) } }],
            "failure": [{ "request_range": { "key": base64("k") } }],
        })
    };
    etcd.put(&fence(9), "k", "a").await.unwrap();
    let swapped = etcd.txn(&fence(10), &swap("a", "b")).await.unwrap();
    assert_eq!(swapped["succeeded"], true);
    let not = etcd.txn(&fence(10), &swap("a", "c")).await.unwrap();
    assert_eq!(not.get("succeeded"), None);
    assert_eq!(text(&not["responses"][0]["response_range"]["kvs"][0]["value"]), "b");
    // Sent by somebody else, as a file of JSON.
    let late = history.ask("kv/txn", fenced_txn(&fence(9), &swap("b", "late"))).await;
    assert_eq!(late["responses"][0]["response_txn"].get("succeeded"), None);
    assert_eq!(history.values("k").await, ["b"]);

    etcd.put(&fence(u64::MAX), "k", "last").await.unwrap();
    etcd.put(&fence(u64::MAX), "k", "the very last").await.unwrap();
    let refused = etcd.delete(&fence(u64::MAX - 1), "k").await.unwrap_err();
    assert_eq!(refused.fenced().unwrap().newest, Term(u64::MAX));
    etcd.delete(&fence(u64::MAX), "k").await.unwrap();
    assert_eq!(history.values("k").await, [""; 0]);
}

#[tokio::test]
async fn faults_say_whether_anything_was_asked() {
    let mut server = Etcd::start().await;
    let gone = Etcd::start().await.url();
    // A member that is not there is passed over.
    let both = FencedEtcd::new(&format!("{gone},{}", server.url())).unwrap();
    both.put(&fence(7), "k", "v").await.unwrap();
    match both.put(&fence(7), "", "v").await.unwrap_err() {
        FenceError::Fault(EtcdFault::Refused { message, .. }) => {
            assert!(message.contains("key is not provided"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    server.process.kill();
    // One that went in the middle of a connection may leave it open whether it was asked.
    let nobody = FencedEtcd::new(&server.url()).unwrap().put(&fence(7), "k", "v").await;
    assert!(matches!(nobody, Err(FenceError::Fault(EtcdFault::Unreachable { .. }))), "{nobody:?}");
}
