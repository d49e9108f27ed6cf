//! Whatever cannot be answered is a problem in the one form.

use serde_json::{Value, json};

use crate::server::Server;

#[test]
fn what_cannot_be_read_is_a_problem() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let kind = [("content-type", "application/json")];
    let path = "/v1/queues/orders/receive";
    server.get("/nowhere").problem(404, "no-such-path");
    let wrong = server.ask("PUT", "/v1/stats", &json!({}));
    assert_eq!(wrong.header("allow"), Some("GET,HEAD"));
    wrong.problem(405, "method-not-allowed");
    server.send("POST", path, &kind, b"{").problem(400, "bad-request");
    server.send("POST", path, &kind, b"[]").problem(400, "bad-request");
    server.post(path, &json!({ "unknown": 1 })).problem(400, "bad-request");
    server.post(path, &json!({ "max": -1 })).problem(400, "bad-request");
    let csv = [("content-type", "text/csv")];
    server.send("POST", path, &csv, b"a").problem(415, "unsupported-media-type");
}

#[test]
fn a_body_that_is_too_long_is_a_problem_whether_it_says_so_or_not() {
    let server = Server::start(&["--memory", "--http-body-bytes-max", "1024"]);
    let path = "/v1/queues/orders/messages";
    let told = server.send("POST", path, &[], &[b'x'; 1025]);
    assert_eq!(told.problem(413, "too-large")["limit"], 1024);
    for headers in [vec![], vec![("idempotency-key", "k")]] {
        let chunked = [("transfer-encoding", "chunked")].into_iter().chain(headers);
        let refused = server.send("POST", path, &chunked.collect::<Vec<_>>(), &[b'x'; 2048]);
        assert_eq!(refused.problem(413, "too-large")["limit"], 1024);
    }
    server.stop();
}

#[test]
fn a_refusal_names_the_thing_and_the_limit() {
    let server = Server::in_memory();
    server.create("small", &json!({ "size_bytes_max": 30 }));
    let gone = server.post("/v1/queues/none/messages", &json!({ "text": "a" }));
    assert_eq!(gone.problem(404, "queue-not-found")["queue"], "none");
    let full = server.post("/v1/queues/small/messages", &json!({ "text": "x".repeat(40) }));
    let full = full.problem(429, "queue-full");
    assert_eq!((&full["limit"], &full["setting"]), (&json!(30), &json!("size_bytes_max")));
    assert_eq!(full["retry"], true);
    let wrong = server.ask("PUT", "/v1/queues/wrong", &json!({ "lock_ms": 1 }));
    assert_eq!(wrong.problem(400, "invalid-value")["setting"], "lock_ms");
    let at_once = server.post("/v1/queues/small/messages", &json!({ "text": "a", "ttl_ms": 0 }));
    let at_once = at_once.problem(400, "invalid-value");
    assert_eq!(at_once["setting"], "ttl_ms");
    assert!(at_once["detail"].as_str().unwrap().contains("the least is 1"), "{at_once}");
    server.ask("PATCH", "/v1/queues/small", &json!({ "status": "disabled" })).is(200);
    let off = server.post("/v1/queues/small/receive", &json!({}));
    off.problem(409, "queue-disabled");
    let wait = server.post("/v1/queues/small/receive", &json!({ "wait_ms": 60_001 }));
    assert_eq!(wait.problem(400, "invalid-value")["limit"], 60_000);
}

/// A program may stop at any moment of a wait.
#[test]
fn a_server_that_stops_ends_its_long_polls() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let url = server.url("/v1/queues/orders/receive");
    let started = std::thread::spawn(move || {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut answer = agent
            .post(url)
            .header("content-type", "application/json")
            .send(r#"{"wait_ms": 60000}"#)
            .unwrap();
        let problem: Value =
            serde_json::from_slice(&answer.body_mut().read_to_vec().unwrap()).unwrap();
        (answer.status().as_u16(), problem["type"].as_str().unwrap().to_owned())
    });
    // One of the test's, one of the poll's.
    while !started.is_finished() && server.connections() < 2 {
        std::thread::yield_now();
    }
    server.stop();
    let told = started.join().unwrap();
    assert_eq!(told, (503, "/v1/problems/closed".to_owned()));
}
