//! Queues, their settings and counters.

use serde_json::json;

use crate::server::Server;

#[test]
fn a_queue_is_created_once_shown_changed_and_deleted() {
    let server = Server::in_memory();
    let settings = json!({ "lock_ms": 5000, "ttl_ms": 60_000, "status": "send_disabled" });
    let made = server.ask("PUT", "/v1/queues/orders", &settings).is(201);
    assert_eq!(made["settings"]["lock_ms"], 5000);
    let again = server.ask("PUT", "/v1/queues/ORDERS", &json!({ "lock_ms": 7000 })).is(200);
    assert_eq!(again["queue"], "orders", "names compare without case");
    assert_eq!(again["settings"]["lock_ms"], 5000, "what is there is left alone");
    let wrong = server.ask("PUT", "/v1/queues/orders", &json!({ "deliveries_max": 0 }));
    wrong.problem(400, "invalid-value");
    let change = json!({ "status": "active", "ttl_ms": null });
    let changed = server.ask("PATCH", "/v1/queues/orders", &change).is(200);
    assert_eq!(changed["settings"]["status"], "active");
    assert_eq!(changed["settings"]["ttl_ms"], json!(null), "null clears");
    assert_eq!(changed["settings"]["lock_ms"], 5000, "what is left out stays");
    assert_eq!(server.get("/v1/queues/orders").is(200)["settings"], changed["settings"]);
    let settings = changed["settings"].clone();
    server.ask("PUT", "/v1/queues/copy", &settings).is(201);
    server.delete("/v1/queues/orders").is(204);
    server.get("/v1/queues/orders").problem(404, "queue-not-found");
}

#[test]
fn queues_are_listed_in_pages() {
    let server = Server::in_memory();
    for queue in ["a", "b", "c"] {
        server.create(queue, &json!({}));
    }
    let first = server.get("/v1/queues?max=2").is(200);
    assert_eq!(first["next"], "b");
    let second = server.get("/v1/queues?max=2&after=b").is(200);
    assert_eq!(second["queues"][0]["queue"], "c");
    assert_eq!(second["next"], json!(null));
    for wrong in ["max=0", "max=1001", "max=x", "more=1"] {
        assert_eq!(server.get(&format!("/v1/queues?{wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn a_name_with_a_slash_and_other_letters_is_one_name() {
    let server = Server::in_memory();
    let made = server.ask("PUT", "/v1/queues/shop%2For%20d%C3%A9rs", &json!({})).is(201);
    assert_eq!(made["queue"], "shop/or dérs");
    server.get("/v1/queues/shop%2For%20d%C3%A9rs").is(200);
    server.get("/v1/queues/a%00b").problem(400, "invalid-name");
    server.get("/v1/queues/%ff").problem(400, "bad-request");
    server.get(&format!("/v1/queues/{}", "x".repeat(261))).problem(400, "invalid-name");
}

#[test]
fn a_purge_counts_what_it_removed_and_stats_count_everything() {
    let server = Server::in_memory();
    server.create("orders", &json!({}));
    let batch = json!({ "messages": [{ "text": "a" }, { "text": "b" }, { "text": "c" }] });
    server.post("/v1/queues/orders/messages/batch", &batch).is(201);
    let stats = server.get("/v1/stats").is(200);
    assert_eq!((&stats["queues"], &stats["counts"]["ready"]), (&json!(1), &json!(3)));
    let purged = server.post("/v1/queues/orders/purge", &json!({ "max": 2 })).is(200);
    assert_eq!(purged, json!({ "count": 2, "more": true }));
    let purged = server.post("/v1/queues/orders/purge", &json!({})).is(200);
    assert_eq!(purged, json!({ "count": 1, "more": false }));
    assert_eq!(server.get("/v1/queues/orders").is(200)["totals"]["purged"], 3);
}

#[test]
fn a_queue_that_fails_pauses_itself_and_is_let_go_on() {
    let server = Server::in_memory();
    let failures = json!({
        "retry": { "first_ms": 3_600_000, "max_ms": 3_600_000, "jitter_percent": 10 },
        "crashes_max": 2,
        "outage": { "failures": 2, "pause_ms_min": 600_000, "pause_ms_max": 600_000 },
    });
    server.create("orders", &json!({ "failures": failures }));
    let shown = server.get("/v1/queues/orders").is(200);
    assert_eq!(shown["settings"]["failures"], failures);
    let none = json!({ "outage": null });
    assert_eq!(server.get("/v1/queues/orders/outage").is(200), none);
    for body in ["a", "b", "c"] {
        server.post("/v1/queues/orders/messages", &json!({ "text": body })).is(201);
    }
    for _ in 0..2 {
        let token = server.receive("orders")["lock_token"].clone();
        server.settle("orders", &json!({ "lock_token": token, "disposition": "abandon" }));
    }
    let outage = server.get("/v1/queues/orders/outage").is(200)["outage"].clone();
    assert_eq!((&outage["failures"], &outage["tries"]), (&json!(2), &json!(0)), "{outage}");
    assert!((1..=600_000).contains(&outage["try_in_ms"].as_u64().unwrap()), "{outage}");
    let nothing = server.post("/v1/queues/orders/receive", &json!({})).is(200);
    assert_eq!(nothing["messages"], json!([]));
    let ended = server.delete("/v1/queues/orders/outage").is(200)["outage"].clone();
    assert_eq!(ended["since"], outage["since"]);
    assert_eq!(server.get("/v1/queues/orders/outage").is(200), none);
    // What was one failure too many is not counted, and so not kept away.
    assert_eq!(server.receive("orders")["text"], "b");
    let change = json!({ "failures": { "retry": null } });
    let changed = server.ask("PATCH", "/v1/queues/orders", &change).is(200);
    let failures = &changed["settings"]["failures"];
    assert_eq!((&failures["retry"], &failures["crashes_max"]), (&json!(null), &json!(2)));
    let wrong = json!({ "failures": { "outage": { "failures": 1, "pause_ms_min": 1, "pause_ms_max": 1 } } });
    server.ask("PATCH", "/v1/queues/orders", &wrong).problem(400, "invalid-value");
    server.get("/v1/queues/nowhere/outage").problem(404, "queue-not-found");
}
