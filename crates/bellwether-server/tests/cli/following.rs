//! Commands that go on until they are told to stop.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::served::{Door, Served};
use super::store::{Ran, Store, ended};

#[test]
fn a_follower_gives_back_what_it_holds_and_another_process_hears_why_it_must_wait() {
    let store = Store::with("orders");
    store.feed(&["send", "orders"], b"1\n2\n");
    let mut follower = store.command(&["receive", "orders", "--follow"]).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "1\n", "it is at work, and has the store open");

    store.fails(&["queue", "list"], 75, "another process has it open (pid ");
    store.fails(&["queue", "list"], 75, "reach it with --server ADDRESS");

    kill_process(Pid::from_child(&follower), Signal::INT).unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let ended = follower.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
    let counts = store.json(&["queue", "show", "orders"])["counts"].clone();
    assert_eq!(counts["locked"], 0, "nothing is left in its hands");
    let left = counts["ready"].as_u64().unwrap();
    assert_eq!(left + rest.lines().count() as u64, 1, "written or given back");
}

#[test]
fn a_reader_that_goes_loses_nothing() {
    let store = Store::with("orders");
    let lines = format!("{}\n", "x".repeat(4000)).repeat(200);
    store.feed(&["send", "orders"], lines.as_bytes());
    let mut receiver =
        store.command(&["receive", "orders", "-n", "200"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(receiver.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    drop(out);
    let ended = receiver.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
    let queue = store.json(&["queue", "show", "orders"]);
    assert_eq!(queue["counts"]["locked"], 0, "what was not written is given back");
    let left = queue["counts"]["ready"].as_u64().unwrap();
    assert!(left > 0, "a pipe does not hold two hundred of them");
    assert_eq!(left + queue["totals"]["completed"].as_u64().unwrap(), 200);
    let peeked = store.json_lines(&["peek", "orders", "--limit", "200"]);
    assert!(peeked.iter().all(|m| m["deliveries"] == 0), "and does not count");
}

#[test]
fn a_follower_of_one_session_waits_for_what_comes() {
    let store = Store::none();
    store.ok(&["queue", "create", "mail", "--create", "--sessions"]);
    store.ok(&["send", "mail", "one", "--session", "a"]);
    let args = ["receive", "mail", "--session", "a", "--follow"];
    let mut follower = store.command(&args).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(follower.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "one\n");
    kill_process(Pid::from_child(&follower), Signal::TERM).unwrap();
    let ended = follower.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
    assert_eq!(store.json(&["queue", "show", "mail"])["totals"]["completed"], 1);
    store.fails(&["session", "show", "mail", "a"], 66, "has no session \"a\"");
}

/// Runs it with an input that does not end, and stops it when `count` messages are in `queue`.
fn interrupted(server: &Served, args: &[&str], input: &str, queue: &str, count: u64) -> Ran {
    let mut child = server.command(args).stdin(Stdio::piped()).spawn().unwrap();
    let mut open = child.stdin.take().unwrap();
    open.write_all(input.as_bytes()).unwrap();
    let is_there = || {
        let shown = server.run(&["queue", "show", queue, "--output", "json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
        shown["totals"]["sent"].as_u64() == Some(count)
    };
    while !is_there() {}
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = ended(child);
    drop(open);
    ran
}

#[test]
fn a_sender_that_is_stopped_says_where_to_go_on() {
    let server = Served::start(Door::Socket);
    server.ok(&["queue", "create", "orders"]);
    let send = ["send", "orders", "--batch", "2"];
    let ran = interrupted(&server, &send, "1\n2\n3\n4\n5\n", "orders", 4);
    let wanted = "stopped; the first 4 lines were sent and acknowledged, line 5 is the next\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (130, ""));
    assert_eq!(ran.stderr, format!("bellwether: {wanted}"));
    assert_eq!(server.json(&["queue", "show", "orders"])["totals"]["sent"], 4);
    server.stop();
}

#[test]
fn an_import_that_is_stopped_says_where_to_go_on() {
    let from = Store::with("a");
    from.ok(&["queue", "create", "b"]);
    for queue in ["a", "b"] {
        from.feed(&["send", queue], b"1\n2\n");
    }
    let export = from.ok(&["export"]);
    // Messages of one queue go in when those of another begin.
    let lines: Vec<&str> = export.lines().collect();
    let of_b = "{\"message\":{";
    let (at, _) = lines
        .iter()
        .enumerate()
        .find(|(_, line)| line.starts_with(of_b) && line.contains("\"queue\":\"b\""))
        .unwrap();
    let server = Served::start(Door::Socket);
    let begun = format!("{}\n", lines[..=at].join("\n"));
    let ran = interrupted(&server, &["import"], &begun, "a", 2);
    assert_eq!((ran.code, ran.stdout.as_str()), (130, ""), "{}", ran.stderr);
    let number = at + 1;
    let wanted =
        format!("everything before line {number} is imported and acknowledged, no message");
    assert!(ran.stderr.contains("2 messages imported before this"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&wanted), "{number}: {}", ran.stderr);
    server.stop();
}
