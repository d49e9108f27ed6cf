//! Leases, elections and members, over HTTP.

use serde_json::{Value, json};

use crate::server::Server;

const ID: &str = "0000000000000000000000000000000a";
const OTHER: &str = "0000000000000000000000000000000b";

fn term(answer: &Value) -> u64 {
    answer["term"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_lease_is_acquired_renewed_changed_and_released() {
    let server = Server::in_memory();
    server.get("/v1/leases/leader").problem(404, "lease-not-found");
    let ask = json!({ "id": ID, "ttl_ms": 30_000, "metadata": "host a" });
    let granted = server.post("/v1/leases/leader/acquire", &ask).is(200);
    assert_eq!((&granted["ttl_ms"], &granted["trust_ms"]), (&json!(30_000), &json!(24_000)));
    let again = server.post("/v1/leases/leader/acquire", &ask).is(200);
    assert_eq!(term(&again), term(&granted), "T5: the same ask again is the same grant");
    let held = server
        .post("/v1/leases/leader/acquire", &json!({ "id": OTHER, "ttl_ms": null }))
        .problem(409, "lease-held");
    assert_eq!((&held["lease"], &held["term"]), (&json!("leader"), &granted["term"]));
    assert_eq!(held["retry"], true);
    server.post("/v1/leases/leader/renew", &json!({ "id": ID })).is(200);
    server
        .post("/v1/leases/leader/renew", &json!({ "id": OTHER }))
        .problem(409, "lease-id-mismatch");
    let change = json!({ "id": ID, "to": OTHER });
    let changed = server.post("/v1/leases/leader/change", &change).is(200);
    assert!(term(&changed) > term(&granted), "T6: a new id is a new term");
    let shown = server.get("/v1/leases/leader").is(200);
    assert_eq!((&shown["state"], &shown["id"]), (&json!("leased"), &json!(OTHER)));
    let list = server.get("/v1/leases").is(200);
    assert_eq!(list["leases"][0]["lease"], "leader");
    assert_eq!(server.post("/v1/leases/leader/release", &json!({ "id": OTHER })).status, 204);
    assert_eq!(server.get("/v1/leases/leader").is(200)["state"], "available");
    assert_eq!(server.get("/v1/elections/leader").is(200)["leader"], json!(null));
}

#[test]
fn a_lease_without_end_is_broken() {
    let server = Server::in_memory();
    let granted = server.post("/v1/leases/leader/acquire", &json!({ "ttl_ms": null })).is(200);
    assert_eq!((&granted["ttl_ms"], &granted["trust_ms"]), (&json!(null), &json!(null)));
    let shown = server.get("/v1/leases/leader").is(200);
    assert_eq!((&shown["ttl_ms"], &shown["remaining_ms"]), (&json!(null), &json!(null)));
    let broken = server.post("/v1/leases/leader/break", &json!({ "period_ms": 0 })).is(200);
    assert_eq!(broken["remaining_ms"], 0);
    server
        .post("/v1/leases/leader/renew", &json!({ "id": granted["id"] }))
        .problem(409, "lease-broken");
}

#[test]
fn members_elect_a_leader_that_is_asked_to_step_down() {
    let server = Server::in_memory();
    let join = |name: &str| {
        let ask = json!({ "metadata": name, "ttl_ms": 60_000 });
        server.post("/v1/members", &ask).is(201)["member"].as_str().unwrap().to_owned()
    };
    let (a, b) = (join("a"), join("b"));
    let acquire = |member: &str, wait_ms: u64| {
        let ask =
            json!({ "kind": "bound", "ttl_ms": 30_000, "metadata": "me", "wait_ms": wait_ms });
        server.ask_with("POST", "/v1/leases/chores/acquire", &[("bellwether-member", member)], &ask)
    };
    let first = acquire(&a, 0).is(200);
    acquire(&b, 0).problem(409, "lease-held");
    let shown = server.get("/v1/elections/chores").is(200);
    assert_eq!(shown["leader"]["member"], a);
    assert_eq!(shown["leader"]["term"], first["term"]);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| acquire(&b, 60_000).is(200));
        while server.get("/v1/elections/chores").is(200)["waiting"] != json!([b]) {
            std::thread::yield_now();
        }
        let path = "/v1/elections/chores/step-down";
        assert_eq!(server.post(path, &json!({})).status, 202);
        let held = json!({ "held": [{ "lease": "chores", "term": first["term"] }] });
        let beat = server.post(&format!("/v1/members/{a}/heartbeat"), &held).is(200);
        assert_eq!(beat["step_down"][0]["lease"], "chores", "T29: asked, not deposed");
        assert_eq!(server.delete(&format!("/v1/members/{a}")).status, 204);
        assert!(term(&second.join().unwrap()) > term(&first), "T18: the next in line");
        assert_eq!(server.delete(&format!("/v1/members/{a}")).status, 204, "it is gone");
        server.post(&format!("/v1/members/{a}/heartbeat"), &held).problem(410, "member-gone");
    });
    let listed = server.get("/v1/members").is(200);
    let mine = listed["members"].as_array().unwrap().iter().find(|one| one["member"] == b);
    assert_eq!(mine.unwrap()["leases"][0]["lease"], "chores");
    let history = server.get("/v1/elections/chores/history").is(200);
    let led: Vec<_> = history["history"].as_array().unwrap().iter().map(|t| &t["holder"]).collect();
    assert_eq!(led, [&json!(b), &json!(a)], "the newest first");
    let left: Vec<_> =
        history["history"].as_array().unwrap().iter().map(|t| &t["left_as"]).collect();
    assert_eq!(left, ["held", "released"]);
    let ended = &history["history"][1];
    assert_eq!((&ended["ended_by"], &ended["reason"]), (&json!("goodbye"), &json!(null)));
    assert!(ended["ended_at"].as_str().unwrap() >= ended["granted_at"].as_str().unwrap());
    let newest = server.get("/v1/elections/chores/history?max=1").is(200);
    assert_eq!(newest["history"].as_array().unwrap().len(), 1);
}

#[test]
fn an_election_is_handed_over_paused_and_resumed() {
    let server = Server::in_memory();
    let join = |name: &str| {
        let ask = json!({ "metadata": name, "ttl_ms": 60_000 });
        server.post("/v1/members", &ask).is(201)["member"].as_str().unwrap().to_owned()
    };
    let (a, b, c) = (join("a"), join("b"), join("c"));
    let acquire = |member: &str, wait_ms: u64| {
        let ask = json!({
            "id": member, "kind": "bound", "ttl_ms": 30_000, "metadata": "me", "wait_ms": wait_ms,
        });
        server.ask_with("POST", "/v1/leases/chores/acquire", &[("bellwether-member", member)], &ask)
    };
    let shown = || server.get("/v1/elections/chores").is(200);
    let steer =
        |action: &str, body: &Value| server.post(&format!("/v1/elections/chores/{action}"), body);
    let leader = |query: &str| server.get(&format!("/v1/elections/chores/leader{query}"));
    leader("").problem(503, "not-leader");
    let first = acquire(&a, 0).is(200);
    let led = leader("").is(200);
    assert_eq!((&led["member"], &led["metadata"]), (&json!(a), &json!("me")));
    assert_eq!(leader(&format!("?member={a}")).is(200)["term"], led["term"]);
    leader("?metadata=me").is(200);
    leader("?metadata=you").problem(503, "not-leader");
    leader(&format!("?member={b}&metadata=me")).problem(503, "not-leader");
    leader("?member=x").problem(400, "invalid-value");
    steer("hand-over", &json!({ "to": b })).problem(409, "not-in-line");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| acquire(&b, 60_000).is(200));
        while shown()["waiting"] != json!([b]) {
            std::thread::yield_now();
        }
        let third = scope.spawn(|| acquire(&c, 60_000).is(200));
        while shown()["waiting"] != json!([b, c]) {
            std::thread::yield_now();
        }
        let listed = server.get("/v1/members").is(200);
        let waits = listed["members"].as_array().unwrap().iter().find(|one| one["member"] == c);
        let waits = waits.unwrap();
        assert_eq!((&waits["waits_for"], &waits["ttl_ms"]), (&json!(["chores"]), &json!(60_000)));
        assert!(waits["silent_ms"].as_u64().unwrap() < 60_000);
        assert_eq!(steer("hand-over", &json!({ "to": c })).status, 202);
        assert_eq!((&shown()["successor"], &shown()["waiting"]), (&json!(c), &json!([c, b])));
        let release = json!({ "id": first["id"], "reason": "asked" });
        assert_eq!(server.post("/v1/leases/chores/release", &release).status, 204);
        assert!(term(&third.join().unwrap()) > term(&first), "the one that was named");
        leader(&format!("?member={c}")).is(200);
        assert_eq!(steer("pause", &json!({ "keep_leader": true })).status, 204);
        assert_eq!(
            (&shown()["paused"], &shown()["step_down_asked"]),
            (&json!(true), &json!(false))
        );
        steer("hand-over", &json!({ "to": b })).problem(409, "lease-paused");
        assert_eq!(server.post("/v1/leases/chores/release", &json!({ "id": c })).status, 204);
        acquire(&a, 0).problem(409, "lease-paused");
        leader("").problem(503, "not-leader");
        assert_eq!(steer("resume", &json!({})).status, 204);
        second.join().unwrap();
        assert_eq!((&shown()["paused"], &shown()["leader"]["member"]), (&json!(false), &json!(b)));
    });
    let history = server.get("/v1/elections/chores/history").is(200);
    let why = |index: usize| {
        let term = &history["history"][index];
        (term["holder"].clone(), term["ended_by"].clone(), term["reason"].clone())
    };
    assert_eq!(why(0), (json!(b), json!(null), json!(null)));
    assert_eq!(why(1), (json!(c), json!("released"), json!(null)));
    assert_eq!(why(2), (json!(a), json!("released"), json!("asked")));
}

#[test]
fn nobody_speaks_for_a_member_of_another_door() {
    let server = Server::in_memory();
    let listed = server.get("/v1/members").is(200);
    let own = listed["members"][0]["member"].as_str().unwrap().to_owned();
    server.delete(&format!("/v1/members/{own}")).problem(400, "invalid-value");
    let bound = json!({ "kind": "bound", "ttl_ms": 1000 });
    server.post("/v1/leases/a/acquire", &bound).problem(400, "invalid-value");
}

#[test]
fn several_hold_a_lease_and_all_are_shown() {
    let server = Server::in_memory();
    let join = || {
        let ask = json!({ "metadata": "", "ttl_ms": 60_000 });
        server.post("/v1/members", &ask).is(201)["member"].as_str().unwrap().to_owned()
    };
    let (a, b, c) = (join(), join(), join());
    let acquire = |member: &str, slots: u32| {
        let ask = json!({
            "id": member, "kind": "bound", "ttl_ms": 30_000, "metadata": member, "slots": slots,
        });
        server.ask_with(
            "POST",
            "/v1/leases/crawlers/acquire",
            &[("bellwether-member", member)],
            &ask,
        )
    };
    let first = acquire(&a, 2).is(200);
    let second = acquire(&b, 2).is(200);
    assert!(term(&second) > term(&first));
    acquire(&c, 2).problem(409, "lease-held");
    let told = acquire(&c, 3).problem(409, "other-slots");
    let detail = told["detail"].as_str().unwrap();
    assert!(detail.contains("2 slots") && detail.contains("with 3"), "{detail}");
    let lease = server.get("/v1/leases/crawlers").is(200);
    assert_eq!((&lease["slots"], &lease["holder"]), (&json!(2), &json!(a)));
    let held = |index: usize, field: &str| lease["holders"][index][field].clone();
    assert_eq!([held(0, "holder"), held(1, "holder")], [json!(a), json!(b)]);
    assert_eq!([held(0, "term"), held(1, "term")], [first["term"].clone(), second["term"].clone()]);
    let election = server.get("/v1/elections/crawlers").is(200);
    assert_eq!(election["leaders"].as_array().unwrap().len(), 2);
    assert_eq!(election["leaders"][1]["member"], json!(b));
    for (member, status) in [(&a, 200), (&b, 200), (&c, 503)] {
        let path = format!("/v1/elections/crawlers/leader?member={member}");
        assert_eq!(server.get(&path).status, status, "{member}");
    }
    let standing = json!({ "ttl_ms": 30_000, "slots": 2 });
    server.post("/v1/leases/other/acquire", &standing).problem(400, "invalid-value");
}
