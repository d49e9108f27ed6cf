//! Certificates come to their end while the server runs.

use std::time::Duration;

use bellwether::{Error, Open};

use crate::server::{assert_says, bellwether, said, status};
use crate::world::{World, wire};

const SOON: Duration = Duration::from_secs(4);
const THREE_DAYS: Duration = Duration::from_secs(84 * 3600);

#[tokio::test]
async fn a_connection_does_not_outlive_the_certificate_that_opened_it() {
    let world = World::new();
    world.put_identity("worker-", &world.authority.issue_for(SOON, &["worker.example.org"]));
    let mut create = bellwether();
    create.args(["key", "create", "worker", "--queues", "manage=*"]);
    create.args(["--certificate", "worker.example.org", "--keys", &world.text("keys.json")]);
    let made = create.output().unwrap();
    assert!(made.status.success(), "{}", said(&made.stderr));
    let server = world.serve_the_known();
    let store = Open::new(wire(&server))
        .trust(&*world.path("ca.pem"))
        .identity(&*world.path("worker-cert.pem"), &*world.path("worker-key.pem"))
        .patience(Duration::from_secs(1))
        .open()
        .await
        .unwrap();
    let queue = store.create_queue("orders", <_>::default()).await.unwrap();
    // It waits when the end comes, and not for ever if it does not come.
    let ended = queue.receive().wait(10 * SOON).one().await;
    let why = ended.unwrap_err();
    assert!(why.to_string().contains("expired"), "{why}");
    let why = queue.send("too late").await.unwrap_err();
    assert!(!matches!(why, Error::Refused(_)), "{why}");
    server.stop();
}

#[test]
fn the_servers_own_certificate_is_warned_of_before_it_ends_and_after() {
    let world = World::new();
    world.put_identity("", &world.authority.issue_for(THREE_DAYS, &["localhost"]));
    let mut server = world.serve(&[]);
    let line = server.wait_for_log("WARN");
    assert_says(&line, &["expires in 3 days", &world.text("cert.pem")]);
    let metrics = said(&metrics(&world, &server));
    assert_says(&metrics, &["bellwether_tls_certificate_expiry_seconds "]);
    world.put_identity("", &world.authority.issue_expired(&["localhost"]));
    let line = server.wait_for_log("WARN");
    assert_says(&line, &["has expired", "put a new one in its place"]);
    server.stop();
}

#[test]
fn handshakes_that_fail_are_counted_by_why() {
    let world = World::new();
    let server = world.serve(&["--tls-handshake-ms-max", "300"]);
    assert_eq!(status(&server.get("/livez", "host: localhost\r\n")), 400, "plain");
    // Late: it says nothing.
    crate::server::rest(&mut server.connect());
    // One who does not trust us.
    let stranger = bellwether()
        .args(["queue", "list", "--server", &wire(&server)])
        .env("SSL_CERT_FILE", world.path("cert.pem"))
        .output()
        .unwrap();
    assert!(!stranger.status.success());
    let metrics = said(&metrics(&world, &server));
    for reason in ["plain", "late", "certificate"] {
        let line = format!("bellwether_tls_handshakes_failed_total{{reason=\"{reason}\"}} 1");
        assert_says(&metrics, &[&line]);
    }
    server.stop();
}

/// What `/metrics` says, by another program's TLS.
fn metrics(world: &World, server: &crate::server::Server) -> Vec<u8> {
    const ASK: &str = "\
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile=sys.argv[2])
print(urllib.request.urlopen(sys.argv[1], context=context).read().decode())";
    let url = format!("https://localhost:{}/metrics", server.address.port());
    let asked = std::process::Command::new("python3")
        .args(["-c", ASK, &url, &world.text("ca.pem")])
        .output()
        .expect("python3 asks over TLS; install Python 3.11 or later");
    assert!(asked.status.success(), "{}", said(&asked.stderr));
    asked.stdout
}
