//! A disk on which little is left.

use crate::server::{Folder, Server, assert_says, status};

/// More than any disk has.
const ALL: &str = "1152921504606846976";

fn start(folder: &Folder, more: &[&str]) -> Server {
    Server::start(&[&["--data", folder.text()], more].concat())
}

#[test]
fn senders_are_refused_and_what_is_there_is_received_and_settled() {
    let folder = Folder::new();
    let server = start(&folder, &[]);
    let made = server.raw(
        "PUT /v1/queues/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 2\r\nconnection: close\r\n\r\n{}",
    );
    assert_eq!(status(&made), 201, "{made}");
    let send = |server: &Server| server.post("/v1/queues/orders/messages", "{\"body\":\"tea\"}");
    assert_eq!(status(&send(&server)), 201);
    let metrics = server.get("/metrics", "host: localhost\r\n");
    assert_says(&metrics, &["bellwether_disk_free_bytes ", "bellwether_disk_free_bytes_min "]);
    server.stop();

    let mut server = start(&folder, &["--disk-free-bytes-min", ALL]);
    let refused = send(&server);
    assert_eq!(status(&refused), 507, "{refused}");
    assert_says(&refused, &["/v1/problems/disk-full", "\"retry\":true", "resumes by itself"]);
    let ready = server.get("/readyz", "host: localhost\r\n");
    assert_eq!(status(&ready), 503, "{ready}");
    assert_says(&ready, &["disk_free_bytes_min", "\"retry\":true", "retry-after: 1"]);
    let metrics = server.get("/metrics", "host: localhost\r\n");
    assert_says(
        &metrics,
        &[
            "bellwether_store{state=\"short_of_space\"} 1",
            &format!("bellwether_disk_free_bytes_min {ALL}"),
            "bellwether_asks_refused_total{reason=\"disk\"} 1",
        ],
    );
    let received = server.post("/v1/queues/orders/receive", "{}");
    assert_says(&received, &["\"tea\""]);
    let (_, token) = received.split_once("\"lock_token\":\"").unwrap();
    let token = token.split('"').next().unwrap();
    let settle = format!(
        "{{\"settlements\":[{{\"lock_token\":\"{token}\",\"disposition\":\"complete\"}}]}}"
    );
    let settled = server.post("/v1/queues/orders/settle", &settle);
    assert_eq!(status(&settled), 200, "{settled}");
    let line = server.wait_for_log("ERROR");
    assert_says(&line, &["senders are refused", "disk_free_bytes_min", "free space"]);
    server.stop();

    let server = start(&folder, &["--disk-free-bytes-min", "1"]);
    assert_eq!(status(&send(&server)), 201, "there is space again");
    server.stop();
}

#[test]
fn who_does_not_settle_is_handed_no_more() {
    let server = Server::start(&["--memory", "--unsettled-per-member-max", "1"]);
    let made = server.raw(
        "PUT /v1/queues/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 2\r\nconnection: close\r\n\r\n{}",
    );
    assert_eq!(status(&made), 201, "{made}");
    for _ in 0..2 {
        server.post("/v1/queues/orders/messages", "{\"body\":\"tea\"}");
    }
    assert_eq!(status(&server.post("/v1/queues/orders/receive", "{\"max\":2}")), 200);
    let refused = server.post("/v1/queues/orders/receive", "{}");
    assert_eq!(status(&refused), 422, "{refused}");
    assert_says(&refused, &["/v1/problems/too-many", "has not settled", "\"limit\":1"]);
    let metrics = server.get("/metrics", "host: localhost\r\n");
    assert_says(&metrics, &["bellwether_asks_refused_total{reason=\"too_many\"} 1"]);
    server.stop();
}
