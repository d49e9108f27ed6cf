//! Sessions, over HTTP.

use serde_json::json;

use crate::server::Server;

#[test]
fn a_session_is_accepted_worked_on_and_closed() {
    let server = Server::in_memory();
    server.create("orders", &json!({ "sessions": true }));
    let path = "/v1/queues/orders";
    server
        .post(&format!("{path}/messages"), &json!({ "text": "no session" }))
        .problem(409, "session-required");
    for text in ["first", "second"] {
        let message = json!({ "text": text, "session": "alice" });
        server.post(&format!("{path}/messages"), &message).is(201);
    }
    assert_eq!(server.get(&format!("{path}/sessions")).is(200)["sessions"], json!(["alice"]));
    server.post(&format!("{path}/receive"), &json!({})).problem(409, "session-required");
    let held = server.post(&format!("{path}/sessions/accept"), &json!({})).is(200);
    assert_eq!(held["session"], "alice");
    let nothing = server.post(&format!("{path}/sessions/accept"), &json!({}));
    assert_eq!(nothing.status, 204, "no other session is free");
    server
        .post(&format!("{path}/sessions/accept"), &json!({ "session": "alice" }))
        .problem(409, "session-locked");

    let hold = json!({ "session": "alice", "token": held["token"] });
    let received = server.post(&format!("{path}/receive"), &json!({ "session": hold })).is(200);
    assert_eq!(received["messages"][0]["text"], "first");
    assert_eq!(received["messages"][0]["session"], "alice");

    let token = held["token"].as_str().unwrap();
    let state = format!("{path}/sessions/alice/state?token={token}");
    assert_eq!(server.get(&state).status, 204);
    assert_eq!(server.send("PUT", &state, &[], b"\x00half way").status, 204);
    assert_eq!(server.get(&state).bytes, b"\x00half way");
    assert_eq!(server.delete(&state).status, 204);
    assert_eq!(server.get(&state).status, 204);
    let renew = format!("{path}/sessions/alice/renew?token={token}");
    assert_eq!(server.post(&renew, &json!({})).is(200)["lock_ms"], 60_000);
    let close = format!("{path}/sessions/alice?token={token}");
    assert_eq!(server.delete(&close).status, 204);
    server.delete(&close).problem(410, "session-lost");
    let again = json!({ "session": "alice" });
    let held = server.post(&format!("{path}/sessions/accept"), &again).is(200);
    let hold = json!({ "session": "alice", "token": held["token"] });
    let received = server.post(&format!("{path}/receive"), &json!({ "session": hold })).is(200);
    assert_eq!(received["messages"][0]["deliveries"], 1, "a closed session counts nothing");
}
