//! Exit codes, and flags that make no sense.

use rustix::process::Signal;

use super::fleet::{BEAT, Fleet, Leader};

#[test]
fn the_commands_code_is_passed_on() {
    let fleet = Fleet::start();
    for (script, wanted) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill $$", 143)] {
        let (code, _, said) = fleet.lead(&[], script).end();
        assert_eq!(code, wanted, "{script}: {said}");
    }
    std::fs::write(fleet.path("data"), "no program").unwrap();
    for (command, wanted) in [("./data", 126), ("./nothing", 127), ("no-such-command", 127)] {
        let (code, _, said) = Leader::start(fleet.command(&["lead", "x", "--", command])).end();
        assert_eq!(code, wanted, "{said}");
        assert!(said.contains(&format!("cannot run {command}: ")), "{said}");
    }
    let (code, _, said) = fleet.lead(&["--quiet"], "exit 0").end();
    assert_eq!((code, said.as_str()), (0, ""), "nothing is said");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let fleet = Fleet::start();
    for (args, wanted, why) in [
        (&["lead", "chores"][..], 64, "CMD"),
        (&["lead", "chores", "true"], 64, "true"),
        (&["lead", "--", "true"], 64, "NAME"),
        (&["lead", "chores", "--ttl", "10", "--", "true"], 64, "has no unit"),
        (&["lead", "chores", "--stall", "0s", "--", "true"], 64, "may not stall at all"),
        (&["lead", "chores", "--once", "--again", "--", "true"], 64, "--again"),
        (&["lead", "chores", "--ttl", "1ms", "--", "true"], 65, "ttl"),
        (&["lead", "chores", "--grace", "300d", "--", "true"], 64, "--grace 300d: longer than"),
        (&["lead", "", "--", "true"], 65, "name"),
        (&["lead", "chores", "--data", "/nonexistent", "--", "true"], 74, "no store"),
    ] {
        let (code, _, said) = Leader::start(fleet.command(args)).end();
        assert_eq!(code, wanted, "{args:?}: {said}");
        assert!(said.contains(why), "{args:?} says {why:?}: {said}");
    }
}

#[test]
fn a_server_that_is_not_there_is_waited_for_unless_it_is_to_be_tried_once() {
    let mut fleet = Fleet::without_server();
    let (code, _, said) = fleet.lead(&["--once"], "true").end();
    assert_eq!(code, 69, "{said}");
    let mut waiting = fleet.lead(&[], "true");
    waiting.says("cannot reach a server");
    waiting.signal(Signal::TERM);
    let (code, _, said) = waiting.end();
    assert_eq!(code, 130, "{said}");
    let mut waiting = fleet.lead(&[], "exit 4");
    waiting.says("trying again");
    fleet.serve();
    let (code, _, said) = waiting.end();
    assert_eq!(code, 4, "{said}");
}

#[test]
fn a_store_that_no_process_has_open_can_be_led_in_too() {
    let fleet = Fleet::without_server();
    let store = fleet.path("store");
    let store = store.to_str().unwrap();
    let made = fleet.command(&["queue", "create", "q", "--data", store, "--create"]).output();
    assert!(made.unwrap().status.success());
    let mut command = fleet.command(&["lead", "chores", "--data", store, "--", "true"]);
    command.env_remove("BELLWETHER_SERVER");
    let (code, _, said) = Leader::start(command).end();
    assert_eq!(code, 0, "{said}");
    let history = fleet.command(&["election", "history", "chores", "--data", store]).output();
    let history = String::from_utf8(history.unwrap().stdout).unwrap();
    assert!(history.contains("released"), "{history}");
}

/// A command that ends by itself was not shut down by anybody.
#[test]
fn why_leadership_changed_is_told_by_how_the_command_ended() {
    let fleet = Fleet::start();
    let stalls: &[&str] = &["--stall", "200ms", "--once"];
    let cases: [(&[&str], &str, &str, Option<u64>); 4] = [
        (&[], "exit 0", "its work was done", None),
        (&[], "exit 7", "its work failed with exit code 7", Some(7)),
        (&[], "kill -KILL $$", "its work failed with exit code 137", Some(137)),
        (stalls, "sleep 600", "its work made no progress", None),
    ];
    for (flags, script, told, code) in cases {
        fleet.lead(flags, script).end();
        let why = fleet.command(&["election", "why", "chores", "--last", "1"]).output().unwrap();
        let why = String::from_utf8(why.stdout).unwrap();
        assert!(
            why.contains(&format!("it stepped down because {told}; nobody")),
            "{script}: {why}"
        );
        let args = ["election", "history", "chores", "--output", "json"];
        let history = fleet.command(&args).output().unwrap();
        let history: serde_json::Value = serde_json::from_slice(&history.stdout).unwrap();
        let last = history.as_array().unwrap().last().unwrap();
        assert_eq!(last["exit_code"].as_u64(), code, "{script}: {history}");
    }
    let mut told = fleet.lead(&[], BEAT);
    told.says("leading");
    fleet.next_term(0);
    told.signal(Signal::TERM);
    told.end();
    let why = fleet.command(&["election", "why", "chores", "--last", "1"]).output().unwrap();
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("because its process was shut down"), "{why}");
}
