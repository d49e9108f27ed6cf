//! Messages: sent, received, settled; what goes in comes out.

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::server::Server;

/// Fields that come back as they were sent.
fn same(sent: &Value, received: &Value) {
    for (field, value) in sent.as_object().unwrap() {
        assert_eq!(&received[field], value, "{field}");
    }
}

#[test]
fn every_field_and_every_kind_of_property_comes_back_as_it_was_sent() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let typed = |name: &str, value: Value| json!({ "type": name, "value": value });
    let sent = json!({
        "id": "17", "subject": "coffee", "correlation_id": "c", "to": "bar", "reply_to": "r",
        "reply_to_session": "rs", "content_type": "text/x-order", "ttl_ms": 60_000,
        "text": "two coffees", "body_kind": "data",
        "properties": {
            "null": null, "boolean": true, "string": "é", "long": -7,
            "big": typed("long", json!("9223372036854775807")),
            "ulong": typed("ulong", json!("18446744073709551615")),
            "ubyte": typed("ubyte", json!(255)), "byte": typed("byte", json!(-128)),
            "ushort": typed("ushort", json!(65535)), "short": typed("short", json!(-1)),
            "uint": typed("uint", json!(4_294_967_295_u32)), "int": typed("int", json!(-1)),
            "float": typed("float", json!(0.5)), "double": typed("double", json!(1.0)),
            "infinite": typed("double", json!("-Infinity")),
            "nan": typed("float", json!("0x7fc00001")),
            "char": typed("char", json!("é")),
            "timestamp": typed("timestamp", json!("1969-12-31T23:59:59.999Z")),
            "uuid": typed("uuid", json!("01020304-0506-0708-090a-0b0c0d0e0f10")),
            "binary": typed("binary", json!("AP8=")), "symbol": typed("symbol", json!("word")),
        },
    });
    server.post("/v1/queues/orders/messages", &sent).is(201);
    same(&sent, &server.receive("orders"));
}

#[test]
fn a_body_is_kept_byte_for_byte_whichever_way_it_came() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let path = "/v1/queues/orders/messages";
    let kind = [("content-type", "application/json")];
    // The bytes of a JSON body stay, its spaces and digits included.
    let json_body = r#"{"n": 12345678901234567890123,  "x": 1.0}"#;
    let envelope = format!(r#"{{"body": {json_body}}}"#);
    server.send("POST", path, &kind, envelope.as_bytes()).is(201);
    let received = server.post("/v1/queues/orders/receive", &json!({}));
    assert!(String::from_utf8(received.bytes).unwrap().contains(json_body));
    server.send("POST", path, &kind, br#"{"body": null}"#).is(201);
    let null = server.receive("orders");
    assert!(null.as_object().unwrap().contains_key("body") && null["body"].is_null());
    server.post(path, &json!({ "base64": "AP8=" })).is(201);
    assert_eq!(server.receive("orders")["base64"], "AP8=");
    server.post(path, &json!({ "base64": "oQNhYmM=", "body_kind": "value" })).is(201);
    let value = server.receive("orders");
    assert_eq!((&value["base64"], &value["body_kind"]), (&json!("oQNhYmM="), &json!("value")));
    server.post(path, &json!({})).is(201);
    assert_eq!(server.receive("orders")["text"], "");
    server.post(path, &json!({ "text": "a", "body": 1 })).problem(400, "invalid-value");
}

#[test]
fn raw_bytes_go_in_and_out_with_their_fields_in_headers() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let headers = [
        ("content-type", "image/x-tiny"),
        ("bellwether-id", "17"),
        ("bellwether-subject", "caf%C3%A9"),
        ("bellwether-properties", r#"{"n": {"type": "ubyte", "value": 7}}"#),
    ];
    let bytes = b"\x00\xff\r\n";
    server.send("POST", "/v1/queues/orders/messages", &headers, bytes).is(201);
    let accept = [("accept", "application/octet-stream")];
    let received = server.send("POST", "/v1/queues/orders/receive", &accept, b"");
    assert_eq!((received.status, &received.bytes[..]), (200, &bytes[..]));
    assert_eq!(received.header("content-type"), Some("image/x-tiny"));
    assert_eq!(received.header("bellwether-subject"), Some("caf%C3%A9"));
    assert_eq!(received.header("bellwether-sequence"), Some("1"));
    let token = received.header("bellwether-lock-token").unwrap();
    let settled =
        server.settle("orders", &json!({ "lock_token": token, "disposition": "complete" }));
    assert_eq!(settled, json!({ "settled": 1, "refused": [] }));
    let nothing = server.send("POST", "/v1/queues/orders/receive", &accept, b"");
    assert_eq!(nothing.status, 204);
}

#[test]
fn a_delivery_ends_in_five_ways() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    server.post("/v1/queues/orders/messages", &json!({ "text": "one" })).is(201);
    let token = |message: &Value| message["lock_token"].clone();
    let delivery = server.receive("orders");
    let changed = json!({ "tries": 1, "hint": { "type": "symbol", "value": "fast" } });
    let abandon = json!({
        "lock_token": token(&delivery), "disposition": "abandon", "properties": changed
    });
    server.settle("orders", &abandon);
    let delivery = server.receive("orders");
    assert_eq!((&delivery["deliveries"], &delivery["failures"]), (&json!(2), &json!(1)));
    assert_eq!(delivery["properties"], changed);
    server.settle(
        "orders",
        &json!({ "lock_token": token(&delivery), "disposition": "release",
                 "properties": { "hint": null } }),
    );
    let delivery = server.receive("orders");
    assert_eq!((&delivery["deliveries"], &delivery["releases"]), (&json!(2), &json!(1)));
    assert_eq!(delivery["properties"], json!({ "tries": 1 }), "null removes");
    let defer = json!({ "lock_token": token(&delivery), "disposition": "defer" });
    server.settle("orders", &defer);
    let lost = server.settle("orders", &defer);
    assert_eq!(lost["refused"][0]["problem"]["type"], "/v1/problems/lock-lost");
    let by_number = json!({ "sequences": [delivery["sequence"]] });
    let deferred = server.post("/v1/queues/orders/receive-deferred", &by_number).is(200);
    let delivery = &deferred["messages"][0];
    server.settle(
        "orders",
        &json!({ "lock_token": token(delivery), "disposition": "dead_letter",
                 "reason": "NoMilk", "description": "none left" }),
    );
    let dead = server.get("/v1/queues/orders/dead-letters/messages/1").is(200);
    assert_eq!(dead["dead_letter"], json!({ "reason": "NoMilk", "description": "none left" }));
    let redriven = server.post("/v1/queues/orders/dead-letters/redrive", &json!({})).is(200);
    assert_eq!(redriven["count"], 1);
    let delivery = server.receive("orders");
    assert_eq!((&delivery["sequence"], &delivery["deliveries"]), (&json!("2"), &json!(1)));
    let complete = json!({ "lock_token": token(&delivery), "disposition": "complete" });
    assert_eq!(server.settle("orders", &complete)["settled"], 1);
    assert_eq!(server.get("/v1/queues/orders/messages").is(200)["messages"], json!([]));
}

#[test]
fn dead_letters_are_received_renewed_settled_and_purged_like_messages() {
    let server = Server::in_memory();
    server.create("orders", &json!({ "deliveries_max": 1 }));
    let batch = json!({ "messages": [{ "text": "a" }, { "text": "b" }] });
    server.post("/v1/queues/orders/messages/batch", &batch).is(201);
    for _ in 0..2 {
        let delivery = server.receive("orders");
        server.settle(
            "orders",
            &json!({ "lock_token": delivery["lock_token"], "disposition": "abandon" }),
        );
    }
    let path = "/v1/queues/orders/dead-letters";
    let received = server.post(&format!("{path}/receive"), &json!({ "lock_ms": 30_000 })).is(200);
    let dead = &received["messages"][0];
    assert_eq!(dead["dead_letter"]["reason"], "MaxDeliveryCountExceeded");
    let tokens = json!({ "lock_tokens": [dead["lock_token"]], "lock_ms": 40_000 });
    let renewed = server.post(&format!("{path}/renew"), &tokens).is(200);
    assert_eq!((&renewed["lock_ms"], &renewed["refused"]), (&json!(40_000), &json!([])));
    let complete = json!({ "lock_token": dead["lock_token"], "disposition": "complete" });
    let settled =
        server.post(&format!("{path}/settle"), &json!({ "settlements": [complete] })).is(200);
    assert_eq!(settled["settled"], 1);
    assert_eq!(server.post(&format!("{path}/purge"), &json!({})).is(200)["count"], 1);
    assert_eq!(server.get(&format!("{path}/messages")).is(200)["messages"], json!([]));
}

#[test]
fn a_scheduled_message_waits_and_can_be_taken_back() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let later = json!({ "text": "later", "scheduled_at": "2999-01-01T00:00:00+01:00" });
    let sent = server.post("/v1/queues/orders/messages", &later).is(201);
    let shown = server.get("/v1/queues/orders/messages/1").is(200);
    assert_eq!(shown["state"], "scheduled");
    assert_eq!(shown["due_at"], "2998-12-31T23:00:00.000Z");
    let cancel = json!({ "sequences": [sent["sequence"]] });
    assert_eq!(server.post("/v1/queues/orders/cancel", &cancel).is(200)["count"], 1);
    server.post("/v1/queues/orders/cancel", &cancel).problem(404, "message-not-found");
    let wrong = json!({ "text": "", "scheduled_at": "tomorrow" });
    server.post("/v1/queues/orders/messages", &wrong).problem(400, "invalid-value");
}

#[test]
fn a_receive_waits_for_a_message_that_comes() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            server.post("/v1/queues/orders/receive", &json!({ "wait_ms": 60_000 })).is(200)
        });
        server.post("/v1/queues/orders/messages", &json!({ "text": "here" })).is(201);
        assert_eq!(waiting.join().unwrap()["messages"][0]["text"], "here");
    });
}

/// M16: the wait of a client that is gone is withdrawn, and the next message is not locked for it.
#[test]
fn a_client_that_goes_away_while_it_waits_locks_nothing() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let address = server.address.strip_prefix("http://").unwrap();
    let body = r#"{"wait_ms": 60000}"#;
    let request = format!(
        "POST /v1/queues/orders/receive HTTP/1.1\r\nHost: {address}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let ask = |_| {
        let mut waiting = TcpStream::connect(address).unwrap();
        waiting.write_all(request.as_bytes()).unwrap();
        waiting
    };
    let before = server.connections();
    let waiting: Vec<TcpStream> = (0..20).map(ask).collect();
    assert_eq!(server.connections(), before + 20);
    drop(waiting);
    // It would hold on to them for a minute if it did not notice.
    while server.connections() > before {
        std::thread::yield_now();
    }
    server.post("/v1/queues/orders/messages", &json!({ "text": "here" })).is(201);
    let received = server.receive("orders");
    assert_eq!((&received["text"], &received["deliveries"]), (&json!("here"), &json!(1)));
}

#[test]
fn what_is_received_and_deleted_is_gone() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    server.post("/v1/queues/orders/messages", &json!({ "text": "once" })).is(201);
    let ask = json!({ "mode": "receive_and_delete" });
    let received = server.post("/v1/queues/orders/receive", &ask).is(200);
    assert_eq!(received["messages"][0]["state"], "gone");
    assert_eq!(received["messages"][0]["lock_token"], json!(null));
    assert_eq!(server.get("/v1/queues/orders").is(200)["totals"]["completed"], 1);
}

#[test]
fn a_batch_is_sent_whole_or_not_at_all() {
    let server = Server::in_memory();
    server.create("orders", &json!({ "message_bytes_max": 100, "duplicate_window_ms": 60_000 }));
    let big = "x".repeat(200);
    let batch = json!({ "messages": [{ "text": "a" }, { "text": big }] });
    server.post("/v1/queues/orders/messages/batch", &batch).problem(413, "too-large");
    assert_eq!(server.get("/v1/queues/orders").is(200)["totals"]["sent"], 0);
    let batch = json!({ "messages": [{ "id": "1" }, { "id": "1" }] });
    let sent = server.post("/v1/queues/orders/messages/batch", &batch).is(201);
    assert_eq!(sent["messages"][1], json!({ "sequence": null, "duplicate": true }));
}

#[test]
fn messages_are_looked_at_in_pages() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let batch = json!({ "messages": [{ "text": "a" }, { "text": "b" }, { "text": "c" }] });
    server.post("/v1/queues/orders/messages/batch", &batch).is(201);
    let first = server.get("/v1/queues/orders/messages?max=2").is(200);
    assert_eq!(first["next"], "3");
    let second = server.get("/v1/queues/orders/messages?max=2&from=3").is(200);
    assert_eq!((&second["messages"][0]["text"], &second["next"]), (&json!("c"), &json!(null)));
    server.get("/v1/queues/orders/messages/4").problem(404, "message-not-found");
}
