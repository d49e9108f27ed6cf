//! Order, fairness and limits.

use serde_json::json;

use crate::server::Server;

#[test]
fn an_order_is_set_shown_changed_and_taken_back() {
    let server = Server::in_memory();
    server.create("later", &json!({}));
    let order = json!({
        "ageing_ms": 1000,
        "rate": { "messages": 100, "per_ms": 1000 },
        "key_weights": { "gold": 4 },
        "messages_max": 10,
        "overflow": { "spill_to": "later" },
    });
    let made = server.ask("PUT", "/v1/queues/orders", &json!({ "order": order })).is(201);
    let shown = &made["settings"]["order"];
    for field in ["ageing_ms", "rate", "key_weights", "messages_max", "overflow"] {
        assert_eq!(shown[field], order[field], "{field}");
    }
    let change = json!({ "order": { "rate": null, "overflow": "drop_oldest" } });
    let changed = server.ask("PATCH", "/v1/queues/orders", &change).is(200);
    let shown = &changed["settings"]["order"];
    assert_eq!((&shown["rate"], &shown["overflow"]), (&json!(null), &json!("drop_oldest")));
    assert_eq!(shown["messages_max"], 10, "what is left out stays");
    let wrong = json!({ "order": { "key_in_flight_max": 0 } });
    let told = server.ask("PATCH", "/v1/queues/orders", &wrong).problem(400, "invalid-value");
    assert_eq!(told["setting"], "key_in_flight_max");
}

#[test]
fn messages_come_by_priority_and_in_turns() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let batch = json!({ "messages": [
        { "text": "a1", "key": "a" },
        { "text": "a2", "key": "a" },
        { "text": "b1", "key": "b" },
        { "text": "urgent", "priority": 9 },
    ] });
    server.post("/v1/queues/orders/messages/batch", &batch).is(201);
    for (text, priority) in [("urgent", 9), ("a1", 4), ("b1", 4), ("a2", 4)] {
        let message = server.receive("orders");
        assert_eq!((&message["text"], &message["priority"]), (&json!(text), &json!(priority)));
    }
    let wrong = json!({ "text": "m", "priority": 10 });
    let told = server.post("/v1/queues/orders/messages", &wrong).problem(400, "invalid-value");
    assert_eq!(told["setting"], "priority");
}

#[test]
fn a_sender_beyond_the_limit_is_told_when_to_come_again() {
    let server = Server::in_memory();
    server.create("orders", &json!({ "order": { "messages_max": 1 } }));
    server.post("/v1/queues/orders/messages", &json!({ "text": "1" })).is(201);
    let refused = server.post("/v1/queues/orders/messages", &json!({ "text": "2" }));
    assert!(refused.header("retry-after").is_some());
    let told = refused.problem(429, "queue-busy");
    assert_eq!((&told["limit"], &told["setting"]), (&json!(1), &json!("messages_max")));
    assert!(told["retry_after_ms"].is_u64() && told["retry"] == true);
    let change = json!({ "order": { "overflow": "drop_oldest" } });
    server.ask("PATCH", "/v1/queues/orders", &change).is(200);
    server.post("/v1/queues/orders/messages", &json!({ "text": "2" })).is(201);
    assert_eq!(server.get("/v1/queues/orders").is(200)["totals"]["shed"], 1);
    assert_eq!(server.receive("orders")["text"], "2");
}
