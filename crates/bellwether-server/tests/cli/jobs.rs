//! Jobs on the command line.

use super::store::Store;

/// J6, J12, J16: started, started again, decided about, forgotten.
#[test]
fn a_job_is_started_and_goes_on_where_it_was() {
    let store = Store::with("images");
    let start = ["job", "start", "small", "--over", "images"];
    let started = store.feed(&start, b"a\nb\n");
    assert_eq!(started.stdout, "job \"small\" has 2 items, 0 done\n");
    assert_eq!(store.ok(&["receive", "images"]), "a\n");
    let again = store.feed(&start, b"a\nb\n");
    assert_eq!(again.stdout, "job \"small\" has 2 items, 1 done\n");
    store.ok(&["receive", "images", "--dead-letter", "--reason", "Bad"]);
    let failed = store.json(&["job", "items", "small", "--state", "failed"]);
    assert_eq!(failed[0]["failure"], "dead_lettered");
    assert_eq!(store.json(&["job", "list"])[0]["stuck"], true);
    store.ok(&["dead-letter", "redrive", "images"]);
    assert_eq!(store.ok(&["receive", "images"]), "b\n");
    let ended = store.json(&["job", "wait", "small"]);
    assert_eq!(ended["ended"], "completed");
    assert_eq!(store.json_lines(&["job", "results", "small"]).len(), 2);
    assert_eq!(store.ok(&["job", "results", "small"]), "\n\n", "nobody gave a result");
    store.fails(&["job", "cancel", "small"], 65, "has ended");
    store.ok(&["job", "forget", "small"]);
    store.fails(&["job", "show", "small"], 66, "there is no job");
}

/// J11, J16: a job that is cancelled says so by how it ends.
#[test]
fn a_job_that_was_cancelled_is_not_whole() {
    let store = Store::with("images");
    store.ok(&["queue", "create", "done"]);
    let start = ["job", "start", "small", "--over", "images"];
    let gather = ["--gather-in", "done", "--gather-body", "all"];
    assert_eq!(store.feed(&[&start[..], &gather].concat(), b"a\n").code, 0);
    store.fails(&["job", "forget", "small"], 65, "has not ended");
    store.ok(&["job", "cancel", "small"]);
    let waited = store.run(&["job", "wait", "small"]);
    assert_eq!(waited.code, 1, "{}", waited.stdout);
    assert!(waited.stdout.contains("cancelled"), "{}", waited.stdout);
    assert_eq!(store.ok(&["receive", "done"]), "all\n");
    assert_eq!(store.run(&["receive", "images"]).code, 1, "nobody works for nothing");
}
