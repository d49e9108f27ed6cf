//! Leases and elections.

use serde_json::json;

use super::store::Store;

#[test]
fn a_lease_is_taken_kept_and_given_back() {
    let store = Store::with("orders");
    let acquire = ["lease", "acquire", "backup", "--ttl", "10m", "--metadata", "db-1"];
    let granted = store.json(&acquire);
    let (id, term) = (granted["id"].as_str().unwrap(), granted["term"].as_u64().unwrap());
    assert_eq!((id.len(), &granted["ttl_ms"]), (32, &json!(600_000)));
    store.fails(&acquire, 75, "lease \"backup\" is held by another holder under term");
    let renewed = store.json(&["lease", "renew", "backup", "--id", id]);
    assert_eq!(renewed["term"], term, "the same term");
    let info = store.json(&["lease", "show", "backup"]);
    assert_eq!((&info["state"], &info["metadata"]), (&json!("leased"), &json!("db-1")));
    assert_eq!((&info["kind"], &info["id"]), (&json!("standing"), &json!(id)));
    let other = "00000000000000000000000000000001";
    store.fails(&["lease", "release", "backup", "--id", other], 65, "the id shown is not the one");
    store.fails(&["lease", "release", "backup", "--id", "x"], 64, "an id has 32 hex digits");
    assert_eq!(
        store.ok(&["lease", "release", "backup", "--id", id]),
        "lease \"backup\" is given back\n"
    );
    let next = store.json(&["lease", "acquire", "backup", "--ttl", "forever"]);
    assert!(next["term"].as_u64().unwrap() > term, "terms only grow");
    assert_eq!(next["ttl_ms"], json!(null), "for ever");
    let names: Vec<_> = store
        .json(&["lease", "list"])
        .as_array()
        .unwrap()
        .iter()
        .map(|l| l["name"].clone())
        .collect();
    assert_eq!(names, ["backup"]);
}

#[test]
fn a_break_is_asked_about_and_ends_the_lease() {
    let store = Store::with("orders");
    store.ok(&["lease", "acquire", "backup", "--ttl", "forever"]);
    store.fails(&["lease", "break", "backup"], 64, "without telling it?");
    assert_eq!(store.ok(&["lease", "break", "backup", "--yes"]), "lease \"backup\" is broken\n");
    assert_eq!(store.json(&["lease", "show", "backup"])["state"], "broken");
    store.fails(&["lease", "break", "bakcup", "--yes"], 66, "did you mean \"backup\"?");
    store.fails(&["lease", "acquire", "x", "--ttl", "30"], 64, "\"30\" has no unit");
    store.fails(&["lease", "acquire", "x", "--ttl", "1ms"], 65, "ttl_ms");
}

#[test]
fn an_election_shows_who_led_and_who_leads() {
    let store = Store::none();
    let mut member = String::new();
    store.inside(async |bw| {
        let election = bw.election("chores").unwrap().metadata("worker 1");
        for _ in 0..2 {
            election.contend().await.unwrap().release().await.unwrap();
        }
        bw.lease("backup").unwrap().acquire(bellwether::Ttl::Infinite).await.unwrap();
        member = bw.member().to_string();
    });
    let history = store.json(&["election", "history", "chores"]);
    let history = history.as_array().unwrap();
    assert_eq!(history.len(), 2);
    for term in history {
        assert_eq!((&term["member"], &term["metadata"]), (&json!(member), &json!("worker 1")));
        assert_eq!((&term["kind"], &term["left_as"]), (&json!("bound"), &json!("released")));
    }
    assert!(history[0]["term"].as_u64() < history[1]["term"].as_u64());
    store.fails(&["election", "history", "choers"], 66, "no term of \"choers\"");

    let list = store.json(&["election", "list"]);
    let names: Vec<_> = list.as_array().unwrap().iter().map(|e| &e["name"]).collect();
    assert_eq!(names, ["chores"], "a lease that stands by itself is no election");
    let shown = store.json(&["election", "show", "chores"]);
    assert_eq!((&shown["state"], &shown["holder"]), (&json!("available"), &json!(null)));
    store.fails(&["election", "step-down", "chores"], 66, "is held by nobody");
    let watched = store.json(&["election", "watch", "chores", "--count", "1"]);
    assert_eq!(watched["election"]["name"], "chores");
    let members = store.json(&["member", "list"]);
    assert_eq!(members.as_array().unwrap().len(), 1, "the command itself");
}
