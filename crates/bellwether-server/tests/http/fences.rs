//! `Fencing-Term`: what a deposed leader asks for late is refused.

use serde_json::{Value, json};

use crate::server::{Answer, Server};

const ID: &str = "00112233445566778899aabbccddeeff";

/// A term of an election of this name.
fn lead(server: &Server, name: &str) -> String {
    let ask = json!({ "id": ID, "ttl_ms": 60_000 });
    let granted = server.post(&format!("/v1/leases/{name}/acquire"), &ask).is(200);
    granted["term"].as_str().unwrap().to_owned()
}

fn under(server: &Server, fence: &str, method: &str, path: &str, body: &Value) -> Answer {
    server.ask_with(method, path, &[("fencing-term", fence)], body)
}

#[test]
fn a_deposed_leader_changes_nothing() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let old = lead(&server, "billing");
    let fence = format!("billing/{old}");
    let send = json!({ "text": "in time" });
    under(&server, &fence, "POST", "/v1/queues/orders/messages", &send).is(201);
    let received = under(&server, &fence, "POST", "/v1/queues/orders/receive", &json!({})).is(200);
    let token = &received["messages"][0]["lock_token"];
    server.post("/v1/leases/billing/release", &json!({ "id": ID })).is(204);
    let new = lead(&server, "billing");

    let batch = json!({ "messages": [{ "text": "late" }, { "text": "later" }] });
    let settle = |how| json!({ "settlements": [{ "lock_token": token, "disposition": how }] });
    for (method, path, body) in [
        ("POST", "/v1/queues/orders/messages", send),
        ("POST", "/v1/queues/orders/messages/batch", batch),
        ("POST", "/v1/queues/orders/settle", settle("complete")),
        ("POST", "/v1/queues/orders/settle", settle("abandon")),
        ("POST", "/v1/queues/orders/settle", settle("defer")),
        ("POST", "/v1/queues/orders/settle", settle("dead_letter")),
        ("POST", "/v1/queues/orders/receive", json!({ "mode": "receive_and_delete" })),
        ("POST", "/v1/queues/orders/purge", json!({})),
        ("PATCH", "/v1/queues/orders", json!({ "lock_ms": 7000 })),
        ("PUT", "/v1/queues/another", json!({})),
        ("DELETE", "/v1/queues/orders", json!({})),
    ] {
        let problem = under(&server, &fence, method, path, &body).problem(412, "fenced");
        assert_eq!(
            (&problem["lease"], &problem["term"]),
            (&json!("billing"), &json!(old)),
            "{path}"
        );
        assert_eq!((&problem["newest_term"], &problem["retry"]), (&json!(new), &json!(false)));
        assert!(problem["detail"].as_str().unwrap().contains("stop the work"), "{problem}");
    }
    let settled = under(
        &server,
        &format!("billing/{new}"),
        "POST",
        "/v1/queues/orders/settle",
        &settle("complete"),
    );
    assert_eq!(settled.is(200)["settled"], 1, "it was still there, and locked");
}

#[test]
fn a_fence_that_cannot_be_read_is_refused_and_any_name_can_be_written() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let path = "/v1/queues/orders/messages";
    for wrong in ["billing", "billing/", "billing/x", "/7", "billing/-1", "%ff/7"] {
        let problem = under(&server, wrong, "POST", path, &json!({ "text": "x" }));
        let problem = problem.problem(400, "invalid-value");
        let setting = problem["setting"].as_str().unwrap();
        assert!(setting.eq_ignore_ascii_case("fencing-term"), "{problem}");
    }
    let term = lead(&server, "shop%2Fn%C3%A4chtlich%20%25");
    let fence = format!("shop/n%C3%A4chtlich %25/{term}");
    under(&server, &fence, "POST", path, &json!({ "text": "x" })).is(201);
}

/// The fence is no part of the request: a successor may ask again what its predecessor asked.
#[test]
fn under_a_key_the_first_outcome_is_told_whatever_became_of_the_term() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let old = format!("billing/{}", lead(&server, "billing"));
    let send = |fence: &str, key: &str| {
        let headers = [("fencing-term", fence), ("idempotency-key", key)];
        let body = json!({ "text": "once" });
        server.ask_with("POST", "/v1/queues/orders/messages", &headers, &body)
    };
    let first = send(&old, "a").is(201);
    server.post("/v1/leases/billing/release", &json!({ "id": ID })).is(204);
    let new = format!("billing/{}", lead(&server, "billing"));
    assert_eq!(send(&old, "a").is(201), first);
    assert_eq!(send(&new, "a").is(201), first);
    send(&old, "b").problem(412, "fenced");
    send(&new, "b").is(201);
    assert_eq!(server.get("/v1/queues/orders").is(200)["counts"]["ready"], 2);
}
