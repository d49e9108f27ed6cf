//! The check is checked: what is right passes, and every wrong thing is found.

use super::super::event::Accepted;
use super::*;

const MS: u64 = 1_000_000;

/// What was seen, in milliseconds.
#[derive(Default)]
struct Seen(History);

impl Seen {
    fn event(mut self, op: Op, phase: Phase, at: u64, set: impl FnOnce(&mut Event)) -> Self {
        let mut event = Event::new(op, phase, "drill", at * MS);
        set(&mut event);
        self.0.events.push(event);
        self
    }

    fn by(self, op: Op, proc: &str, term: u64, at: u64, until: Option<u64>) -> Self {
        self.event(op, Phase::Ok, at, |event| {
            event.proc = proc.into();
            event.term = Some(term);
            event.trusted_until_ns = until.map(|until| until * MS);
        })
    }

    fn leads(self, proc: &str, term: u64, at: u64, until: u64) -> Self {
        self.by(Op::Lead, proc, term, at, Some(until))
    }

    fn trusts(self, proc: &str, term: u64, at: u64, until: u64) -> Self {
        self.by(Op::Trust, proc, term, at, Some(until))
    }

    fn stops(self, proc: &str, term: u64, at: u64) -> Self {
        self.by(Op::Stop, proc, term, at, None)
    }

    fn killed(self, proc: &str, at: u64) -> Self {
        self.event(Op::Kill, Phase::Ok, at, |event| event.target = Some(proc.into()))
    }

    fn healed(self, at: u64) -> Self {
        self.event(Op::Heal, Phase::Ok, at, |_| {})
    }

    fn acknowledged(self, proc: &str, term: u64, op_id: u64) -> Self {
        self.event(Op::Write, Phase::Ok, 0, |event| {
            (event.proc, event.term, event.op_id) = (proc.into(), Some(term), op_id);
        })
    }

    fn accepted(mut self, proc: &str, term: u64, op_id: u64) -> Self {
        self.0.accepted.push(Accepted { term, proc: proc.into(), op_id });
        self
    }

    fn found(&self) -> Vec<Violation> {
        check(&self.0, Rules::default()).1
    }
}

fn a_good_day() -> Seen {
    Seen::default()
        .leads("a", 7, 0, 320)
        .trusts("a", 7, 130, 450)
        .accepted("a", 7, 1)
        .acknowledged("a", 7, 1)
        // It stopped, and gave back what was left.
        .stops("a", 7, 200)
        .leads("b", 8, 201, 500)
        .accepted("b", 8, 1)
        // It was killed, which the kernel told at once.
        .killed("b", 300)
        .leads("a", 9, 301, 620)
        // It was cut off, and stopped by itself when its trust was over.
        .leads("c", 10, 720, 1000)
        .healed(900)
        .trusts("c", 10, 910, 1300)
}

#[test]
fn what_is_right_passes() {
    let seen = a_good_day();
    assert_eq!(seen.found(), []);
    let (tally, _) = check(&seen.0, Rules::default());
    assert_eq!(tally, Tally { terms: 4, faults: 0, accepted: 2, refused: 0 });
}

#[test]
fn two_beliefs_that_meet_are_found() {
    let seen = a_good_day().leads("d", 11, 1290, 1600);
    assert_eq!(seen.found(), [Violation::Overlap { first: 10, second: 11, ns: 10 * MS }]);
    let coarse = Rules { grain_ns: 10 * MS, ..Rules::default() };
    assert_eq!(check(&seen.0, coarse).1, [], "so much cannot be told on such a clock");
    let far_apart = Rules { beyond_drift: true, ..Rules::default() };
    assert_eq!(check(&seen.0, far_apart).1, [], "nobody promised otherwise");
}

#[test]
fn a_long_belief_is_compared_with_all_that_follow() {
    let seen = Seen::default().leads("a", 1, 0, 1000).leads("b", 2, 100, 200);
    let seen = seen.leads("c", 3, 300, 400);
    let both = [
        Violation::Overlap { first: 1, second: 2, ns: 100 * MS },
        Violation::Overlap { first: 1, second: 3, ns: 100 * MS },
    ];
    assert_eq!(seen.found(), both);
}

#[test]
fn a_renewal_that_was_told_late_counts() {
    let seen = Seen::default().leads("a", 1, 0, 320).leads("b", 2, 400, 700);
    assert_eq!(seen.found(), []);
    let seen = seen.trusts("a", 1, 800, 450);
    assert_eq!(seen.found(), [Violation::Overlap { first: 1, second: 2, ns: 50 * MS }]);
}

#[test]
fn who_says_that_it_leads_when_its_trust_is_long_over_believes_nothing() {
    let seen = Seen::default().leads("b", 8, 500, 800).leads("a", 7, 600, 420);
    assert_eq!(seen.found(), []);
}

#[test]
fn a_term_that_goes_back_is_found() {
    let seen = Seen::default().leads("a", 8, 0, 100).leads("b", 7, 200, 300);
    let back = Violation::TermBack { term: 7, after: 8, proc: "b".into() };
    assert_eq!(seen.found(), [back]);
    // In one process also when nothing is left of its trust.
    let seen = Seen::default().leads("a", 8, 0, 100).leads("a", 7, 200, 150);
    let back = Violation::TermBack { term: 7, after: 8, proc: "a".into() };
    assert_eq!(seen.found(), [back]);
}

#[test]
fn a_term_with_two_leaders_is_found() {
    let seen = Seen::default().leads("a", 7, 0, 100).leads("b", 7, 200, 300);
    let twice = Violation::TermTwice { term: 7, first: "a".into(), second: "b".into() };
    assert_eq!(seen.found(), [twice]);
}

#[test]
fn an_old_write_that_was_accepted_is_found() {
    let seen = a_good_day().accepted("a", 7, 2);
    assert_eq!(seen.found(), [Violation::OldWrite { term: 7, newest: 8 }]);
    let far_apart = Rules { beyond_drift: true, ..Rules::default() };
    assert_eq!(check(&seen.0, far_apart).1.len(), 1, "the fence holds whatever clocks do");
}

#[test]
fn a_write_under_somebody_elses_term_is_found() {
    let seen = a_good_day().accepted("c", 9, 1);
    assert_eq!(seen.found(), [Violation::Ungranted { term: 9, proc: "c".into() }]);
}

#[test]
fn a_write_that_was_acknowledged_and_lost_is_found() {
    let seen = a_good_day().acknowledged("b", 8, 2);
    let lost = Violation::LostWrite { term: 8, proc: "b".into(), op_id: 2 };
    assert_eq!(seen.found(), [lost]);
}

#[test]
fn nobody_after_the_faults_is_found() {
    let seen = a_good_day().healed(1000);
    assert_eq!(seen.found(), [Violation::Leaderless]);
    // A word that comes too late is none.
    assert_eq!(seen.leads("d", 11, 1400, 1350).found(), [Violation::Leaderless]);
}

#[test]
fn what_was_written_down_is_read_again() {
    let folder = std::env::temp_dir().join(format!("bellwether-drill-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let (events, accepted) = (folder.join("history.jsonl"), folder.join("accepted"));
    assert!(History::read(&events, &accepted).unwrap().events.is_empty(), "nothing yet");
    let day = a_good_day().0;
    let recorder = super::super::Recorder::open(&events).unwrap();
    day.events.iter().for_each(|event| recorder.record(event).unwrap());
    let lines: String = day.accepted.iter().map(Accepted::line).collect();
    std::fs::write(&accepted, &lines).unwrap();
    let read = History::read(&events, &accepted).unwrap();
    assert_eq!((read.events, read.accepted), (day.events, day.accepted));
    std::fs::write(&accepted, lines + "7 a").unwrap();
    assert!(History::read(&events, &accepted).is_err(), "half a line is damage");
    std::fs::remove_dir_all(&folder).unwrap();
}
