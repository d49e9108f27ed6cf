//! Transactions, requests and claims, over HTTP.

use serde_json::{Value, json};

use crate::server::Server;

fn complete(queue: &str, message: &Value) -> Value {
    let settlement = json!({ "lock_token": message["lock_token"], "disposition": "complete" });
    json!({ "settle": { "queue": queue, "settlement": settlement } })
}

#[test]
fn a_transaction_happens_whole_or_not_at_all() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    server.create("bills", &json!({}));
    server.post("/v1/queues/orders/messages", &json!({ "text": "two coffees" })).is(201);
    let order = server.receive("orders");
    let send = |queue: &str| json!({ "send": { "queue": queue, "messages": [{ "body": [1] }] } });
    let steps = json!({ "steps": [complete("orders", &order), send("missing")] });
    let refused = server.post("/v1/transactions", &steps).problem(404, "queue-not-found");
    assert_eq!((&refused["step"], &refused["queue"]), (&json!(1), &json!("missing")));
    let steps = json!({ "steps": [complete("orders", &order), send("bills")] });
    let key = [("idempotency-key", "t1")];
    let first = server.ask_with("POST", "/v1/transactions", &key, &steps).is(200);
    assert_eq!(first["sent"], json!([["1"]]));
    let again = server.ask_with("POST", "/v1/transactions", &key, &steps).is(200);
    assert_eq!(again, first, "the same request again is the same transaction");
    server.post("/v1/transactions", &steps).problem(410, "lock-lost");
    assert_eq!(server.receive("bills")["body"], json!([1]));
    let counts = &server.get("/v1/queues/bills").is(200)["counts"];
    assert_eq!((&counts["ready"], &counts["locked"]), (&json!(0), &json!(1)));
    server.post("/v1/transactions", &json!({ "steps": [] })).problem(400, "invalid-value");
    server
        .post("/v1/transactions", &json!({ "steps": [{ "dance": {} }] }))
        .problem(400, "bad-request");
}

#[test]
fn a_request_is_accepted_followed_and_answered() {
    let server = Server::in_memory();
    server.create("sums", &json!({}));
    let ask = json!({ "message": { "id": "r 1/2", "text": "6 times 7" } });
    let accepted = server.post("/v1/queues/sums/requests", &ask);
    let location = accepted.header("location").unwrap().to_owned();
    assert_eq!(location, "/v1/queues/sums/requests/r%201%2F2");
    assert_eq!(accepted.header("retry-after"), Some("1"));
    assert_eq!(accepted.is(202)["state"], "pending");
    assert_eq!(server.get(&location).is(200)["state"], "pending");
    server.get(&format!("{location}/result")).problem(404, "result-not-found");
    server.post("/v1/queues/sums/requests", &ask).is(202);
    let work = server.receive("sums");
    let counts = &server.get("/v1/queues/sums").is(200)["counts"];
    assert_eq!(counts["ready"], 0, "the same id again asks nothing again");

    let report = |state: &str, rest: Value| {
        let mut report = json!({ "queue": "sums", "id": "r 1/2", "state": state });
        report.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({ "report": report })
    };
    let running = json!({ "steps": [report("running", json!({ "percent": 40 }))] });
    server.post("/v1/transactions", &running).is(200);
    let shown = server.get(&location).is(200);
    assert_eq!((&shown["state"], &shown["percent"]), (&json!("running"), &json!(40)));
    assert!(shown["created_at"].is_string() && shown["expires_at"].is_string(), "{shown}");
    let answer = report("succeeded", json!({ "message": { "body": { "sum": 42 } } }));
    let steps = json!({ "steps": [complete("sums", &work), answer] });
    server.post("/v1/transactions", &steps).is(200);
    // The client goes where 303 sends it.
    let found = server.get(&format!("{location}?wait_ms=1000"));
    assert_eq!(found.header("content-type"), Some("application/json"));
    assert_eq!(found.is(200), json!({ "sum": 42 }));
    server.get("/v1/queues/sums/requests/never").problem(404, "result-not-found");
}

#[test]
fn a_request_that_failed_or_left_says_so() {
    let server = Server::in_memory();
    server.create("sums", &json!({ "deliveries_max": 1 }));
    let ask = |id: &str| json!({ "message": { "id": id, "text": "work" } });
    server.post("/v1/queues/sums/requests", &ask("a")).is(202);
    let work = server.receive("sums");
    let why = json!({ "queue": "sums", "id": "a", "state": "failed", "message": { "text": "no" } });
    let steps = json!({ "steps": [complete("sums", &work), { "report": why }] });
    server.post("/v1/transactions", &steps).is(200);
    let failed = server.get("/v1/queues/sums/requests/a").is(200);
    assert_eq!((&failed["state"], &failed["error"]), (&json!("failed"), &json!("no")));
    assert_eq!(server.get("/v1/queues/sums/requests/a/result").bytes, b"no");

    server.post("/v1/queues/sums/requests", &ask("b")).is(202);
    let work = server.receive("sums");
    let abandon = json!({ "lock_token": work["lock_token"], "disposition": "abandon" });
    server.settle("sums", &abandon);
    let gone = server.get("/v1/queues/sums/requests/b?wait_ms=1000").is(200);
    assert_eq!(gone["state"], "gone", "it is a dead letter");
}

#[test]
fn a_claim_is_granted_once_and_remembers_what_came_of_it() {
    let server = Server::in_memory();
    let path = "/v1/claims/payments/order-17";
    let granted = server.post(path, &json!({ "content": "250" })).is(201);
    assert_eq!((&granted["claim"], &granted["taken_over"]), (&json!("granted"), &json!(false)));
    let busy = server.post(path, &json!({ "content": "250" })).problem(409, "claim-in-progress");
    assert!(busy["retry_after_ms"].as_u64().unwrap() <= 60_000, "{busy}");
    server.post(path, &json!({ "content": "999" })).problem(409, "claim-conflict");
    let finish = |token: &Value| {
        let step = json!({ "scope": "payments", "key": "order-17", "token": token, "text": "7" });
        json!({ "steps": [{ "finish": step }] })
    };
    let stranger = json!("00000063000003e7");
    server.post("/v1/transactions", &finish(&stranger)).problem(410, "claim-lost");
    server.post("/v1/transactions", &finish(&granted["token"])).is(200);
    let done = server.post(path, &json!({ "content": "250" })).is(200);
    assert_eq!((&done["claim"], &done["text"]), (&json!("done"), &json!("7")));
    server.post("/v1/transactions", &finish(&granted["token"])).problem(410, "claim-lost");
}
