//! Dead letters: listed, chosen, sent again, removed.

use bellwether::QueueSettings;
use serde_json::json;

use super::store::Store;

/// Three dead letters of two reasons, in a queue called orders.
fn graveyard() -> Store {
    let store = Store::with("orders");
    for (body, tenant, reason) in
        [("1", "acme", "Bad"), ("2", "acme", "Worse"), ("3", "other", "Bad")]
    {
        let property = format!("tenant={tenant}");
        store.ok(&["send", "orders", body, "--property", &property]);
        store.ok(&["receive", "orders", "--dead-letter", "--reason", reason]);
    }
    store
}

fn bodies(store: &Store, args: &[&str]) -> Vec<String> {
    let lines = store.json_lines(&[&["dead-letter", "list", "orders"], args].concat());
    lines.iter().map(|m| m["body"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn dead_letters_are_listed_and_chosen() {
    let store = graveyard();
    assert_eq!(bodies(&store, &[]), ["1", "2", "3"]);
    assert_eq!(bodies(&store, &["--reason", "bad"]), ["1", "3"]);
    assert_eq!(bodies(&store, &["--reason", "Bad", "--property", "tenant=acme"]), ["1"]);
    assert_eq!(bodies(&store, &["--older-than", "1h"]), [""; 0]);
    assert_eq!(bodies(&store, &["--newer-than", "1h", "--limit", "2"]), ["1", "2"]);
    assert_eq!(bodies(&store, &["--property", "tenant:symbol=acme"]), [""; 0], "types matter");
    let summary = store.ok(&["dead-letter", "list", "orders", "--summary"]);
    assert_eq!(summary, "REASON  DEAD LETTERS\nBad                2\nWorse              1\n");
    let summary = store.json(&["dead-letter", "list", "orders", "--summary"]);
    assert_eq!(summary, json!({ "queue": "orders", "by_reason": { "Bad": 2, "Worse": 1 } }));
    let shown = store.json(&["dead-letter", "show", "orders", "2"]);
    assert_eq!(shown["dead_letter"], json!({ "reason": "Worse", "description": "" }));
    store.fails(&["dead-letter", "show", "orders", "9"], 66, "there is no message 9");
}

#[test]
fn a_redrive_can_be_tried_narrowed_slowed_and_sent_elsewhere() {
    let store = graveyard();
    let redrive =
        |args: &[&str]| store.json(&[&["dead-letter", "redrive", "orders"], args].concat());
    let tried = redrive(&["--reason", "Bad", "--dry-run"]);
    assert_eq!((&tried["found"], &tried["redriven"]), (&json!(2), &json!(0)));
    assert_eq!(bodies(&store, &[]).len(), 3, "nothing was done");
    assert_eq!(redrive(&["--reason", "Bad", "--rate", "1000/s"])["redriven"], 2);
    assert_eq!(store.ok(&["receive", "orders", "-n", "9"]), "1\n3\n", "in their order");
    store.ok(&["queue", "create", "again"]);
    let ran = store.ok(&["dead-letter", "redrive", "orders", "--number", "2", "--to", "again"]);
    assert_eq!(ran, "1 dead letter went to queue \"again\"\n");
    assert_eq!(store.ok(&["receive", "again"]), "2\n");
    let none = store.run(&["dead-letter", "redrive", "orders"]);
    assert_eq!((none.code, none.stdout.as_str()), (1, "0 dead letters went to queue \"orders\"\n"));
    let wrong = ["dead-letter", "redrive", "orders", "--rate", "fast"];
    store.fails(&wrong, 64, "write how many a second, as in 50/s");
    store.fails(
        &["dead-letter", "redrive", "orders", "--to", "agian"],
        66,
        "did you mean \"again\"",
    );
}

#[test]
fn a_purge_removes_what_is_chosen_and_nothing_else() {
    let store = graveyard();
    store.fails(&["dead-letter", "purge", "orders"], 64, "Remove 3 dead letters");
    let purge = ["dead-letter", "purge", "orders", "--property", "tenant=acme"];
    let tried = store.json(&[&purge[..], &["--dry-run"]].concat());
    assert_eq!((&tried["found"], &tried["purged"]), (&json!(2), &json!(0)));
    assert_eq!(store.ok(&[&purge[..], &["--yes"]].concat()), "removed 2 dead letters\n");
    assert_eq!(bodies(&store, &[]), ["3"]);
    let nothing = store.run(&[&purge[..], &["--yes"]].concat());
    assert_eq!((nothing.code, nothing.stderr.as_str()), (1, ""));
}

#[test]
fn a_letter_that_somebody_has_is_left_alone() {
    let store = Store::none();
    store.inside(async |bw| {
        let queue = bw.create_queue("orders", QueueSettings::default()).await.unwrap();
        queue.send_batch(["1", "2"]).await.unwrap();
        for _ in 0..2 {
            let delivery = queue.receive().one().await.unwrap().unwrap();
            delivery.dead_letter("Bad", "").await.unwrap();
        }
        queue.dead_letters().receive().one().await.unwrap().unwrap().keep();
    });
    let purged = store.json(&["dead-letter", "purge", "orders", "--yes"]);
    assert_eq!((&purged["found"], &purged["purged"]), (&json!(1), &json!(1)));
    assert_eq!(bodies(&store, &[]), ["1"], "the locked one");
}
