//! Schedules, over HTTP.

use serde_json::json;

use crate::server::Server;

/// K1, K4, K6: created, shown, run, paused, gone.
#[test]
fn a_schedule_is_created_and_steered() {
    let server = Server::in_memory();
    server.create("reports", &json!({}));
    let path = "/v1/schedules/nightly";
    let ask = json!({
        "rule": "0 2 * * *", "zone": "Europe/Berlin", "queue": "reports",
        "message": { "text": "make it" }, "missed": "all", "missed_max": 3,
    });
    let created = server.ask("PUT", path, &ask).is(201);
    assert_eq!(created, json!({ "schedule": "nightly", "existed": false }));
    server.ask("PUT", path, &ask).is(200);
    let shown = server.get(path).is(200);
    assert_eq!((&shown["rule"], &shown["missed_max"]), (&json!("0 2 * * *"), &json!(3)));
    assert_eq!((&shown["paused"], &shown["sent"]), (&json!(false), &json!(0)));
    assert!(shown["next_at"].as_str().unwrap().contains(":00:00.000Z"), "{shown}");
    assert_eq!(server.post(&format!("{path}/pause"), &json!({})).status, 204);
    assert_eq!(server.get(path).is(200)["paused"], true);
    assert_eq!(server.post(&format!("{path}/run"), &json!({})).status, 204);
    assert_eq!(server.receive("reports")["text"], "make it");
    assert_eq!(server.post(&format!("{path}/resume"), &json!({})).status, 204);
    let listed = server.get("/v1/schedules").is(200);
    assert_eq!((&listed["schedules"][0]["sent"], &listed["next"]), (&json!(1), &json!(null)));
    assert_eq!(server.get("/v1/schedules?after=nightly").is(200)["schedules"], json!([]));
    assert_eq!(server.delete(path).status, 204);
    server.get(path).problem(404, "schedule-not-found");
    let never = json!({ "rule": "0 0 30 2 *", "queue": "reports" });
    server.ask("PUT", path, &never).problem(400, "invalid-value");
}
