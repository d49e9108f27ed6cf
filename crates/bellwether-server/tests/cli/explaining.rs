//! Why is it not being delivered?

use std::time::Duration;

use bellwether::{Message, QueueSettings};
use serde_json::{Value, json};

use super::store::Store;

fn causes(told: &Value) -> Vec<&str> {
    told["causes"].as_array().unwrap().iter().map(|c| c["cause"].as_str().unwrap()).collect()
}

#[test]
fn a_message_says_what_keeps_it() {
    let store = Store::with("orders");
    store.feed(&["send", "orders"], b"1\n2\n3\n4\n");
    store.ok(&["send", "orders", "5", "--at", "2999-01-01T00:00:00Z"]);
    let first = store.ok(&["message", "explain", "orders", "1"]);
    assert_eq!(first, "message 1 is ready: the next receive gets it\n");
    let third = store.json(&["message", "explain", "orders", "3"]);
    assert_eq!(third["sentence"], "message 3 is ready, with 2 messages before it");
    assert_eq!((&third["deliverable"], causes(&third)), (&json!(false), vec!["behind"]));
    let fifth = store.json(&["message", "explain", "orders", "5"]);
    assert_eq!(
        fifth["causes"][0],
        json!({ "cause": "scheduled", "due": "2999-01-01T00:00:00.000Z" })
    );

    store.ok(&["receive", "orders", "--defer"]);
    assert_eq!(causes(&store.json(&["message", "explain", "orders", "1"])), ["deferred"]);
    store.ok(&[
        "receive",
        "orders",
        "--dead-letter",
        "--reason",
        "Bad",
        "--description",
        "no name",
    ]);
    let dead = store.json(&["message", "explain", "orders", "2"]);
    let cause = json!({ "cause": "dead-letter", "reason": "Bad", "description": "no name" });
    assert_eq!((&dead["dead_letter"], &dead["causes"]), (&json!(true), &json!([cause])));
    store.ok(&["queue", "pause", "orders"]);
    let paused = store.ok(&["message", "explain", "orders", "4"]);
    assert_eq!(
        paused,
        "message 4 is in a paused queue; `bellwether queue resume` lets it go on; also, it is \
         ready, with 1 message before it\n"
    );
    store.fails(&["message", "explain", "orders", "99"], 66, "there is no message 99");
    store.fails(&["message", "explain", "order", "1"], 66, "did you mean \"orders\"?");
}

#[test]
fn a_locked_message_says_who_has_it_and_until_when() {
    let store = Store::with("orders");
    let mut member = String::new();
    store.inside(async |bw| {
        let queue = bw.queue("orders").unwrap();
        queue.send("one").await.unwrap();
        queue.receive().one().await.unwrap().unwrap().keep();
        member = bw.member().to_string();
    });
    let told = store.json(&["message", "explain", "orders", "1"]);
    let cause = &told["causes"][0];
    assert_eq!((&cause["cause"], &cause["member"]), (&json!("locked"), &json!(member)));
    let left = cause["remaining_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&left), "{left}");
    assert!(cause["until"].as_str().unwrap().ends_with('Z'));
    let sentence = told["sentence"].as_str().unwrap();
    let begins = format!("message 1 is locked by member {member}, which has left until 2");
    assert!(sentence.starts_with(&begins), "{sentence}");
}

#[test]
fn a_message_of_a_session_waits_for_its_holder() {
    let store = Store::none();
    let mut member = String::new();
    store.inside(async |bw| {
        let sessions = QueueSettings { sessions: true, ..QueueSettings::default() };
        let queue = bw.create_queue("mail", sessions).await.unwrap();
        for body in ["one", "two"] {
            queue.send(Message::new(body).session("a")).await.unwrap();
        }
        let session = queue.accept_session().named("a").await.unwrap();
        let first = session.receive().one().await.unwrap().unwrap();
        first.abandon_after(Duration::from_secs(3600)).await.unwrap();
        member = bw.member().to_string();
        // As if the process had died: the hold goes on.
        std::mem::forget(session);
    });
    let told = store.json(&["message", "explain", "mail", "2"]);
    assert_eq!(causes(&told), ["session-held", "session-waits"]);
    assert_eq!(told["causes"][0]["member"], json!(member));
    assert_eq!(told["causes"][1]["sequence"], 1);
    let first = store.json(&["message", "explain", "mail", "1"]);
    assert_eq!(causes(&first), ["delayed"]);
    let held = store.json(&["session", "show", "mail", "a"]);
    assert_eq!(held["held_by"]["member"], json!(member));
}
