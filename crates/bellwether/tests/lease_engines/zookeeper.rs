//! ZooKeeper.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bellwether::conformance::Running;
use bellwether::conformance::election::{Hall, Place};
use bellwether::{Elections, Error, Refusal};
use tokio::sync::Mutex;

use crate::direct::ZooKeeper;

#[derive(Debug)]
struct Ensemble {
    zookeeper: Mutex<ZooKeeper>,
    at: SocketAddr,
}

impl Ensemble {
    async fn start() -> Self {
        let zookeeper = ZooKeeper::start().await;
        let at = (Ipv4Addr::LOCALHOST, zookeeper.port()).into();
        Self { zookeeper: Mutex::new(zookeeper), at }
    }
}

impl Place for Ensemble {
    fn join(&self, by: Option<SocketAddr>) -> Running<'_, Result<Elections, Error>> {
        let at = by.unwrap_or(self.at);
        Box::pin(Elections::open(format!("zk://{at}/shop/elections?session_ms=5000")))
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(self.at)
    }

    fn restart(&self) -> Running<'_, ()> {
        Box::pin(async { self.zookeeper.lock().await.restart().await })
    }
}

async fn hall() -> Hall {
    Hall::open(Ensemble::start().await).await
}

bellwether::election_tests! { hall: hall, network: yes, restart: yes }

#[tokio::test]
async fn what_zookeeper_cannot_do_is_refused_in_words() {
    let place = Ensemble::start().await;
    let elections = place.join(None).await.unwrap();
    let election = elections.election("reports").unwrap();
    let long = election.clone().ttl(Duration::from_secs(5)).contend().await.unwrap_err();
    assert!(long.to_string().contains("needs a session of 6.25s"), "{long}");
    let refused = election.history().await.unwrap_err();
    assert!(matches!(refused.refusal(), Some(Refusal::InvalidValue { what: "history", .. })));
}

/// Whoever stands in line is served in turn, and each is woken by the one before it.
#[tokio::test]
async fn the_line_is_served_in_order() {
    let place = Ensemble::start().await;
    let mut line = Vec::new();
    for _ in 0..4 {
        let elections = place.join(None).await.unwrap();
        let election = elections.election("reports").unwrap().ttl(elections.facts().ttl_min);
        let waiting = election.clone();
        let task = tokio::spawn(async move { waiting.contend().await.unwrap() });
        let stands = async {
            loop {
                let info = election.info().await.unwrap();
                let stand = |info: &bellwether::core::outcome::LeaseInfo| {
                    info.holder == Some(elections.member())
                        || info.waiting.contains(&elections.member())
                };
                if info.as_ref().is_some_and(stand) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), stands).await.expect("a place in line");
        line.push(task);
    }
    let mut last = None;
    for task in line {
        let guard = task.await.unwrap();
        assert!(last < Some(guard.term()), "{last:?} before {}", guard.term());
        last = Some(guard.term());
        guard.release().await.unwrap();
    }
}
