//! `election chaos`: a drill tells what it saw, touches nobody else, and leaves nothing behind.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::served::{Door, Served};
use super::store::{Store, ended, run};

const DOCS: &str = include_str!("../../../../docs/cli.md");

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let watch = bellwether::Stopwatch::start();
    while !is_so() {
        assert!(watch.elapsed() < Duration::from_secs(60), "{what}: not after a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn faults(told: &Value) -> u64 {
    told["faults"].as_object().unwrap().values().map(|of| of["faults"].as_u64().unwrap()).sum()
}

/// The processes that it has started.
fn children(of: &Child) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", of.id())).unwrap().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    let all: String = lists.map_while(Result::ok).collect();
    all.split_whitespace().map(str::to_owned).collect()
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().to_owned());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

fn interrupt(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn leaders_are_killed_and_frozen_and_all_is_well() {
    for door in [Door::Wire, Door::Socket] {
        let served = Served::start(door);
        let args = ["election", "chaos", "--rounds", "5", "--ttl", "400ms", "--seed", "11"];
        let told = served.json(&args);
        assert_eq!(faults(&told), 5, "{told}");
        assert!(told["terms"].as_u64().unwrap() > 5, "one after each: {told}");
        assert_eq!(told["violations"], Value::Array(Vec::new()), "{told}");
        let never = ["overlaps", "old_writes_accepted"].map(|name| told[name].as_u64());
        assert_eq!(never, [Some(0); 2], "{told}");
        assert!(told["writes_accepted"].as_u64().unwrap() > 0, "{told}");
        assert_eq!((&told["history"], &told["seed"]), (&Value::Null, &11.into()), "{told}");
        let name = told["election"].as_str().unwrap();
        assert_eq!(name, "chaos-000000000000000b");
        assert_eq!(served.run(&["election", "who", name]).code, 1, "they gave it back");
        served.stop();
    }
}

/// What a report looks like; its figures are others every time.
#[test]
fn the_page_shows_what_it_says() {
    let served = Served::start(Door::Wire);
    let mut lines =
        DOCS.lines().skip_while(|line| !line.starts_with("$ bellwether election chaos"));
    let command = lines.next().unwrap();
    let shown: Vec<&str> = lines.take_while(|line| *line != "```").collect();
    let args: Vec<&str> = command.split(' ').skip(2).collect();
    let words = |said: &str| {
        let lines = said.lines().map(|line| {
            let words = line.split(|c: char| c.is_whitespace() || c == ',');
            let words = words.filter(|word| !word.is_empty() && !["ms", "µs"].contains(word));
            let words = words.map(|word| match word {
                _ if word.starts_with(|c: char| c.is_ascii_digit()) => "N",
                _ if word.starts_with("\"chaos-") => "NAME",
                word => word,
            });
            words.collect::<Vec<_>>().join(" ")
        });
        lines.collect::<Vec<_>>()
    };
    assert_eq!(words(&served.ok(&args)), words(&shown.join("\n")));
    served.stop();
}

#[test]
fn an_election_in_use_is_left_alone_unless_that_is_wanted() {
    let served = Served::start(Door::Wire);
    let folder = Store::none();
    fs::create_dir(folder.path()).unwrap();
    let until = format!("while [ ! -e {}/go ]; do sleep 0.05; done", folder.path().display());
    let lead = ["lead", "chores", "--ttl", "60s", "--", "sh", "-c", &until];
    let mut leader = served.command(&lead).spawn().unwrap();
    eventually("it leads", || served.run(&["election", "who", "chores"]).code == 0);
    let ran = served.run(&["election", "chaos", "chores"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (75, ""), "{ran:?}");
    assert!(ran.stderr.contains("is in use") && ran.stderr.contains("--in-use"), "{ran:?}");

    let asked = ["election", "chaos", "chores", "--in-use", "--rounds", "2", "--ttl", "400ms"];
    let drill = served.command(&[&asked[..], &["--output", "json"]].concat()).spawn().unwrap();
    let waiting = || served.json(&["election", "show", "chores"])["waiting"].clone();
    eventually("they wait", || waiting().as_array().is_some_and(|all| all.len() == 3));
    assert!(leader.try_wait().unwrap().is_none(), "the leader leads on");
    fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(leader.wait().unwrap().code(), Some(0), "it ended by itself");
    let ran = ended(drill);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(faults(&serde_json::from_str(&ran.stdout).unwrap()), 2);
    served.stop();
}

#[test]
fn candidates_show_the_credential_that_was_named() {
    let kept = Store::none();
    let store = ["--data", kept.path().to_str().unwrap()];
    let served = Served::start_of(Door::Wire, &store, &["--credentials", "required"]);
    let args = ["election", "chaos", "--rounds", "1", "--ttl", "400ms"];
    assert_eq!(served.run(&args).code, 77, "nothing was shown");
    let token = kept.path().join("root.token");
    let with = [&args[..], &["--credential-file", token.to_str().unwrap()]].concat();
    let ran = ended(served.command(&with).env("BELLWETHER_CREDENTIAL", "another").spawn().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    served.stop();
}

#[test]
fn what_is_wrong_is_told_and_kept() {
    let served = Served::start(Door::Wire);
    let folder = Store::none();
    let kept = folder.path().to_str().unwrap();
    let args = ["election", "chaos", "--rounds", "3", "--ttl", "400ms", "--keep", kept];
    let drill = served.command(&args).spawn().unwrap();
    let fenced = folder.path().join("fenced");
    eventually("somebody wrote", || fs::metadata(&fenced).is_ok_and(|file| file.len() > 0));
    // As a file does that checks no fence.
    let mut file = fs::File::options().append(true).open(&fenced).unwrap();
    file.write_all(b"1 stranger 0\n").unwrap();
    let ran = ended(drill);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("old writes accepted: 1,"), "{ran:?}");
    assert!(ran.stdout.contains("WRONG: a write of term 1 was accepted after"), "{ran:?}");
    assert!(ran.stdout.contains("WRONG: stranger wrote under term 1"), "{ran:?}");
    assert!(ran.stdout.contains(&format!("the history is in {kept}")), "{ran:?}");
    assert!(Path::new(kept).join("history.jsonl").exists());
    let again = served.run(&args);
    assert_eq!(again.code, 64, "two drills are not one: {again:?}");
    served.stop();
}

#[test]
fn whoever_stops_it_is_told_what_it_saw() {
    let served = Served::start(Door::Socket);
    let folder = Store::none();
    let kept = folder.path().to_str().unwrap();
    let args = ["election", "chaos", "--for", "1h", "--ttl", "400ms", "--keep", kept];
    let faults = |number: usize| {
        let history = fs::read_to_string(folder.path().join("history.jsonl")).unwrap_or_default();
        history.matches("\"op\":\"fault\"").count() >= number
    };
    let drill = served.command(&args).spawn().unwrap();
    // The second one is made when all is known of the first.
    eventually("two faults", || faults(2));
    interrupt(&drill, Signal::INT);
    let ran = ended(drill);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("overlaps: 0"), "{ran:?}");
    served.stop();
}

#[test]
fn nothing_of_it_is_left_when_it_is_killed() {
    let served = Served::start(Door::Wire);
    let folder = Store::none();
    let args = ["election", "chaos", "--for", "1h", "--ttl", "400ms", "--faults", "freeze"];
    let mut drill = served.command(&args);
    // Whoever is killed does not tidy up.
    let mut drill = drill.arg("--keep").arg(folder.path()).spawn().unwrap();
    let mut all = Vec::new();
    eventually("they are there", || {
        all = children(&drill);
        all.len() == 3
    });
    drill.kill().unwrap();
    drill.wait().unwrap();
    eventually("they are gone", || all.iter().all(|pid| !is_alive(pid)));
    served.stop();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let served = Served::start(Door::Wire);
    for (args, code, why) in [
        (&["--candidates", "1"][..], 64, "--candidates"),
        (&["--rounds", "3", "--for", "1s"], 64, "--for"),
        (&["--for", "0s"], 64, "no time"),
        (&["--faults", "flood"], 64, "flood"),
        (&["--in-use"], 64, "NAME"),
        (&["--data", "/nonexistent"], 64, "a drill needs a server"),
        (&["--ttl", "1ms"], 65, "ttl"),
        (&[""], 65, "name"),
    ] {
        let ran = served.run(&[&["election", "chaos"], args].concat());
        assert_eq!(ran.code, code, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(why), "{args:?}: {ran:?}");
    }
    served.ok(&["election", "pause", "chores"]);
    let ran = served.run(&["election", "chaos", "chores", "--in-use"]);
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(ran.stderr.contains("is paused"), "{ran:?}");
    let ran = run(&["election", "chaos", "--server", "127.0.0.1:1"]);
    assert_eq!(ran.code, 69, "{ran:?}");
    served.stop();
}
