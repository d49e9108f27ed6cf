//! `Idempotency-Key`: the same request again gets the first outcome.

use serde_json::{Value, json};

use crate::server::{Answer, Folder, Server};

fn under(server: &Server, key: &str, method: &str, path: &str, body: &Value) -> Answer {
    server.ask_with(method, path, &[("idempotency-key", key)], body)
}

/// M4: also when the server was killed in between.
#[test]
fn the_same_request_again_gets_the_first_outcome_across_a_kill() {
    let folder = Folder::new("exactly-once");
    let path = "/v1/queues/orders/messages";
    let body = json!({ "text": "two coffees" });
    let first = {
        let server = Server::at(&folder);
        server.create("orders", &json!({}));
        let first = under(&server, "k1", "POST", path, &body).is(201);
        let again = under(&server, "k1", "POST", path, &body).is(201);
        assert_eq!(first, again);
        under(&server, "k1", "POST", path, &json!({ "text": "three" }))
            .problem(422, "idempotency-key-reused");
        first
    };
    let server = Server::at(&folder);
    assert_eq!(under(&server, "k1", "POST", path, &body).is(201), first);
    under(&server, "k1", "POST", path, &json!({ "text": "three" }))
        .problem(422, "idempotency-key-reused");
    under(&server, "k1", "POST", "/v1/queues/orders/purge", &json!({}))
        .problem(422, "idempotency-key-reused");
    assert_eq!(under(&server, "k2", "POST", path, &body).is(201)["sequence"], "2");
    assert_eq!(server.get("/v1/queues/orders").is(200)["totals"]["sent"], 2);
    let members = server.get("/v1/members").is(200);
    assert_eq!(members["members"].as_array().unwrap().len(), 1, "keys are no members to show");
    server.stop();
}

/// M26: a settlement that is repeated is not `LockLost`.
#[test]
fn every_change_can_be_asked_for_twice() {
    let server = Server::in_memory();
    let twice = |key: &str, method: &str, path: &str, body: Value, status: u16| {
        let mut first = under(&server, key, method, path, &body).is(status);
        let mut again = under(&server, key, method, path, &body).is(status);
        for answer in [&mut first, &mut again] {
            // The one thing that is told by the clock.
            if let Some(message) = answer.pointer_mut("/messages/0").and_then(Value::as_object_mut)
            {
                message.remove("locked_until");
            }
        }
        assert_eq!(again, first, "{path}");
        first
    };
    twice("a", "PUT", "/v1/queues/orders", json!({}), 201);
    twice("b", "PATCH", "/v1/queues/orders", json!({ "lock_ms": 30_000 }), 200);
    let path = "/v1/queues/orders/messages/batch";
    twice("c", "POST", path, json!({ "messages": [{ "text": "a" }, { "text": "b" }] }), 201);
    let received = twice("d", "POST", "/v1/queues/orders/receive", json!({}), 200);
    let token = &received["messages"][0]["lock_token"];
    let settle = json!({ "settlements": [{ "lock_token": token, "disposition": "complete" }] });
    let settled = twice("e", "POST", "/v1/queues/orders/settle", settle, 200);
    assert_eq!(settled["settled"], 1);
    let purged = twice("f", "POST", "/v1/queues/orders/purge", json!({}), 200);
    assert_eq!(purged["count"], 1);
    twice("g", "POST", "/v1/leases/leader/acquire", json!({ "ttl_ms": 30_000 }), 200);
    twice("h", "POST", "/v1/members", json!({ "ttl_ms": 30_000 }), 201);
    twice("i", "DELETE", "/v1/queues/orders", json!({}), 204);
    server.get("/v1/queues/orders").problem(404, "queue-not-found");
}

#[test]
fn a_refusal_is_not_remembered_for_it_changed_nothing() {
    let server = Server::in_memory();
    let path = "/v1/queues/orders/messages";
    let body = json!({ "text": "a" });
    under(&server, "k", "POST", path, &body).problem(404, "queue-not-found");
    server.create("orders", &json!({}));
    under(&server, "k", "POST", path, &body).is(201);
}

#[test]
fn a_key_promises_nothing_that_it_cannot_keep() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let ask = json!({ "mode": "receive_and_delete" });
    under(&server, "k", "POST", "/v1/queues/orders/receive", &ask).problem(400, "invalid-value");
    let long = "k".repeat(256);
    under(&server, &long, "POST", "/v1/queues/orders/purge", &json!({}))
        .problem(400, "invalid-value");
}
