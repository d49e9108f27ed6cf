//! Several lead at once.

use std::collections::BTreeSet;

use rustix::process::Signal;

use super::fleet::{BEAT, Fleet, Leader, eventually};

const TWO: [&str; 4] = ["-n", "2", "--ttl", "2s"];

/// The term it says that it leads under.
fn leads(leader: &mut Leader) -> u64 {
    let line = leader.says("leading");
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// When the command of a term was alive first and last.
fn alive(fleet: &Fleet, term: u64) -> Option<(u64, u64)> {
    let beats = fleet.beats();
    let mut times = beats.iter().filter(|(of, _)| *of == term).map(|(_, at)| *at);
    let first = times.next()?;
    Some((first, times.next_back().unwrap_or(first)))
}

/// Waits until the command of `term` was alive after that of `other` had begun.
fn works_beside(fleet: &Fleet, term: u64, other: u64) {
    eventually("both are at work", || match (alive(fleet, term), alive(fleet, other)) {
        (Some((_, last)), Some((first, _))) => last > first,
        _ => false,
    });
}

fn said(fleet: &Fleet, args: &[&str]) -> String {
    String::from_utf8(fleet.command(args).output().unwrap().stdout).unwrap()
}

#[test]
fn two_of_three_lead_at_once_and_who_is_killed_is_followed() {
    let fleet = Fleet::start();
    let mut first = fleet.lead(&TWO, BEAT);
    let a = leads(&mut first);
    let mut second = fleet.lead(&TWO, BEAT);
    let b = leads(&mut second);
    assert!(b > a, "a term each");
    let mut third = fleet.lead(&TWO, BEAT);
    third.says("waiting");
    works_beside(&fleet, a, b);
    works_beside(&fleet, b, a);
    let who = said(&fleet, &["election", "who", "chores"]);
    assert_eq!(who.lines().count(), 2, "{who}");
    let shown = said(&fleet, &["lease", "show", "chores"]);
    assert!(shown.contains("2, 2 held") && shown.contains(&format!("term {b}")), "{shown}");
    first.signal(Signal::KILL);
    let c = leads(&mut third);
    assert!(c > b);
    works_beside(&fleet, b, c);
    works_beside(&fleet, c, b);
    let ((_, over), (begun, _)) = (alive(&fleet, a).unwrap(), alive(&fleet, c).unwrap());
    assert!(over <= begun, "three were at work at once, from {begun} to {over}");
    let terms: BTreeSet<u64> = fleet.beats().iter().map(|(term, _)| *term).collect();
    assert_eq!(terms, BTreeSet::from([a, b, c]));
    let why = said(&fleet, &["election", "why", "chores"]);
    let lines: Vec<&str> = why.lines().collect();
    assert_eq!(lines.len(), 3, "{why}");
    assert!(lines[0].contains("led under") && lines[0].contains("followed after"), "{why}");
    assert!(lines[1].contains(&format!("leads under term {b}")), "{why}");
    assert!(lines[2].contains(&format!("leads under term {c}")), "{why}");
}

#[test]
fn another_number_is_told_both() {
    let fleet = Fleet::start();
    let mut first = fleet.lead(&TWO, BEAT);
    leads(&mut first);
    let (code, _, said) = fleet.lead(&["-n", "3"], "echo never").end();
    assert_eq!(code, 65, "{said}");
    assert!(said.contains("2 slots") && said.contains("asked for with 3"), "{said}");
    for wrong in ["0", "1025"] {
        let (code, _, said) = fleet.lead(&["-n", wrong], "echo never").end();
        assert_eq!(code, 65, "{said}");
        assert!(said.contains("slots"), "{said}");
    }
}
