//! How many workers a queue should have: the number that KEDA's metrics-api scaler reads.

use serde_json::json;

use crate::server::Server;

#[test]
fn the_number_wanted_stands_there_with_its_reason() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let scale = |query: &str| server.get(&format!("/v1/queues/orders/scale?{query}")).is(200);
    let none = scale("per_worker=5");
    assert_eq!((&none["wanted"], &none["why"]), (&json!(0), &json!("dormant")));
    for _ in 0..12 {
        server.ask("POST", "/v1/queues/orders/messages", &json!({ "text": "work" })).is(201);
    }
    let some = scale("per_worker=5");
    assert_eq!(
        (&some["wanted"], &some["ready"], &some["busy"]),
        (&json!(3), &json!(12), &json!(0))
    );
    assert_eq!(some["decision"], "out from 0 to 3: 12 messages, 5 to a worker, want 3");
    assert_eq!(scale("")["wanted"], 3, "five to a worker if nothing is said");
    assert_eq!(scale("per_worker=5&max=2")["wanted"], 2);
    assert_eq!(scale("per_worker=5&workers=3")["why"], "steady");
    assert_eq!(scale("per_worker=100&min=2")["wanted"], 2);
    assert!(some["plan"].is_null() && some["hosts"].as_array().unwrap().is_empty());
    // Who has a message is counted, and kept.
    server.ask("POST", "/v1/queues/orders/receive", &json!({ "max": 1 })).is(200);
    let busy = scale("per_worker=100&workers=4");
    assert_eq!((&busy["busy"], &busy["locked"]), (&json!(1), &json!(1)));
    assert_eq!((&busy["wanted"], &busy["why"]), (&json!(1), &json!("in")));
}

/// Pain 31: nothing is scaled up for what nobody may take.
#[test]
fn a_paused_queue_wants_no_more_than_are_busy() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    server.ask("POST", "/v1/queues/orders/messages", &json!({ "text": "work" })).is(201);
    server.ask("PATCH", "/v1/queues/orders", &json!({ "status": "receive_disabled" })).is(200);
    let paused = server.get("/v1/queues/orders/scale").is(200);
    assert_eq!((&paused["wanted"], &paused["paused"]), (&json!(0), &json!(true)));
    assert_eq!(paused["decision"], "keep 0: the queue is paused");
}

#[test]
fn what_cannot_work_is_a_problem() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    for wrong in ["max=0", "max=x", "min=5&max=4", "per_worker=0", "drain_within_ms=0", "more=1"] {
        let answer = server.get(&format!("/v1/queues/orders/scale?{wrong}"));
        assert_eq!(answer.status, 400, "{wrong}");
    }
    server.get("/v1/queues/nowhere/scale").problem(404, "queue-not-found");
}
