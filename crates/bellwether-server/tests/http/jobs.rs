//! Jobs, over HTTP.

use serde_json::{Value, json};

use crate::server::Server;

/// J4, J8, J10: out, worked off, gathered.
#[test]
fn a_job_is_fanned_out_and_gathered() {
    let server = Server::in_memory();
    server.create("images", &json!({}));
    server.create("done", &json!({}));
    let job = json!({ "queue": "images", "gather_to": "done", "gather": { "text": "all" } });
    let created = server.ask("PUT", "/v1/jobs/small", &job).is(201);
    assert_eq!(created, json!({ "job": "small", "existed": false }));
    assert_eq!(server.get("/v1/jobs/small").is(200)["items"], Value::Null);
    server.ask("PUT", "/v1/jobs/small", &job).is(200);
    let messages = json!([{ "text": "a" }, { "text": "b", "subject": "second" }]);
    let items = "/v1/jobs/small/items";
    let sent = server.post(items, &json!({ "messages": messages })).is(200);
    assert_eq!(sent, json!({ "sent": 2 }));
    // Again, and a third one, which is the last.
    let more = json!([{ "text": "a" }, { "text": "b" }, { "text": "c" }]);
    let sent = server.post(items, &json!({ "messages": more, "items": 3 })).is(200);
    assert_eq!(sent, json!({ "sent": 1 }));
    for result in [json!({ "text": "one" }), json!({ "base64": "/w==" }), json!({})] {
        let received = server.post("/v1/queues/images/receive", &json!({})).is(200);
        let mut complete = result;
        complete["lock_token"] = received["messages"][0]["lock_token"].clone();
        let path = "/v1/queues/images/complete";
        assert_eq!(server.post(path, &complete).is(200), json!({ "taken": true }));
        server.post(path, &complete).problem(410, "lock-lost");
    }
    let ended = server.get("/v1/jobs/small?wait_ms=60000").is(200);
    assert_eq!((&ended["ended"], &ended["done"]), (&json!("completed"), &json!(3)));
    assert_eq!(ended["gathered"], true);
    let found = server.get(items).is(200);
    assert_eq!(found["items"][0], json!({ "index": 0, "state": "done", "text": "one" }));
    assert_eq!(found["items"][1], json!({ "index": 1, "state": "done", "base64": "/w==" }));
    assert_eq!(found["items"][2], json!({ "index": 2, "state": "done" }));
    let last = server.get(&format!("{items}?from=3")).is(200);
    assert_eq!(last, json!({ "items": [], "next": null }));
    let gather = server.post("/v1/queues/done/receive", &json!({})).is(200);
    assert_eq!(gather["messages"][0]["text"], "all");
    assert_eq!(gather["messages"][0]["correlation_id"], "small");
    assert_eq!(server.get("/v1/jobs").is(200)["jobs"][0]["job"], "small");
    assert_eq!(server.delete("/v1/jobs/small").status, 204);
    server.get("/v1/jobs/small").problem(404, "job-not-found");
}

/// J11, J12, J16: a failed item is shown, and somebody decides.
#[test]
fn somebody_decides_about_a_job() {
    let server = Server::in_memory();
    server.create("images", &json!({}));
    let job = json!({ "queue": "images", "items": 1 });
    server.ask("PUT", "/v1/jobs/small", &job).is(201);
    server.post("/v1/jobs/small/items", &json!({ "messages": [{ "text": "a" }] })).is(200);
    server.delete("/v1/jobs/small").problem(409, "job-open");
    let received = server.post("/v1/queues/images/receive", &json!({})).is(200);
    let token = &received["messages"][0]["lock_token"];
    let dead = json!({ "lock_token": token, "disposition": "dead_letter" });
    server.post("/v1/queues/images/settle", &json!({ "settlements": [dead] })).is(200);
    let stuck = server.get("/v1/jobs/small").is(200);
    assert_eq!((&stuck["stuck"], &stuck["failed"]), (&json!(true), &json!(1)));
    let failed = server.get("/v1/jobs/small/items?state=failed").is(200);
    assert_eq!(failed["items"][0]["failure"], "dead_lettered");
    assert_eq!(failed["items"][0]["message"]["dead_letter"], true);
    let ended = server.post("/v1/jobs/small/end", &json!({ "how": "accept_gaps" })).is(200);
    assert_eq!(ended["ended"], "gaps");
    let cancel = server.post("/v1/jobs/small/end", &json!({ "how": "cancel" }));
    cancel.problem(409, "job-ended");
    let nowhere = json!({ "queue": "nowhere" });
    server.ask("PUT", "/v1/jobs/other", &nowhere).problem(404, "queue-not-found");
}
