//! Azure Blob leases, on Azurite.

use std::net::{Ipv4Addr, SocketAddr};

use bellwether::conformance::Running;
use bellwether::conformance::election::{Hall, Place};
use bellwether::{Elections, Error, Refusal};
use tokio::sync::Mutex;

use crate::direct::Azurite;

#[derive(Debug)]
struct Container {
    azurite: Mutex<Azurite>,
    at: SocketAddr,
}

impl Container {
    async fn start() -> Self {
        let azurite = Azurite::start().await;
        let at = (Ipv4Addr::LOCALHOST, azurite.port()).into();
        Self { azurite: Mutex::new(azurite), at }
    }
}

fn address(at: SocketAddr) -> String {
    format!("azblob://devstoreaccount1/elections?endpoint=http://{at}/devstoreaccount1")
}

impl Place for Container {
    fn join(&self, by: Option<SocketAddr>) -> Running<'_, Result<Elections, Error>> {
        Box::pin(Elections::open(address(by.unwrap_or(self.at))))
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(self.at)
    }

    fn restart(&self) -> Running<'_, ()> {
        Box::pin(async { self.azurite.lock().await.restart().await })
    }
}

async fn hall() -> Hall {
    Hall::open(Container::start().await).await
}

// The emulator reads the times of its leases back as text and takes every lease for expired after a
// restart; the service it stands for keeps them. What it does keep, the term, has a test below.
bellwether::election_tests! { hall: hall, network: yes, restart: no }

#[tokio::test]
async fn terms_grow_over_a_restart() {
    let place = Container::start().await;
    let mut last = None;
    for _ in 0..3 {
        let elections = place.join(None).await.unwrap();
        let election = elections.election("reports").unwrap().ttl(elections.facts().ttl_min);
        let guard = election.contend().await.unwrap();
        assert!(last < Some(guard.term()), "{last:?} before {}", guard.term());
        last = Some(guard.term());
        guard.release().await.unwrap();
        place.restart().await;
    }
}

/// LE-12: container and blob are missing, and everybody finds that out at once.
#[tokio::test]
async fn ten_on_an_empty_account_make_one_leader() {
    let place = Container::start().await;
    let mut contending = Vec::new();
    for _ in 0..10 {
        let elections = place.join(None).await.unwrap();
        let election = elections.election("first/of.all").unwrap();
        let election = election.ttl(elections.facts().ttl_min);
        contending.push(tokio::spawn(async move {
            let guard = election.contend().await.unwrap();
            let term = guard.term();
            guard.release().await.unwrap();
            term
        }));
    }
    let mut terms = Vec::new();
    for one in contending {
        terms.push(one.await.unwrap());
    }
    terms.sort_unstable();
    terms.dedup();
    assert_eq!(terms.len(), 10, "each has led, under a term of its own: {terms:?}");
}

/// Whoever waits looks once an hour here: it leads because it was told to look.
#[tokio::test]
async fn a_release_is_heard_of_by_whoever_waits() {
    let place = Container::start().await;
    let rarely = format!("{}&poll_ms=3600000", address(place.at));
    let (one, two) =
        (Elections::open(&rarely).await.unwrap(), Elections::open(&rarely).await.unwrap());
    let ttl = one.facts().ttl_min;
    let mut guard = one.election("reports").unwrap().ttl(ttl).contend().await.unwrap();
    for elections in [&two, &one, &two] {
        let wait = std::time::Duration::from_secs(600);
        let election = elections.election("reports").unwrap().ttl(ttl).wait(wait);
        let waiting = tokio::spawn(async move { election.contend().await.unwrap() });
        // Before or after it listens: it must not matter.
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        guard.release().await.unwrap();
        let told = tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await;
        guard = told.expect("an hour is long").unwrap();
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn what_the_service_cannot_do_is_refused_in_words() {
    let place = Container::start().await;
    let elections = place.join(None).await.unwrap();
    let election = elections.election("reports").unwrap();
    let long = election.clone().ttl(std::time::Duration::from_secs(61)).contend().await;
    let why = long.unwrap_err().to_string();
    assert!(why.contains("longer than 60s"), "{why}");
    let refused = election.history().await.unwrap_err();
    assert!(matches!(refused.refusal(), Some(Refusal::InvalidValue { what: "history", .. })));
}

#[tokio::test]
async fn what_lets_nobody_in_is_said_when_it_is_opened() {
    let place = Container::start().await;
    let port = place.at.port();
    let sas = format!("http://127.0.0.1:{port}/devstoreaccount1/elections?sv=2021-12-02&sig=wrong");
    let refused = Elections::open(sas.replace("http://", "https://")).await.unwrap_err();
    assert!(matches!(refused, Error::Handshake { .. }), "it speaks no TLS: {refused}");
    let gone = address((Ipv4Addr::LOCALHOST, 1).into());
    let refused = Elections::open(gone).await.unwrap_err();
    assert!(matches!(refused, Error::Handshake { .. }), "{refused}");
}
