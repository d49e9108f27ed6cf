//! Messages: sent, looked at, received, settled.

use serde_json::json;

use super::store::Store;

#[test]
fn a_message_is_sent_with_everything_it_can_say() {
    let store = Store::with("orders");
    let send = [
        "send",
        "orders",
        "two coffees",
        "--id",
        "o-1",
        "--subject",
        "drinks",
        "--session",
        "t4",
        "--correlation-id",
        "c",
        "--to",
        "bar",
        "--reply-to",
        "answers",
        "--reply-to-session",
        "s",
        "--content-type",
        "text/plain",
        "--property",
        "table=4",
        "--property",
        "tip:double=0.5",
        "--property",
        "urgent:boolean=true",
        "--ttl",
        "1h",
    ];
    assert_eq!(store.ok(&send), "sent message 1 to \"orders\"\n");
    let shown = store.json(&["message", "show", "orders", "1"]);
    for (name, value) in [
        ("id", json!("o-1")),
        ("subject", json!("drinks")),
        ("session", json!("t4")),
        ("correlation_id", json!("c")),
        ("to", json!("bar")),
        ("reply_to", json!("answers")),
        ("reply_to_session", json!("s")),
        ("content_type", json!("text/plain")),
        ("body", json!("two coffees")),
        ("state", json!("ready")),
        ("deliveries", json!(0)),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    let properties = &shown["properties"];
    assert_eq!((&properties["table"], &properties["urgent"]), (&json!("4"), &json!(true)));
    assert_eq!(properties["tip"], json!({ "type": "double", "value": 0.5 }));
    assert!(shown["expires_at"].is_string());
    let lines = store.ok(&["message", "show", "orders", "1"]);
    assert!(lines.contains("\nproperty          table = 4\n"), "{lines}");
    assert_eq!(store.ok(&["message", "show", "orders", "1", "--body"]), "two coffees");
}

#[test]
fn every_line_is_a_message_and_batches_are_whole() {
    let store = Store::with("orders");
    let sent =
        store.feed(&["send", "orders", "--batch", "2", "--output", "json"], b"a\n\nb c\n\xff");
    assert_eq!((sent.code, sent.stderr.as_str()), (0, ""));
    let told: serde_json::Value = serde_json::from_str(&sent.stdout).unwrap();
    assert_eq!(told, json!({ "queue": "orders", "sequences": [1, 2, 3, 4], "duplicates": 0 }));
    let bodies = store.json_lines(&["peek", "orders"]);
    let bodies: Vec<_> = bodies.iter().map(|m| (&m["body"], &m["body_base64"])).collect();
    let (none, text) = (json!(null), |text: &str| json!(text));
    let wanted = [text("a"), text(""), text("b c"), none.clone()];
    let (wanted_bytes, got): (Vec<_>, Vec<_>) = bodies.iter().map(|(t, b)| (*b, *t)).unzip();
    assert_eq!(got, wanted.iter().collect::<Vec<_>>());
    assert_eq!(wanted_bytes[3], "/w==", "what is no text is base64");
    let twice = store.feed(&["send", "orders", "--id", "x"], b"a\n");
    assert_eq!(twice.code, 64);
    assert!(twice.stderr.contains("--id names one message"), "{}", twice.stderr);
}

#[test]
fn a_message_that_expires_at_once_is_refused() {
    let store = Store::with("orders");
    store.fails(&["send", "orders", "tea", "--ttl", "0s"], 65, "ttl_ms: 0 lets a message expire");
    store.ok(&["send", "orders", "tea", "--ttl", "1ms"]);
}

#[test]
fn a_file_is_one_message() {
    let store = Store::with("orders");
    let path = store.path().join("body.bin");
    std::fs::write(&path, b"line\nline\x00\n").unwrap();
    store.ok(&["send", "orders", "--file", path.to_str().unwrap()]);
    assert_eq!(store.ok(&["message", "show", "orders", "1", "--body"]), "line\nline\0\n");
    let piped = store.feed(&["send", "orders", "--file", "-"], b"a\nb\n");
    assert_eq!(piped.stdout, "sent message 2 to \"orders\"\n");
    store.fails(&["send", "orders", "--file", "/no/such"], 66, "cannot read /no/such");
}

#[test]
fn what_was_received_was_written_first_and_is_settled_then() {
    let store = Store::with("orders");
    store.feed(&["send", "orders"], b"1\n2\n3\n4\n5\n");
    assert_eq!(store.ok(&["receive", "orders"]), "1\n", "one, and it is completed");
    assert_eq!(store.ok(&["receive", "orders", "--abandon", "-n", "2"]), "2\n3\n");
    let again = store.json_lines(&["receive", "orders", "--release", "-n", "9"]);
    let seen: Vec<_> = again.iter().map(|m| (&m["sequence"], &m["deliveries"])).collect();
    let wanted = [(2, 2), (3, 2), (4, 1), (5, 1)].map(|(n, d)| (json!(n), json!(d)));
    assert_eq!(seen, wanted.iter().map(|(n, d)| (n, d)).collect::<Vec<_>>());
    assert_eq!(again[0]["lock_token"].as_str().unwrap().len(), 32);
    assert_eq!(store.ok(&["receive", "orders", "--defer"]), "2\n");
    assert_eq!(store.ok(&["receive", "orders", "--dead-letter", "--reason", "Bad"]), "3\n");
    assert_eq!(store.ok(&["receive", "orders", "--number", "2"]), "2\n", "by its number");
    store.fails(&["receive", "orders", "--number", "2"], 66, "there is no message 2");
    assert_eq!(store.ok(&["receive", "orders", "--dead-letters"]), "3\n");
    assert_eq!(store.ok(&["receive", "orders", "-n", "9"]), "4\n5\n");
    store.fails(&["receive", "orders"], 1, "no message came");
    let counts = &store.json(&["queue", "show", "orders"])["counts"];
    assert_eq!((&counts["ready"], &counts["dead_letters"]), (&json!(0), &json!(0)));
    assert_eq!(store.json(&["queue", "show", "orders"])["totals"]["completed"], 5);
}

#[test]
fn sessions_are_received_one_after_the_other() {
    let store = Store::none();
    store.ok(&["queue", "create", "mail", "--create", "--sessions"]);
    for (body, session) in [("a1", "a"), ("b1", "b"), ("a2", "a")] {
        store.ok(&["send", "mail", body, "--session", session]);
    }
    store.fails(&["send", "mail", "x"], 65, "name a session when sending");
    let list = store.ok(&["session", "list", "mail"]);
    assert_eq!(
        list,
        "SESSION  MESSAGES  HELD BY  FOR  STATE\na               2\nb               1\n"
    );
    let shown = store.json(&["session", "show", "mail", "a"]);
    assert_eq!((&shown["messages"], &shown["held_by"]), (&json!(2), &json!(null)));
    store.fails(&["session", "show", "mail", "c"], 66, "queue \"mail\" has no session \"c\"");
    assert_eq!(store.ok(&["receive", "mail", "--session", "b", "-n", "5"]), "b1\n");
    assert_eq!(store.ok(&["receive", "mail", "-n", "5"]), "a1\na2\n");
    store.ok(&["queue", "create", "plain"]);
    store.fails(&["session", "list", "plain"], 65, "created without sessions");
    store.fails(&["receive", "plain", "--session", "a"], 65, "created without sessions");
}

#[test]
fn peeking_shows_every_state_and_changes_nothing() {
    let store = Store::with("orders");
    store.feed(&["send", "orders"], b"1\n2\n");
    store.ok(&["send", "orders", "later", "--at", "2999-12-31T23:00:00+01:00"]);
    store.ok(&["receive", "orders", "--defer"]);
    let states: Vec<_> =
        store.json_lines(&["peek", "orders"]).iter().map(|m| m["state"].clone()).collect();
    assert_eq!(states, ["deferred", "ready", "scheduled"]);
    let later = store.json(&["peek", "orders", "--state", "scheduled"]);
    assert_eq!(later["due"], "2999-12-31T22:00:00.000Z");
    assert_eq!(store.json(&["peek", "orders", "--from", "2", "--limit", "1"])["sequence"], 2);
    let table = store.ok(&["peek", "orders", "--state", "ready"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("NUMBER  STATE  ENQUEUED"), "{table}");
    assert!(lines[1].starts_with("     2  ready  2"), "{table}");
}

#[test]
fn what_a_sender_wrote_does_nothing_to_a_terminal() {
    let store = Store::with("orders");
    store.ok(&["send", "orders", "\x1b[2Jgone", "--id", "a\nb"]);
    let table = store.ok(&["peek", "orders"]);
    assert!(table.contains("\\u{1b}[2Jgone") && table.contains("a\\nb"), "{table}");
    assert!(!store.ok(&["message", "show", "orders", "1"]).contains('\x1b'));
}

#[test]
fn a_request_is_asked_once_and_says_what_became_of_it() {
    let store = Store::with("sums");
    let ask = ["request", "send", "sums", "6 times 7", "--id", "r1"];
    assert_eq!(store.ok(&ask), "asked \"r1\" of \"sums\"\n");
    assert_eq!(store.ok(&ask), "asked \"r1\" of \"sums\"\n");
    assert_eq!(store.json(&["queue", "show", "sums"])["counts"]["ready"], 1, "asked once");
    let shown = store.json(&["request", "show", "sums", "r1"]);
    assert_eq!((&shown["state"], &shown["answer"]), (&json!("pending"), &json!(null)));
    store.ok(&["queue", "purge", "sums", "--yes"]);
    assert!(store.ok(&["request", "show", "sums", "r1", "--wait", "10s"]).contains("gone"));
    store.fails(&["request", "show", "sums", "r2"], 66, "no result is kept");
}
