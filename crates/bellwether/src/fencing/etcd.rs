//! Keys of etcd that only the latest term may write. With the feature `fencing-etcd`.
//!
//! The term is a key of its own, `bellwether/fences/ELECTION`, compared and raised in the
//! transaction of the write. It is kept as 20 digits, because etcd compares bytes.
//!
//! ```text
//! if   create_revision(K) == 0                    nobody was here yet
//! then put K = TERM; the write
//! else if   value(K) < TERM and one byte more     TERM itself, or an earlier one
//!      then put K = TERM; the write
//!      else get K                                 refused: this is the newest
//! ```
//!
//! [`fenced_txn`] makes that of any transaction, in the JSON of etcd's gateway, for those who send
//! it themselves; [`FencedEtcd`] sends it.

use serde_json::{Value, json};

use bellwether_core::name::Term;

use super::{FenceError, Fenced};
use crate::elector::Fence;
use crate::etcd::{Gateway, base64, bytes};

pub use crate::etcd::EtcdFault;

/// Why a write was not done.
pub type Error = FenceError<EtcdFault>;

/// etcd, written under a fence.
///
/// ```no_run
/// # async fn write(leadership: &bellwether::Leadership) -> Result<(), Box<dyn std::error::Error>> {
/// use bellwether::fencing::etcd::FencedEtcd;
///
/// let etcd = FencedEtcd::new("http://127.0.0.1:2379")?;
/// etcd.put(&leadership.ensure()?, "prices/tea", "250").await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FencedEtcd {
    gateway: Gateway,
}

impl FencedEtcd {
    /// The cluster at `http://HOST:PORT`, or at several with commas between them. It must be etcd
    /// 3.4 or later; TLS is not there yet.
    pub fn new(addresses: &str) -> Result<Self, EtcdFault> {
        Gateway::new(addresses).map(|gateway| Self { gateway })
    }

    /// Sets a key.
    pub async fn put(
        &self,
        fence: &Fence,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let put = json!({ "request_put": { "key": base64(key), "value": base64(value) } });
        self.txn(fence, &json!({ "success": [put] })).await.map(drop)
    }

    /// Removes a key.
    pub async fn delete(&self, fence: &Fence, key: impl AsRef<[u8]>) -> Result<(), Error> {
        let delete = json!({ "request_delete_range": { "key": base64(key) } });
        self.txn(fence, &json!({ "success": [delete] })).await.map(drop)
    }

    /// Any transaction, as etcd's gateway takes it at `/v3/kv/txn`; gives its answer.
    pub async fn txn(&self, fence: &Fence, txn: &Value) -> Result<Value, Error> {
        let asked = self.gateway.call("kv/txn", &fenced_txn(fence, txn)).await;
        let answer = asked.map_err(FenceError::Fault)?;
        read(fence, &answer).unwrap_or_else(|| {
            let message = format!("an answer that is none to a fenced transaction: {answer}");
            Err(FenceError::Fault(EtcdFault::Refused { code: 0, message }))
        })
    }
}

/// The transaction that does this one if no later term was here, and otherwise only reads.
pub fn fenced_txn(fence: &Fence, txn: &Value) -> Value {
    let key = base64(format!("bellwether/fences/{}", fence.election));
    let term = format!("{:020}", fence.term.0);
    let write = json!([
        { "request_put": { "key": key, "value": base64(&term) } },
        { "request_txn": txn },
    ]);
    let not_later = json!({
        "target": "VALUE", "result": "LESS", "key": key, "value": base64(term + "\0"),
    });
    let seen = json!({
        "compare": [not_later],
        "success": write,
        "failure": [{ "request_range": { "key": key } }],
    });
    json!({
        "compare": [{ "target": "CREATE", "result": "EQUAL", "key": key, "create_revision": "0" }],
        "success": write,
        "failure": [{ "request_txn": seen }],
    })
}

/// What the transaction inside answered, or the refusal; `None` if it is no such answer.
fn read(fence: &Fence, answer: &Value) -> Option<Result<Value, Error>> {
    let done = |answer: &Value| Some(answer["responses"][1].get("response_txn")?.clone());
    let succeeded = |answer: &Value| answer["succeeded"].as_bool().unwrap_or(false);
    if succeeded(answer) {
        return done(answer).map(Ok);
    }
    let seen = answer["responses"][0].get("response_txn")?;
    if succeeded(seen) {
        return done(seen).map(Ok);
    }
    let kept = bytes(&seen["responses"][0]["response_range"]["kvs"][0]["value"])?;
    let newest = Term(String::from_utf8(kept).ok()?.parse().ok()?);
    Some(Err(Fenced::new(fence, newest).into()))
}
