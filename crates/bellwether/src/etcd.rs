//! How etcd is reached: its JSON gateway, which every etcd since 3.4 has at its client port.
//!
//! The gRPC clients need a compiler of protocol files on every machine that builds this crate; for
//! a few small requests JSON costs microseconds beside the flush that etcd does for each.
//!
//! In that JSON, keys and values are base64, 64-bit numbers are text, and what is zero or empty is
//! left out. `base64` and `bytes` are for that.

#[cfg(feature = "etcd")]
mod stream;

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;

/// etcd takes requests up to 1.5 MiB; answers to transactions that read may be larger.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// etcd itself gives up a request after 5 seconds and two of its election timeouts.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// Why etcd did not do what was asked, other than by saying no to a term.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    not(feature = "fencing-etcd"),
    expect(unreachable_pub, reason = "only the fencing kit shows it to others")
)]
pub enum EtcdFault {
    /// The address is none.
    #[error(
        "{address:?} is no address of etcd: {why}; it looks like http://127.0.0.1:2379, several of one cluster with commas between them"
    )]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No member of the cluster can be reached; nothing was asked.
    #[error("cannot reach etcd at {address}: {why}; nothing was changed")]
    Unreachable {
        /// The last one that was tried.
        address: String,
        /// What happened.
        why: String,
    },
    /// The request was sent and no answer came: it may have taken effect, or still take it.
    #[error("etcd at {address} did not answer: {why}; the outcome is unknown")]
    Unknown {
        /// Which one was asked.
        address: String,
        /// What happened.
        why: String,
    },
    /// etcd answered that it cannot or will not.
    #[error("etcd refused: {message} (gRPC code {code})")]
    Refused {
        /// gRPC's number for it.
        code: u64,
        /// Its words.
        message: String,
    },
}

/// A cluster of etcd. Connections are kept and shared by all clones.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    members: Vec<String>,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Gateway {
    /// Takes `http://HOST:PORT`, or several with commas between them. Connects to nothing yet.
    pub(crate) fn new(addresses: &str) -> Result<Self, EtcdFault> {
        let members = addresses.split(',').map(member).collect::<Result<Vec<_>, _>>()?;
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIME_MAX));
        connector.set_nodelay(true);
        let client =
            Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Ok(Self { members, client })
    }

    /// Asks for `kv/txn`, `lease/grant` and the like. A member that cannot be reached is passed
    /// over; one that was asked and fell silent is not, because that outcome is unknown.
    pub(crate) async fn call(&self, what: &str, body: &Value) -> Result<Value, EtcdFault> {
        let body = Bytes::from(body.to_string());
        let mut last = None;
        for member in &self.members {
            match self.ask(member, what, body.clone()).await {
                Err(fault @ EtcdFault::Unreachable { .. }) => last = Some(fault),
                answer => return answer,
            }
        }
        Err(last.expect("`split` yields at least one member"))
    }

    async fn ask(&self, member: &str, what: &str, body: Bytes) -> Result<Value, EtcdFault> {
        let unknown = |why: String| EtcdFault::Unknown { address: member.to_owned(), why };
        let request = Request::post(format!("{member}/v3/{what}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .expect("the address was parsed before");
        let answer = async {
            let answer = self.client.request(request).await.map_err(|e| {
                let why = innermost(&e);
                if e.is_connect() {
                    return EtcdFault::Unreachable { address: member.to_owned(), why };
                }
                unknown(why)
            })?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|e| unknown(innermost(e.as_ref())))?.to_bytes();
            Ok((status, body))
        };
        let answer = tokio::time::timeout(ANSWER_TIME_MAX, answer).await;
        let (status, body) =
            answer.map_err(|_| unknown(format!("{ANSWER_TIME_MAX:?} passed")))??;
        let parsed = serde_json::from_slice(&body);
        let Ok(answer) = parsed else {
            // A proxy's page, or another program behind that port.
            return Err(unknown(format!("HTTP status {status}, and no JSON")));
        };
        if status.is_success() { Ok(answer) } else { Err(refused(member, &answer)) }
    }
}

fn member(address: &str) -> Result<String, EtcdFault> {
    let wrong = |why| EtcdFault::Address { address: address.to_owned(), why };
    let address = address.trim().trim_end_matches('/');
    let uri: Uri = address.parse().map_err(|_| wrong("it is no URL"))?;
    if uri.scheme_str() == Some("https") {
        return Err(wrong("TLS to etcd is not there yet"));
    }
    if uri.scheme_str() != Some("http") || uri.host().is_none() {
        return Err(wrong("it does not begin with http:// and a host"));
    }
    if uri.path().len() > 1 || uri.query().is_some() {
        return Err(wrong("something follows the port"));
    }
    Ok(address.to_owned())
}

/// gRPC's codes that mean: it may have happened (unknown, deadline exceeded, internal,
/// unavailable). etcd gives them when its quorum fell silent in the middle.
fn refused(member: &str, answer: &Value) -> EtcdFault {
    let code = answer["code"].as_u64().unwrap_or_default();
    let message = answer["message"].as_str().or(answer["error"].as_str()).unwrap_or("no reason");
    match code {
        2 | 4 | 13 | 14 => {
            EtcdFault::Unknown { address: member.to_owned(), why: message.to_owned() }
        }
        _ => EtcdFault::Refused { code, message: message.to_owned() },
    }
}

fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Bytes as the gateway takes them.
pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// Bytes as the gateway gives them; what is empty it leaves out.
pub(crate) fn bytes(value: &Value) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(value.as_str().unwrap_or_default()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_before_anything_is_asked() {
        assert_eq!(
            Gateway::new("http://a:1/, http://[::1]:2").unwrap().members,
            ["http://a:1", "http://[::1]:2"]
        );
        for wrong in ["", "a:1", "ftp://a", "http://", "https://a:1", "http://a:1/x", "http://a:1,"]
        {
            let fault = Gateway::new(wrong).unwrap_err();
            assert!(matches!(fault, EtcdFault::Address { .. }), "{wrong}: {fault}");
        }
    }

    #[test]
    fn what_may_have_happened_is_not_called_refused() {
        let timed_out =
            serde_json::json!({ "code": 14, "message": "etcdserver: request timed out" });
        assert!(matches!(refused("http://a", &timed_out), EtcdFault::Unknown { .. }));
        let wrong = serde_json::json!({ "code": 3, "message": "etcdserver: key is not provided" });
        assert!(matches!(refused("http://a", &wrong), EtcdFault::Refused { code: 3, .. }));
    }
}
