//! How much one rule may have, and what is done when it cannot be recorded.

use std::time::Duration;

use bellwether::{Credential, Error, Open};
use serde_json::{Value, json};

use super::server::{Folder, Server};

fn metrics(server: &Server) -> String {
    server.ask(&server.root, "GET", "/metrics", &Value::Null).body
}

#[tokio::test]
async fn one_rule_does_not_take_all_places() {
    let folder = Folder::new();
    let server = Server::start_with(&folder, &["--connections-per-rule-max", "2"]);
    server.create("orders");
    let token = folder.make(&["create", "worker", "--queues", "listen,send=orders"]);
    let first = server.open(&token).await.unwrap();
    let _second = server.open(&token).await.unwrap();
    let impatient = Open::new(server.wire()).credential(Credential::new(token.as_str()));
    let Err(refused) = impatient.patience(Duration::from_millis(1)).open().await else {
        panic!("it has two")
    };
    assert!(refused.to_string().contains("connections_per_rule_max"), "{refused}");
    let answer = server.ask(&token, "GET", "/v1/queues/orders", &Value::Null);
    assert_eq!((answer.status, answer.kind().as_str()), (503, "too-many-connections"));
    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
    assert!(server.open(&server.root).await.is_ok(), "another rule has its own");
    let count = metrics(&server);
    let line = count.lines().find(|line| line.starts_with("bellwether_rule_connections_refused"));
    assert!(!line.unwrap().ends_with(" 0"), "{line:?}");
    assert!(!count.contains("bellwether_credentials_refused_total 1"), "nobody guesses");
    first.close().await;
    // As soon as the server has noticed.
    while server.ask(&token, "GET", "/v1/queues/orders", &Value::Null).status != 200 {}
    server.stop();
}

#[tokio::test]
async fn what_cannot_be_recorded_is_done_counted_and_logged() {
    let folder = Folder::new();
    let server = Server::start_with(&folder, &["--audit", "/dev/full"]);
    server.create("orders");
    server.ask(&server.root, "DELETE", "/v1/queues/orders", &Value::Null);
    let count = metrics(&server);
    assert!(count.contains("bellwether_audit_failures_total 2"), "{count}");
    server.stop();
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let lines = log.lines().filter(|line| line.contains("audit log cannot be written")).count();
    assert_eq!(lines, 1, "now and then");
}

/// A2, for those who are in already.
#[tokio::test]
async fn a_connection_ends_with_its_signature() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    server.create("orders");
    folder.make(&["create", "azure", "--queues", "listen,send=orders", "--signing"]);
    let signed = folder.make(&["sign", "azure", "--for", "3s"]);
    let store = server.open(&signed).await.unwrap();
    let queue = store.queue("orders").unwrap();
    queue.send("in time").await.unwrap();
    let waiting = queue.receive().wait(Duration::from_secs(3600));
    let delivery = waiting.one().await.unwrap().unwrap();
    delivery.complete().await.unwrap();
    let ended = queue.receive().wait(Duration::from_secs(3600)).one().await;
    let why = ended.unwrap_err();
    assert!(why.to_string().contains("expired"), "{why}");
    assert!(matches!(queue.send("too late").await, Err(Error::Denied { .. })));
    let answer = server.send(
        "POST",
        "/v1/queues/orders/messages",
        &[("authorization", &signed)],
        &json!({ "body": "too late" }),
    );
    assert_eq!(answer.status, 401);
    server.stop();
}
