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
    assert!(members[0]["silent_ms"].as_u64().is_some() && members[0]["waits_for"] == json!([]));
}

#[test]
fn an_election_says_who_leads_and_why_that_changed() {
    let store = Store::none();
    let mut member = String::new();
    store.inside(async |bw| {
        let election = bw.election("chores").unwrap().metadata("worker 1");
        election.contend().await.unwrap().release().await.unwrap();
        let lease = bw.lease("backup").unwrap().metadata("db-1");
        let ttl = std::time::Duration::from_millis(100);
        let grant = lease.acquire(ttl).await.unwrap();
        while lease.info().await.unwrap().unwrap().term == grant.term {
            // Held by the first until its time runs out.
            let _ = lease.acquire(bellwether::Ttl::Infinite).await;
        }
        member = bw.member().to_string();
    });
    store.fails(&["election", "who", "chroes"], 66, "did you mean \"chores\"?");
    let said = store.run(&["election", "who", "chores"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, "nobody\n"));
    let who = store.json(&["election", "who", "backup"]);
    assert_eq!((&who["leads"], &who["metadata"]), (&json!(true), &json!("db-1")));

    let why = store.json(&["election", "why", "backup"]);
    let why = why.as_array().unwrap();
    assert_eq!((&why[0]["ended_by"], &why[0]["left_as"]), (&json!("ran_out"), &json!("expired")));
    assert!(why[0]["led_ms"].is_u64() && why[0]["gap_ms"].is_u64(), "{why:?}");
    assert_eq!((why.len(), &why[1]["ended_by"]), (2, &json!(null)), "it stands");
    let told = store.ok(&["election", "why", "backup"]);
    assert!(told.contains("it was not heard of in time"), "{told}");
    let told = store.ok(&["election", "why", "chores", "--last", "1"]);
    let led = format!("{member} (worker 1) led under term");
    assert!(told.contains(&led) && told.ends_with("nobody has followed\n"), "{told}");
}

#[test]
fn an_election_is_paused_and_resumed() {
    let store = Store::with("orders");
    let paused = "election \"chores\" is paused; nobody leads\n";
    assert_eq!(store.ok(&["election", "pause", "chores"]), paused, "before anybody stood for it");
    assert_eq!(store.json(&["election", "show", "chores"])["paused"], json!(true));
    assert_eq!(store.json(&["election", "list"])[0]["paused"], json!(true));
    let acquire = ["lease", "acquire", "chores", "--ttl", "10m"];
    store.fails(&acquire, 75, "lease \"chores\" is paused");
    assert_eq!(store.ok(&["election", "resume", "chores"]), "election \"chores\" is open\n");
    store.fails(&["election", "resume", "choers"], 66, "did you mean \"chores\"?");
    store.ok(&acquire);
    let to = "00000000000000000000000000000001";
    store.fails(&["election", "hand-over", "chores", "--to", to], 65, "does not wait for lease");
    store.fails(&["election", "hand-over", "chores", "--to", "x"], 64, "32 hex digits");
}

#[test]
fn what_is_asked_under_a_term_that_is_over_is_refused() {
    let store = Store::with("orders");
    let acquire = ["lease", "acquire", "backup", "--ttl", "10m"];
    let granted = store.json(&acquire);
    let fence = format!("backup/{}", granted["term"]);
    store.ok(&["send", "orders", "in time", "--fence", &fence]);
    store.ok(&["lease", "release", "backup", "--id", granted["id"].as_str().unwrap()]);
    let over = "stop the work and lead again under a new term";
    store.fails(&["send", "orders", "late", "--fence", &fence], 65, over);
    store.json(&acquire);
    let over = "was granted since; stop the work: the newer leader does it";
    for late in [
        &["send", "orders", "late"][..],
        &["receive", "orders"],
        &["queue", "create", "more"],
        &["queue", "set", "orders", "--lock", "7s"],
        &["queue", "purge", "orders", "--yes"],
        &["queue", "delete", "orders", "--yes"],
        &["dead-letter", "redrive", "orders"],
        &["dead-letter", "purge", "orders", "--yes"],
    ] {
        store.fails(&[late, &["--fence", &fence]].concat(), 65, over);
    }
    store.fails(&["send", "orders", "x", "--fence", "backup"], 64, "is not ELECTION/TERM");
    assert_eq!(store.ok(&["receive", "orders"]), "in time\n");
}
