//! The members of the cluster, and which of them is asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::Error;
use crate::etcd::{EtcdFault, Gateway};

/// See the module.
#[derive(Debug)]
pub(super) struct Cluster {
    members: Vec<Gateway>,
    /// Whom to ask: the one that answered last.
    current: AtomicUsize,
}

impl Cluster {
    /// Reads `etcd://HOST:PORT[,HOST:PORT]`.
    pub(super) fn read(address: &str) -> Result<Self, Error> {
        let hosts = address.strip_prefix("etcd://").unwrap_or(address);
        if hosts.contains('@') {
            let why = "users and passwords of etcd are not supported; name only hosts and ports";
            return Err(Error::Address { address: "etcd://…".into(), why: why.into() });
        }
        let member = |host: &str| {
            Gateway::new(&format!("http://{}", host.trim())).map_err(|fault| Error::Address {
                address: address.to_owned(),
                why: format!("{fault}; the address looks like etcd://HOST:PORT[,HOST:PORT]"),
            })
        };
        let members = hosts.split(',').map(member).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { members, current: AtomicUsize::new(0) })
    }

    /// The member to ask.
    pub(super) fn gateway(&self) -> (usize, &Gateway) {
        let current = self.current.load(Ordering::Relaxed) % self.members.len();
        (current, &self.members[current])
    }

    /// That one does not answer: the next one is asked from here on.
    pub(super) fn pass_over(&self, failed: usize) {
        let next = (failed + 1) % self.members.len();
        let _ = self.current.compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// One ask to one member, within so much time. Whoever may have been asked without an answer
    /// is not asked again behind the caller's back.
    pub(super) async fn call(
        &self,
        what: &str,
        body: &Value,
        patience: Duration,
    ) -> Result<Value, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (current, gateway) = self.gateway();
            let fault = match tokio::time::timeout(patience, gateway.call(what, body)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(fault @ EtcdFault::Refused { .. })) => {
                    return Err(Error::Failed(fault.to_string()));
                }
                Ok(Err(fault)) => fault,
                Err(_) => {
                    let why = format!("{patience:?} passed");
                    EtcdFault::Unknown { address: "the cluster".into(), why }
                }
            };
            self.pass_over(current);
            match fault {
                EtcdFault::Unreachable { .. } if tries < self.members.len() => {}
                EtcdFault::Unknown { .. } => return Err(Error::Unknown(fault.to_string())),
                _ => return Err(Error::Failed(fault.to_string())),
            }
        }
    }

    /// All or nothing: `then` if every compare holds. Whether they did, and the answer.
    pub(super) async fn transaction(
        &self,
        compare: Vec<Value>,
        then: Vec<Value>,
        patience: Duration,
    ) -> Result<(bool, Value), Error> {
        let body = json!({ "compare": compare, "success": then });
        let answer = self.call("kv/txn", &body, patience).await?;
        Ok((answer["succeeded"].as_bool().unwrap_or_default(), answer))
    }
}
