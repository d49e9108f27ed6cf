//! Azure Blob leases, on Azurite.

mod emulator;

use std::net::{Ipv4Addr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bellwether::conformance::Running;
use bellwether::conformance::election::{Hall, Place};
use bellwether::{Elections, Error, LossReason, Refusal};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
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

/// What everybody knows of the emulator's account.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// What the service says to a request.
#[derive(Debug)]
struct Answer {
    status: u16,
    text: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<String> {
        let lines = self.text.lines().skip(1).take_while(|line| !line.is_empty());
        let mut found = lines.filter_map(|line| line.split_once(": "));
        found.find(|(is, _)| is.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }
}

impl Container {
    /// Asks the service for something, as anybody may who has the key; it must be done.
    async fn ask(&self, method: &str, path: &str, query: &str, headers: &[(&str, &str)]) {
        let Answer { status, text } = self.asked(method, path, query, headers).await;
        assert!((200..300).contains(&status), "{method} {path} {query}: {text}");
    }

    /// The same, whatever the answer is.
    async fn asked(
        &self,
        method: &str,
        path: &str,
        query: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let wall = std::time::Duration::from_millis(bellwether::Clock::System.now().wall.0);
        let date = httpdate::fmt_http_date(std::time::SystemTime::UNIX_EPOCH + wall);
        let mut all = vec![("x-ms-date", &*date), ("x-ms-version", "2021-12-02")];
        all.extend(headers);
        all.sort_unstable();
        let lines = |between: &str, end: &str| -> String {
            all.iter().flat_map(|(name, value)| [*name, between, value, end]).collect()
        };
        let said = lines(":", "\n");
        let asked = query.replace('=', ":");
        let line = if asked.is_empty() { String::new() } else { format!("\n{asked}") };
        let text = format!("{method}\n\n\n\n\n\n\n\n\n\n\n\n{said}/devstoreaccount1{path}{line}");
        let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(KEY).unwrap()).unwrap();
        mac.update(text.as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        let mark = if query.is_empty() { "" } else { "?" };
        let request = format!(
            "{method} {path}{mark}{query} HTTP/1.1\r\nhost: {}\r\n\
             authorization: SharedKey devstoreaccount1:{signature}\r\n{}\
             content-length: 0\r\nconnection: close\r\n\r\n",
            self.at,
            lines(": ", "\r\n")
        );
        let mut stream = TcpStream::connect(self.at).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        Answer { status: status.unwrap_or_else(|| panic!("{method} {path}: {text}")), text }
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

/// Somebody takes the lease away, then the blob, then all blobs, under a running leader: it hears of
/// each, and leads again under a higher term.
#[tokio::test]
async fn a_leader_survives_what_is_done_to_its_blob() {
    let place = Container::start().await;
    let elections = place.join(None).await.unwrap();
    let election = elections.election("reports").unwrap().ttl(elections.facts().ttl_min);
    let mut guard = election.contend().await.unwrap();
    let broken = [("x-ms-lease-action", "break"), ("x-ms-lease-break-period", "0")];
    let container = "/devstoreaccount1/elections";
    for (method, path, query, headers) in [
        ("PUT", "/reports", "comp=lease", &broken[..]),
        ("DELETE", "/reports", "", &[]),
        ("DELETE", "", "restype=container", &[]),
    ] {
        if path == "/reports" && method == "DELETE" {
            // A leased blob is not deleted before its lease is broken.
            place.ask("PUT", &format!("{container}{path}"), "comp=lease", &broken).await;
        }
        place.ask(method, &format!("{container}{path}"), query, headers).await;
        let lost =
            tokio::time::timeout(std::time::Duration::from_secs(60), guard.cancelled()).await;
        assert_eq!(lost, Ok(LossReason::Refused), "{method} {path}");
        let term = guard.term();
        drop(guard);
        guard = election.contend().await.unwrap();
        assert!(guard.term() > term, "{method} {path}: {} after {term}", guard.term());
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
