//! Queues: made, shown, changed, paused, emptied, deleted.

use serde_json::json;

use super::store::Store;

#[test]
fn a_queue_lives_from_create_to_delete() {
    let store = Store::none();
    let made = store.ok(&["queue", "create", "orders", "--create", "--lock", "2m30s"]);
    assert_eq!(made, "queue \"orders\" created\n");
    assert_eq!(store.ok(&["queue", "create", "Orders"]), "queue \"Orders\" was there before\n");
    let as_it_is = ["queue", "create", "orders", "--lock", "150s"];
    assert!(store.ok(&as_it_is).ends_with("was there before\n"), "that is its lock");
    for other in [&["--lock", "2m"][..], &["--sessions"], &["--duplicate-window", "10m"]] {
        let other = [&["queue", "create", "orders"], other].concat();
        let told = store.json(&other);
        assert_eq!((&told["existed"], &told["as_asked"]), (&true.into(), &false.into()), "{told}");
        assert!(store.ok(&other).contains("keeps its settings"), "{other:?}");
    }
    let list = store.ok(&["queue", "list"]);
    assert_eq!(
        list,
        "NAME    STATUS  READY  LOCKED  SCHEDULED  DEFERRED  DEAD  SIZE\n\
         orders  active      0       0          0         0     0   0 B\n"
    );
    let shown = store.ok(&["queue", "show", "orders"]);
    assert!(shown.contains("\nlock                     2m30s\n"), "{shown}");
    assert_eq!(store.ok(&["queue", "delete", "orders", "-y"]), "queue \"orders\" is deleted\n");
    assert_eq!(store.json(&["queue", "list"]), json!([]));
}

#[test]
fn settings_are_set_and_unset() {
    let store = Store::with("orders");
    store.ok(&["queue", "create", "graveyard"]);
    let change = [
        "queue",
        "set",
        "orders",
        "--ttl",
        "7d",
        "--deliveries-max",
        "3",
        "--dead-letter-expired",
        "--forward-dead-letters-to",
        "graveyard",
        "--size-max",
        "10MiB",
        "--durability",
        "relaxed",
    ];
    let settings = &store.json(&change)["settings"];
    assert_eq!(settings["ttl_ms"], 7 * 24 * 3600 * 1000);
    assert_eq!(settings["deliveries_max"], 3);
    assert_eq!(settings["dead_letter_expired"], true);
    assert_eq!(settings["forward_dead_letters_to"], "graveyard");
    assert_eq!(settings["size_bytes_max"], 10 << 20);
    assert_eq!(settings["durability"], "relaxed");
    let change = ["queue", "set", "orders", "--ttl", "none", "--dead-letter-expired=false"];
    let settings = &store.json(&change)["settings"];
    assert_eq!(
        (&settings["ttl_ms"], &settings["dead_letter_expired"]),
        (&json!(null), &json!(false))
    );
    assert_eq!(settings["deliveries_max"], 3, "what is not named stays");
    store.fails(&["queue", "set", "orders"], 64, "name at least one setting");
    store.fails(
        &["queue", "set", "orders", "--deliveries-max", "0"],
        65,
        "deliveries_max: 0 is not",
    );
    let window = ["queue", "set", "orders", "--duplicate-window", "1m"];
    store.fails(&window, 65, "switched on at creation only");
}

#[test]
fn a_paused_queue_hands_nothing_out() {
    let store = Store::with("orders");
    assert_eq!(store.ok(&["queue", "pause", "orders"]), "queue \"orders\" is receive-disabled\n");
    store.ok(&["send", "orders", "one"]);
    store.fails(&["receive", "orders"], 65, "switched off by its status");
    let paused = store.json(&["queue", "pause", "orders", "--what", "both"]);
    assert_eq!(paused, json!({ "queue": "orders", "status": "disabled" }));
    store.fails(&["send", "orders", "two"], 65, "sending to queue \"orders\" is switched off");
    store.ok(&["queue", "resume", "orders"]);
    assert_eq!(store.ok(&["receive", "orders"]), "one\n");
}

#[test]
fn what_is_lost_for_good_is_asked_about() {
    let store = Store::with("orders");
    store.ok(&["send", "orders", "one"]);
    store.fails(&["queue", "purge", "orders"], 64, "Remove 1 message of queue \"orders\"?");
    store.fails(&["queue", "delete", "orders"], 64, "say --yes");
    let old = store.json(&["queue", "purge", "orders", "--before", "-1h", "--yes"]);
    assert_eq!(old["purged"], 0, "it is younger than an hour");
    assert_eq!(store.ok(&["queue", "purge", "orders", "--yes"]), "removed 1 message\n");
    assert_eq!(store.json(&["queue", "show", "orders"])["totals"]["purged"], 1);
}

#[test]
fn stats_add_everything_up() {
    let store = Store::with("orders");
    store.ok(&["queue", "create", "mail", "--sessions"]);
    store.ok(&["send", "orders", "one"]);
    store.ok(&["send", "mail", "two", "--session", "a"]);
    let stats = store.json(&["stats"]);
    assert_eq!((&stats["queues"], &stats["messages"]["ready"]), (&json!(2), &json!(2)));
    assert_eq!(stats["totals"]["sent"], 2);
    assert!(store.ok(&["stats"]).starts_with("queues         2\nready          2\n"));
    let top = store.ok(&["top", "--once"]);
    assert!(top.contains("2 queues  2 ready"), "{top}");
    assert!(top.contains("\norders      1"), "{top}");
}

#[test]
fn what_is_done_about_failures_is_set_and_shown() {
    let store = Store::with("orders");
    let change = [
        "queue",
        "set",
        "orders",
        "--retry",
        "1s..5m,30%",
        "--crashes-max",
        "5",
        "--outage",
        "4,500ms..30s",
    ];
    let failures = json!({
        "retry": { "first_ms": 1_000, "max_ms": 300_000, "jitter_percent": 30 },
        "crashes_max": 5,
        "outage": { "failures": 4, "pause_ms_min": 500, "pause_ms_max": 30_000 },
    });
    assert_eq!(store.json(&change)["settings"]["failures"], failures);
    let shown = store.ok(&["queue", "show", "orders"]);
    for line in ["retry                    1s..5m,30%\n", "outage                   4,500ms..30s\n"]
    {
        assert!(shown.contains(line), "{line:?} is not in {shown}");
    }
    assert!(shown.contains("in an outage             no\n"), "{shown}");
    let off = ["queue", "set", "orders", "--retry", "none", "--outage", "none"];
    let failures = &store.json(&off)["settings"]["failures"];
    assert_eq!((&failures["retry"], &failures["outage"]), (&json!(null), &json!(null)));
    assert_eq!(failures["crashes_max"], 5, "what is not named stays");
    store.fails(&["queue", "set", "orders", "--crashes-max", "0"], 65, "at creation only");
    let calm = ["queue", "create", "calm", "--crashes-max", "0", "--outage", "none"];
    store.ok(&calm);
    assert_eq!(store.json(&["queue", "show", "calm"])["settings"]["failures"]["crashes_max"], 0);
    assert_eq!(store.json(&calm)["as_asked"], true);
    store.fails(&["queue", "set", "orders", "--retry", "5m"], 64, "like 1s..5m");
    store.fails(&["queue", "set", "orders", "--retry", "5m..1s"], 65, "retry.max_ms: 1000 is not");
    let resumed = store.json(&["queue", "resume", "orders"]);
    assert_eq!(resumed, json!({ "queue": "orders", "status": "active", "ended_outage": false }));
}
