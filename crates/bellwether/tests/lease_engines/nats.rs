//! A key-value bucket of NATS.

use std::net::{Ipv4Addr, SocketAddr};

use bellwether::conformance::Running;
use bellwether::conformance::election::{Hall, Place};
use bellwether::{Elections, Error, Refusal};
use tokio::sync::Mutex;

use crate::direct::Nats;

#[derive(Debug)]
struct Bucket {
    nats: Mutex<Nats>,
    at: SocketAddr,
}

impl Bucket {
    async fn start() -> Self {
        let nats = Nats::start().await;
        let at = (Ipv4Addr::LOCALHOST, nats.port()).into();
        Self { nats: Mutex::new(nats), at }
    }
}

impl Place for Bucket {
    fn join(&self, by: Option<SocketAddr>) -> Running<'_, Result<Elections, Error>> {
        Box::pin(Elections::open(format!("nats://{}", by.unwrap_or(self.at))))
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(self.at)
    }

    fn restart(&self) -> Running<'_, ()> {
        Box::pin(async { self.nats.lock().await.restart().await })
    }
}

async fn hall() -> Hall {
    Hall::open(Bucket::start().await).await
}

bellwether::election_tests! { hall: hall, network: yes, restart: yes }

/// Whoever deletes the bucket deletes every lease, and not the order of terms.
#[tokio::test]
async fn terms_grow_in_a_bucket_that_was_made_again() {
    let place = Bucket::start().await;
    let elections = place.join(None).await.unwrap();
    let election = elections.election("reports").unwrap();
    let before = election.contend().await.unwrap();
    let stream = "KV_bellwether-elections";
    let client = async_nats::connect(place.at.to_string()).await.unwrap();
    let deleted = client.request(format!("$JS.API.STREAM.DELETE.{stream}"), "".into()).await;
    assert!(String::from_utf8_lossy(&deleted.unwrap().payload).contains("\"success\":true"));
    let again = place.join(None).await.unwrap();
    let after = again.election("reports").unwrap().contend().await.unwrap();
    assert!(after.term() > before.term());
}

#[tokio::test]
async fn what_nats_cannot_do_is_refused_in_words() {
    let place = Bucket::start().await;
    let elections = place.join(None).await.unwrap();
    let refused = elections.election("reports").unwrap().history().await.unwrap_err();
    assert!(matches!(refused.refusal(), Some(Refusal::InvalidValue { what: "history", .. })));
    let nobody = Elections::open("nats://127.0.0.1:1").await.unwrap_err();
    assert!(matches!(nobody, Error::Handshake { .. }), "{nobody}");
}
