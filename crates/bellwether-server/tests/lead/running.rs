//! What a command is given, and what it is asked to show.

use std::process::Stdio;

use rustix::process::Signal;

use super::fleet::{BEAT, Fleet, Leader, eventually};

#[test]
fn it_knows_under_which_term_it_runs_and_reads_what_it_is_given() {
    let fleet = Fleet::start();
    std::fs::write(fleet.path("input"), "a line\n").unwrap();
    let mut command = fleet.command(&["lead", "chores", "--", "sh", "-c", "cat; env"]);
    command.stdin(Stdio::from(std::fs::File::open(fleet.path("input")).unwrap()));
    let (code, stdout, stderr) = Leader::start(command).end();
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.starts_with("a line\n"), "{stdout}");
    let variable = |name: &str| {
        let mut lines =
            stdout.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        lines.next_back().unwrap_or_else(|| panic!("{name} is not in {stdout}")).to_owned()
    };
    let term: u64 = variable("BELLWETHER_TERM").parse().unwrap();
    assert_eq!(variable("BELLWETHER_ELECTION"), "chores");
    assert_eq!(variable("BELLWETHER_FENCE"), format!("chores/{term}"));
    assert_eq!(variable("BELLWETHER_MEMBER").len(), 32);
    assert!(variable("BELLWETHER_TRUSTED_UNTIL_MS").parse::<u64>().unwrap() > 0);
    assert!(!stdout.contains("BELLWETHER_PROGRESS="), "only if it is asked for");
    assert!(stderr.contains(&format!("leading \"chores\" under term {term}")), "{stderr}");
}

#[test]
fn the_next_one_waits_until_everything_of_the_first_has_ended() {
    let fleet = Fleet::start();
    let slow =
        format!("trap 'for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; done; exit 3' TERM; {BEAT}");
    let mut first = fleet.lead(&["--ttl", "2s"], &slow);
    first.says("leading");
    let term = fleet.next_term(0);
    let mut second = fleet.lead(&["--ttl", "2s"], BEAT);
    let waiting = second.says("waiting for \"chores\"");
    assert!(waiting.contains(&format!("leads under term {term} (pid ")), "{waiting}");
    first.signal(Signal::TERM);
    let (code, _, said) = first.end();
    assert_eq!(code, 3, "the command's own code: {said}");
    fleet.next_term(term);
    fleet.check();
}

#[test]
fn who_is_asked_to_step_down_stops_its_command_and_gets_in_line_again() {
    let fleet = Fleet::start();
    let mut first = fleet.lead(&["--ttl", "2s", "--output", "json"], BEAT);
    let leading: serde_json::Value = serde_json::from_str(&first.says("leading")).unwrap();
    let term = fleet.next_term(0);
    assert_eq!((&leading["event"], &leading["term"]), (&"leading".into(), &term.into()));
    let mut second = fleet.lead(&["--ttl", "2s"], BEAT);
    second.says("waiting");
    let asked = fleet.command(&["election", "step-down", "chores"]).output().unwrap();
    assert!(asked.status.success(), "{asked:?}");
    let over: serde_json::Value = serde_json::from_str(&first.says("\"ended\"")).unwrap();
    assert_eq!((&over["reason"], &over["code"]), (&"step-down-asked".into(), &143.into()));
    let next = fleet.next_term(term);
    second.says(&format!("leading \"chores\" under term {next}"));
    first.says("waiting");
    second.signal(Signal::INT);
    assert_eq!(second.end().0, 130, "the command died by SIGINT");
    fleet.next_term(next);
    fleet.check();
}

#[test]
fn it_is_run_again_if_that_is_wanted() {
    let fleet = Fleet::start();
    let mut leader = fleet.lead(&["--again"], "echo $BELLWETHER_TERM >> terms; exit 5");
    leader.says("the command ended, exit code 5");
    leader.says("the command ended, exit code 5");
    leader.signal(Signal::TERM);
    let (code, _, said) = leader.end();
    assert!(code == 130 || code == 5 || code == 143, "{code}: {said}");
    let terms: Vec<u64> = fleet.read("terms").lines().map(|term| term.parse().unwrap()).collect();
    assert!(terms.len() >= 2 && terms.is_sorted_by(|a, b| a < b), "{terms:?}");
}

#[test]
fn it_is_prepared_before_it_gets_in_line() {
    let fleet = Fleet::start();
    let order = "echo led >> order";
    let flags = ["--prepare", "echo $BELLWETHER_ELECTION is prepared >> order"];
    let (code, _, said) = fleet.lead(&flags, order).end();
    assert_eq!((code, fleet.read("order").as_str()), (0, "chores is prepared\nled\n"), "{said}");
    let (code, _, said) = fleet.lead(&["--prepare", "exit 9"], order).end();
    assert_eq!(code, 0, "it may fail");
    assert!(said.contains("--prepare ended with 9; contending all the same"), "{said}");

    let leader = fleet.lead(&["--prepare", "echo $$ > preparing; sleep 1000"], order);
    eventually("it prepares", || !fleet.read("preparing").is_empty());
    leader.signal(Signal::TERM);
    let (code, _, said) = leader.end();
    assert_eq!(code, 130, "{said}");
    assert!(!super::fleet::is_alive(&fleet.read("preparing")));
    assert_eq!(fleet.read("order").matches("led").count(), 2, "it did not lead");
}

#[test]
fn who_shows_no_progress_does_not_lead_any_more() {
    let fleet = Fleet::start();
    let works = "for i in 1 2 3 4 5 6 7 8 9 10; do touch \"$BELLWETHER_PROGRESS\"; sleep 0.3; done; \
        echo \"$BELLWETHER_PROGRESS\" > file";
    let flags = ["--stall", "2s", "--once", "--grace", "1s"];
    let (code, _, said) = fleet.lead(&flags, works).end();
    assert_eq!(code, 0, "it gets on for longer than the limit: {said}");
    let file = fleet.read("file");
    assert!(!std::path::Path::new(file.trim()).exists(), "{file:?} is removed");

    let hangs = "trap '' TERM; echo x > \"$BELLWETHER_PROGRESS\"; echo $$ > hanging; sleep 1000; sleep 1000";
    let (code, _, said) = fleet.lead(&flags, hangs).end();
    assert_eq!(code, 75, "{said}");
    assert!(said.contains("stopping the command: the command shows no progress"), "{said}");
    assert!(!super::fleet::is_alive(&fleet.read("hanging")));
    let (code, _, said) = fleet.lead(&["--once"], "true").end();
    assert_eq!(code, 0, "the lease was given back: {said}");
}
