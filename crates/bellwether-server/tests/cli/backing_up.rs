//! Backup and restore, from a folder and from a server that goes on.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::served::{Door, Served};
use super::store::{Ran, Store, ended, program};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A folder for backups; nothing in it is a store.
fn shelf() -> Store {
    let shelf = Store::none();
    std::fs::create_dir(shelf.path()).unwrap();
    shelf
}

fn restore(args: &[&str]) -> Ran {
    let mut command = program();
    command.arg("restore").args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    ended(command.spawn().unwrap())
}

/// The same from a pipe.
fn restore_piped(backup: &[u8], args: &[&str]) -> Ran {
    let mut command = program();
    command.args(["restore", "-"]).args(args).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(backup).unwrap();
    ended(child)
}

fn restored(backup: &Path) -> Store {
    let copy = Store::none();
    let ran = restore(&[text(backup), "--data", copy.path().to_str().unwrap()]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    assert!(ran.stdout.starts_with("restored into "), "{}", ran.stdout);
    copy
}

/// What an export says, but for when it was made.
fn export(store: &Store) -> Vec<Value> {
    let lines = store.json_lines(&["export"]);
    lines.into_iter().filter(|line| line.get("export").is_none()).collect()
}

#[test]
fn a_folder_there_and_back() {
    let store = Store::with("orders");
    store.feed(&["send", "orders"], b"a coffee\na tea\n");
    store.ok(&["queue", "create", "mail", "--sessions"]);
    store.ok(&["lease", "acquire", "nightly", "--ttl", "forever"]);
    let shelf = shelf();
    let file = shelf.path().join("store.backup");
    let said = store.json(&["backup", text(&file)]);
    assert_eq!(said["bytes"], std::fs::metadata(&file).unwrap().len(), "{said}");
    assert!(said["taken_at"].is_string() && said["frame"].is_u64(), "{said}");
    assert_eq!(std::fs::read_dir(shelf.path()).unwrap().count(), 1, "nothing unfinished is left");

    let checked = restore(&[text(&file), "--check"]);
    assert!(checked.stdout.contains("2 queues, 2 messages and 1 lease"), "{}", checked.stdout);
    let copy = restored(&file);
    assert_eq!(export(&store), export(&copy));
    let before = store.json(&["lease", "show", "nightly"])["term"].as_u64().unwrap();
    let after = copy.json(&["lease", "show", "nightly"])["term"].as_u64().unwrap();
    assert!(after > before + (1 << 20), "{before} {after}");
}

#[test]
fn nothing_is_written_over_without_a_word() {
    let store = Store::with("orders");
    let shelf = shelf();
    let file = shelf.path().join("store.backup");
    std::fs::write(&file, "precious").unwrap();
    store.fails(
        &["backup", text(&file)],
        64,
        "is there already; name another file, or add --force",
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    store.ok(&["backup", text(&file), "--force"]);
    let ran = restore(&[text(&file), "--data", store.path().to_str().unwrap()]);
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert!(ran.stderr.contains("holds a store, which a restore does not touch"), "{}", ran.stderr);
    store.ok(&["queue", "show", "orders"]);
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let store = Store::with("orders");
    let shelf = shelf();
    store.fails(&["backup", text(shelf.path()), "--force"], 64, "no file, so nothing is put");
    assert!(shelf.path().is_dir());
}

#[test]
fn what_is_kept_is_for_its_user_alone() {
    let store = Store::with("orders");
    let shelf = shelf();
    let file = shelf.path().join("store.backup");
    store.ok(&["backup", text(&file)]);
    let copy = restored(&file);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(store.path()), mode(&file), mode(copy.path())), (0o700, 0o600, 0o700));
}

#[test]
fn a_backup_is_restored_from_a_pipe() {
    let store = Store::with("orders");
    store.feed(&["send", "orders"], b"a coffee\na tea\n");
    let piped = store.command(&["backup", "-"]).spawn().unwrap().wait_with_output().unwrap();
    let checked = restore_piped(&piped.stdout, &["--check"]);
    assert!(checked.stdout.starts_with("the input is sound: 1 queue, 2 messages"), "{checked:?}");
    // In a folder of its own, to see what is left beside the new store.
    let shelf = shelf();
    let copy = shelf.path().join("copy");
    let half = restore_piped(&piped.stdout[..piped.stdout.len() / 2], &["--data", text(&copy)]);
    assert_eq!(half.code, 65, "{half:?}");
    assert!(half.stderr.contains("the input is damaged at byte"), "{half:?}");
    let whole = restore_piped(&piped.stdout, &["--data", text(&copy)]);
    assert_eq!((whole.code, whole.stderr.as_str()), (0, ""), "{whole:?}");
    assert_eq!(std::fs::read_dir(shelf.path()).unwrap().count(), 1, "only the store");
}

#[test]
fn a_damaged_backup_is_refused_with_the_place() {
    let store = Store::with("orders");
    let shelf = shelf();
    let file = shelf.path().join("store.backup");
    store.ok(&["backup", text(&file)]);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let ran = restore(&[text(&file), "--check"]);
    assert_eq!(ran.code, 65, "{}", ran.stderr);
    assert!(ran.stderr.contains("is damaged at byte"), "{}", ran.stderr);
    let ran = restore(&[text(&shelf.path().join("none")), "--check"]);
    assert_eq!(ran.code, 66, "{}", ran.stderr);
}

#[test]
fn a_server_that_goes_on_through_both_doors_and_into_a_pipe() {
    for door in [Door::Wire, Door::Socket] {
        let kept = Store::none();
        let served = Served::start_in(door, &kept);
        served.ok(&["queue", "create", "orders"]);
        served.feed(&["send", "orders"], b"a coffee\na tea\n");
        let shelf = shelf();
        let file = shelf.path().join("store.backup");
        served.ok(&["backup", text(&file)]);
        served.feed(&["send", "orders"], b"too late\n");
        let copy = restored(&file);
        assert_eq!(copy.ok(&["peek", "orders"]).matches("a coffee").count(), 1);
        assert_eq!(copy.json(&["queue", "show", "orders"])["counts"]["ready"], 2);

        let piped = served.command(&["backup", "-"]).spawn().unwrap().wait_with_output().unwrap();
        assert!(piped.status.success() && piped.stderr.is_empty(), "{:?}", piped.stderr);
        std::fs::write(&file, piped.stdout).unwrap();
        let copy = restored(&file);
        assert_eq!(copy.json(&["queue", "show", "orders"])["counts"]["ready"], 3);
        served.stop();
    }
}

#[test]
fn a_server_that_keeps_nothing_says_so() {
    let served = Served::start(Door::Wire);
    let shelf = shelf();
    let file = shelf.path().join("store.backup");
    served.fails(&["backup", text(&file)], 65, "bellwether export");
    assert_eq!(std::fs::read_dir(shelf.path()).unwrap().count(), 0, "nothing is left");
}
