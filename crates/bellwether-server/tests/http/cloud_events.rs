//! CloudEvents, in binary and structured mode, in and out.

use serde_json::{Value, json};

use crate::server::Server;

const STRUCTURED: &str = "application/cloudevents+json";

fn receive(server: &Server, accept: &str) -> crate::server::Answer {
    server.send("POST", "/v1/queues/events/receive", &[("accept", accept)], b"")
}

fn server() -> Server {
    let server = Server::in_memory();
    server.create("events", &json!({ "duplicate_window_ms": 60_000 }));
    server
}

#[test]
fn a_structured_event_comes_out_in_either_mode() {
    let server = server();
    let event = json!({
        "specversion": "1.0", "id": "7", "source": "/shop", "type": "order.made",
        "subject": "coffee", "time": "2026-01-31T09:30:00Z", "datacontenttype": "application/json",
        "urgent": true, "rank": 3, "data": { "cups": 2 },
    });
    let kind = [("content-type", STRUCTURED)];
    let path = "/v1/queues/events/messages";
    server.send("POST", path, &kind, event.to_string().as_bytes()).is(201);
    let again = server.send("POST", path, &kind, event.to_string().as_bytes()).is(201);
    assert_eq!(again["duplicate"], true, "source and id name an event");
    let out = receive(&server, STRUCTURED);
    assert_eq!(out.header("content-type"), Some(STRUCTURED));
    let token = out.header("bellwether-lock-token").unwrap().to_owned();
    assert_eq!(out.json(), event);
    server.settle("events", &json!({ "lock_token": token, "disposition": "release" }));
    let out = receive(&server, "application/octet-stream");
    assert_eq!(out.header("content-type"), Some("application/json"));
    assert_eq!(out.header("ce-type"), Some("order.made"));
    assert_eq!(out.header("ce-urgent"), Some("true"));
    assert_eq!(serde_json::from_slice::<Value>(&out.bytes).unwrap(), event["data"]);
}

#[test]
fn a_binary_event_comes_out_in_either_mode() {
    let server = server();
    let headers = [
        ("content-type", "text/plain"),
        ("ce-specversion", "1.0"),
        ("ce-id", "8"),
        ("ce-source", "/shop"),
        ("ce-type", "caf%C3%A9"),
    ];
    server.send("POST", "/v1/queues/events/messages", &headers, b"two cups").is(201);
    let out = receive(&server, STRUCTURED);
    let token = out.header("bellwether-lock-token").unwrap().to_owned();
    let event = out.json();
    assert_eq!((&event["type"], &event["data"]), (&json!("café"), &json!("two cups")));
    assert_eq!(event["datacontenttype"], "text/plain");
    server.settle("events", &json!({ "lock_token": token, "disposition": "release" }));
    let out = receive(&server, "application/octet-stream");
    assert_eq!((out.header("ce-type"), &out.bytes[..]), (Some("caf%C3%A9"), &b"two cups"[..]));
}

#[test]
fn a_message_that_is_no_event_is_shown_as_one() {
    let server = server();
    let message = json!({ "id": "9", "base64": "AP8=", "subject": "order" });
    server.post("/v1/queues/events/messages", &message).is(201);
    let event = receive(&server, STRUCTURED).json();
    let expected = json!({ "specversion": "1.0", "id": "9", "source": "/v1/queues/events",
                           "type": "order", "data_base64": "AP8=", "time": event["time"] });
    assert_eq!(event, expected);
}

#[test]
fn an_event_that_lacks_something_is_refused() {
    let server = server();
    let kind = [("content-type", STRUCTURED)];
    let event = json!({ "specversion": "1.0", "id": "7", "source": "/shop" });
    let refused =
        server.send("POST", "/v1/queues/events/messages", &kind, event.to_string().as_bytes());
    assert_eq!(refused.problem(400, "invalid-value")["setting"], "type");
    let event = json!({ "specversion": "0.3", "id": "7", "source": "/shop", "type": "t" });
    let refused =
        server.send("POST", "/v1/queues/events/messages", &kind, event.to_string().as_bytes());
    assert_eq!(refused.problem(400, "invalid-value")["setting"], "specversion");
}
