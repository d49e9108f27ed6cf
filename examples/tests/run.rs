//! Every example is run as a user runs it. It checks itself; here its words are looked at too.

use std::process::Command;

fn words_of(program: &str) -> String {
    let output = Command::new(program).output().expect("the example starts");
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} failed:\n{words}\n{complaints}");
    words
}

/// Five candidates, the leader cancelled twice: three terms, one after the other.
#[test]
fn leader() {
    let words = words_of(env!("CARGO_BIN_EXE_leader"));
    let terms = words.lines().filter(|line| line.contains("term")).count();
    assert!(terms >= 3, "three terms are told of:\n{words}");
}

/// Ten thousand messages, one of them poison, one of them taken by a consumer that crashed.
#[test]
fn workers() {
    let words = words_of(env!("CARGO_BIN_EXE_workers"));
    assert!(words.contains("9999 completed"), "all but the poison are completed:\n{words}");
    assert!(words.contains("1 dead letter: order 1234"), "the poison is set aside:\n{words}");
}

/// Five processes: the leader is killed, hands over, is scaled away, and no work is lost.
#[test]
fn fleet() {
    let words = words_of(env!("CARGO_BIN_EXE_fleet"));
    for reason in ["has died", "gave it back (Asked)", "gave it back (Shutdown)"] {
        assert!(words.contains(reason), "each change of leader has its reason:\n{words}");
    }
    assert!(words.contains("600 items, each done once"), "nothing is lost or doubled:\n{words}");
    assert!(words.contains("hears: term"), "the leader speaks to its members:\n{words}");
}

/// A burst a hundred times faster than a consumer: more of them come, with reasons, and go again.
#[test]
fn levelling() {
    let words = words_of(env!("CARGO_BIN_EXE_levelling"));
    assert!(words.contains("1000 sent in a burst, 1000 completed"), "nothing is lost:\n{words}");
    assert!(words.contains("8 pumps at most, 1 in the end"), "they come and go:\n{words}");
    assert!(words.contains("50 to a worker, want"), "more have their reason:\n{words}");
    assert!(words.contains("fewer have been enough for"), "and so have fewer:\n{words}");
    let chart = words.lines().filter(|line| line.contains('#')).count();
    assert!(chart >= 2, "the line of those that wait is drawn:\n{words}");
}
