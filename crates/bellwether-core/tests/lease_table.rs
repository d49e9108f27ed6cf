//! The outcome of every action in every state of a lease, as Azure's documents have it in tables
//! (`lease_table/table.rs`), and what those leave open: periods of a break, terms, versions, and the leases bound to a member.

// A test fails by panicking, in its helpers too.
#![allow(clippy::unwrap_used)]

#[path = "lease_table/table.rs"]
mod table;

use bellwether_core::command::{Acquire, LeaseKind};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::lease::{Decision, Hold, Lease, LeaseAt, UseRefusal, check_ttl};
use bellwether_core::limits;
use bellwether_core::name::{LeaseId, LeaseName, MemberSlot, Term};
use bellwether_core::outcome::{LeaseState, Outcome};
use bellwether_core::time::{BootTime, Now};

use table::{ACTIONS, USES, cells};

const A: LeaseId = LeaseId(0xa);
const B: LeaseId = LeaseId(0xb);
const C: LeaseId = LeaseId(0xc);
/// What a door draws where nobody proposes one.
const D: LeaseId = LeaseId(0xd);
const TTL_MS: u64 = 60_000;
const START: Now = Now::new(1_700_000_000_000, 5_000);

#[test]
fn every_action_in_every_state_ends_as_the_table_says() {
    each_cell(ACTIONS, |action, name, lease, now| {
        let mut lease = lease.cloned();
        let mut now = now;
        let mut shown = String::new();
        for part in action.split(", ") {
            let before = lease.clone();
            let at =
                LeaseAt { name, lease: before.as_ref(), now, beaten_at: None, terms_from: Term(0) };
            if part == "time runs out" {
                now = now.plus_ms(TTL_MS);
            } else if part == "touch" {
                lease = at.touch().or(lease);
            } else {
                match act(part, at) {
                    Ok(decision) => lease = Some(decision.lease),
                    Err(refusal) => return code(&refusal).to_owned(),
                }
            }
            shown = show(name, lease.as_ref(), now);
            if term(lease.as_ref()) > term(before.as_ref()) {
                shown += " +";
            }
        }
        shown
    });
}

#[test]
fn every_use_in_every_state_ends_as_the_table_says() {
    each_cell(USES, |action, name, lease, now| {
        let at = LeaseAt { name, lease, now, beaten_at: None, terms_from: Term(0) };
        let words: Vec<&str> = action.split(' ').collect();
        let shown = words.get(1).map(|text| id(text));
        let answer = if words[0] == "write" { at.may_write(shown) } else { at.may_read(shown) };
        match answer {
            Ok(()) if words[0] == "write" && at.touch().is_some() => {
                assert_eq!(show(name, at.touch().as_ref(), now), "Available");
                "ok, wiped".to_owned()
            }
            Ok(()) => "ok".to_owned(),
            Err(refusal) => format!("{refusal:?}"),
        }
    });
}

/// The period is used only if it is shorter than what is left; no period means what is
/// left, or nothing if the lease is infinite; breaking again may shorten, never lengthen.
#[test]
fn a_break_lasts_as_long_as_it_should() {
    let finite = held(LeaseKind::Standing, TTL_MS);
    let infinite = held(LeaseKind::Standing, limits::LEASE_MS_INFINITE);
    for (lease, period_ms, remaining_ms) in [
        (&finite, None, 50_000),
        (&finite, Some(20_000), 20_000),
        (&finite, Some(55_000), 50_000),
        (&infinite, None, 0),
        (&infinite, Some(20_000), 20_000),
    ] {
        let broken = look(lease, 10_000).break_hold(period_ms).unwrap();
        assert_eq!(broken.outcome, Outcome::Breaking { remaining_ms }, "{period_ms:?}");
        assert!(look(&broken.lease, 10_000 + remaining_ms).state() == LeaseState::Broken);
        assert!(remaining_ms == 0 || look(&broken.lease, 10_000).state() == LeaseState::Breaking);
        assert_eq!(look(&broken.lease, 10_000).remaining_ms(), remaining_ms);
    }
    let breaking = look(&finite, 0).break_hold(Some(30_000)).unwrap().lease;
    for (period_ms, remaining_ms) in
        [(None, 20_000), (Some(40_000), 20_000), (Some(5_000), 5_000), (Some(0), 0)]
    {
        let again = look(&breaking, 10_000).break_hold(period_ms).unwrap();
        assert_eq!(again.outcome, Outcome::Breaking { remaining_ms }, "{period_ms:?}");
        let shortened = remaining_ms < 20_000;
        assert_eq!(again.lease.version, breaking.version + u64::from(shortened));
    }
}

/// A name without history starts at Unix milliseconds, and grows from there.
#[test]
fn terms_only_grow() {
    let name = name();
    let none = LeaseAt {
        name: &name,
        lease: None,
        now: Now::new(0, 0),
        beaten_at: None,
        terms_from: Term(0),
    };
    assert_eq!(grant(none, A).term, Term(1), "a clock that was never set");

    let first = held(LeaseKind::Bound, TTL_MS);
    assert_eq!(first.term, Term(START.wall.0));
    let free = look(&first, 1).release(A).unwrap().lease;
    assert_eq!(free.term, first.term, "a release is not a grant");
    let at = Now::new(7, START.boot.0 + 1);
    let next = grant(
        LeaseAt { name: &name, lease: Some(&free), now: at, beaten_at: None, terms_from: Term(0) },
        B,
    );
    assert_eq!(next.term, Term(first.term.0 + 1), "the wall clock was set back");

    let restored = Lease { term: Term(9), ..free };
    assert_eq!(grant(look(&restored, 1), B).term, Term(START.wall.0 + 1), "an old backup");
}

/// The answer was lost, the holder asks again: same term, a full duration, nothing new to
/// see. After expiry or break the same id is a new grant.
#[test]
fn the_same_acquire_again_is_the_same_grant() {
    for kind in [LeaseKind::Standing, LeaseKind::Bound] {
        let first = held(kind, TTL_MS);
        let again = grant(look(&first, 30_000), A);
        assert_eq!((again.term, again.version), (first.term, first.version));
        assert_eq!(look(&again, 80_000).state(), LeaseState::Leased);
        let late = grant(look(&first, 2 * TTL_MS), A);
        assert!(late.term > first.term && late.version > first.version);
        let broken = look(&first, 1).break_hold(Some(0)).unwrap().lease;
        assert!(grant(look(&broken, 1), A).term > first.term);
    }
}

#[test]
fn a_version_moves_with_what_can_be_seen() {
    let lease = held(LeaseKind::Standing, TTL_MS);
    let version = |decision: Result<Decision, LeaseRefusal>| decision.unwrap().lease.version;
    let seen = lease.version;
    assert_eq!(version(look(&lease, 10).renew(A)), seen, "a renewal in time");
    assert_eq!(version(look(&lease, 10).change(B, A)), seen, "nothing to change");
    assert_eq!(version(look(&lease, TTL_MS).renew(A)), seen + 1, "expired, and leased again");
    assert_eq!(version(look(&lease, 10).release(A)), seen + 1);
    assert_eq!(version(look(&lease, 10).change(A, B)), seen + 1);
    assert_eq!(version(look(&lease, 10).break_hold(None)), seen + 1);
    assert_eq!(look(&lease, TTL_MS).touch().unwrap().version, seen + 1);
    let longer = Acquire { ttl_ms: 2 * TTL_MS, ..ask(A, LeaseKind::Standing, TTL_MS) };
    assert_eq!(version(look(&lease, 10).acquire(&longer, MemberSlot(1))), seen + 1);
}

/// Asking leaves a word, once; the next grant starts without it.
#[test]
fn a_request_to_step_down_ends_with_the_term() {
    let lease = held(LeaseKind::Bound, TTL_MS);
    let asked = look(&lease, 10).ask_step_down(None).unwrap().lease;
    assert!(asked.step_down_asked && asked.version == lease.version + 1);
    assert_eq!(look(&asked, 20).ask_step_down(None).unwrap().lease, asked);
    assert!(look(&asked, 20).renew(A).unwrap().lease.step_down_asked);
    assert!(grant(look(&asked, 20), A).step_down_asked, "the same grant");
    assert!(!grant(look(&asked, 2 * TTL_MS), B).step_down_asked);
    assert!(!look(&asked, 20).change(A, B).unwrap().lease.step_down_asked);
}

/// A wish who shall follow outlives the release, and no grant.
#[test]
fn a_wish_who_shall_follow_ends_with_the_next_grant() {
    let (first, second) = (MemberSlot(7), MemberSlot(8));
    let lease = held(LeaseKind::Bound, TTL_MS);
    let named = look(&lease, 10).ask_step_down(Some(first)).unwrap().lease;
    assert!(named.step_down_asked && named.successor == first);
    assert_eq!(look(&named, 20).ask_step_down(None).unwrap().lease, named, "the wish stands");
    let other = look(&named, 20).ask_step_down(Some(second)).unwrap().lease;
    assert_eq!((other.successor, other.version), (second, named.version + 1));
    let released = look(&named, 20).release(A).unwrap().lease;
    assert_eq!(released.successor, first);
    assert_eq!(grant(look(&released, 30), B).successor, MemberSlot(0));
    assert_eq!(look(&named, 20).change(A, B).unwrap().lease.successor, MemberSlot(0));
    let breaking = look(&lease, 10).break_hold(Some(100)).unwrap().lease;
    let breaking = look(&breaking, 20).ask_step_down(Some(first)).unwrap().lease;
    assert!(breaking.successor == first && !breaking.step_down_asked, "it ends anyway");
    let over = look(&lease, 2 * TTL_MS).ask_step_down(Some(first));
    assert!(matches!(over, Err(LeaseRefusal::NotPresent(_))));
}

#[test]
fn a_paused_lease_is_granted_to_nobody_and_kept_by_whoever_has_it() {
    let lease = held(LeaseKind::Bound, TTL_MS);
    let kept = look(&lease, 10).pause(true).lease;
    assert!(kept.paused && !kept.step_down_asked && kept.version == lease.version + 1);
    let paused = look(&kept, 10).pause(false).lease;
    assert!(paused.step_down_asked && paused.version == kept.version + 1);
    assert_eq!(look(&paused, 10).pause(false).lease, paused);
    assert_eq!(grant(look(&paused, 20), A).term, lease.term, "the same grant");
    assert!(look(&paused, 20).renew(A).is_ok());
    assert!(look(&paused, 20).change(A, B).unwrap().lease.paused);
    let wish = ask(B, LeaseKind::Bound, TTL_MS);
    let released = look(&paused, 20).release(A).unwrap().lease;
    for at in [look(&released, 30), look(&paused, 2 * TTL_MS)] {
        let refused = at.acquire(&wish, MemberSlot(1)).unwrap_err();
        assert!(matches!(refused, LeaseRefusal::Paused(_)), "{refused:?}");
    }
    let resumed = look(&released, 30).resume().unwrap();
    assert_eq!(look(&resumed, 30).resume(), None);
    assert!(grant(look(&resumed, 30), B).term > lease.term);
}

/// Nobody else is granted a bound lease before 105 % of its ttl.
#[test]
fn a_bound_lease_is_kept_for_105_percent() {
    let lease = held(LeaseKind::Bound, TTL_MS);
    let grace = TTL_MS * limits::LEASE_GRACE_PERCENT / 100;
    let taken = |at: LeaseAt| at.acquire(&ask(B, LeaseKind::Bound, TTL_MS), MemberSlot(2));
    let held = LeaseRefusal::Held { lease: name(), term: lease.term };
    assert_eq!(taken(look(&lease, grace - 1)), Err(held));
    assert!(taken(look(&lease, grace)).is_ok());
    assert_eq!(look(&lease, 10).ends_at(), START.boot.plus_ms(grace));
    let standing = self::held(LeaseKind::Standing, TTL_MS);
    assert_eq!(look(&standing, TTL_MS - 1).state(), LeaseState::Leased);
    assert_eq!(look(&standing, TTL_MS).state(), LeaseState::Expired);
}

/// A late renewal of a bound lease is refused and needs a new term.
#[test]
fn a_bound_lease_is_not_renewed_late() {
    let lease = held(LeaseKind::Bound, TTL_MS);
    let grace = TTL_MS * limits::LEASE_GRACE_PERCENT / 100;
    let renewed = look(&lease, grace - 1).renew(A).unwrap().lease;
    assert_eq!(look(&renewed, grace + TTL_MS).state(), LeaseState::Leased);
    let over = LeaseRefusal::TermOver { lease: name(), term: lease.term };
    assert_eq!(look(&lease, grace).renew(A), Err(over));
    assert!(grant(look(&lease, grace), A).term > lease.term);
}

/// One heartbeat renews all leases of its member without touching a record; it never
/// shortens one, and it does not keep a lease that stands by itself or is being broken.
#[test]
fn a_heartbeat_keeps_a_bound_lease() {
    let lease = held(LeaseKind::Bound, TTL_MS);
    let beat = |lease: &Lease, beat_ms, after_ms| {
        let beaten_at = Some(START.boot.plus_ms(beat_ms));
        LeaseAt { beaten_at, ..look(lease, after_ms) }.state()
    };
    assert_eq!(beat(&lease, 50_000, 112_999), LeaseState::Leased);
    assert_eq!(beat(&lease, 50_000, 113_000), LeaseState::Expired);
    let renewed = look(&lease, 40_000).renew(A).unwrap().lease;
    assert_eq!(beat(&renewed, 10_000, 102_999), LeaseState::Leased, "the later one counts");
    let standing = held(LeaseKind::Standing, TTL_MS);
    assert_eq!(beat(&standing, 50_000, 60_000), LeaseState::Expired);
    let breaking = look(&lease, 0).break_hold(Some(1_000)).unwrap().lease;
    assert_eq!(beat(&breaking, 900, 1_000), LeaseState::Broken);
    let at = LeaseAt { beaten_at: Some(START.boot.plus_ms(50_000)), ..look(&lease, 60_000) };
    let changed = at.change(A, B).unwrap().lease;
    assert_eq!(look(&changed, 112_999).state(), LeaseState::Leased, "a change keeps its time");
}

/// A record keeps the last name; nobody is shown as holder when nobody holds it.
#[test]
fn a_holder_is_shown_only_while_it_holds() {
    let lease = held(LeaseKind::Standing, TTL_MS);
    assert_eq!(look(&lease, 10).holder(), Some((A, MemberSlot(1))));
    assert_eq!(look(&lease, TTL_MS).holder(), None);
    assert_eq!(look(&lease, TTL_MS).remaining_ms(), 0);
    let free = look(&lease, 10).release(A).unwrap().lease;
    assert_eq!((look(&free, 10).holder(), free.hold), (None, Hold::Free));
    let infinite = held(LeaseKind::Standing, limits::LEASE_MS_INFINITE);
    assert_eq!(look(&infinite, u64::MAX / 2).remaining_ms(), u64::MAX);
    assert_eq!(look(&infinite, 0).ends_at(), BootTime::NEVER);
    assert_eq!(look(&free, 0).may_write(Some(A)), Err(UseRefusal::NotPresent));
}

#[test]
fn a_duration_is_in_range_or_infinite() {
    for kind in [LeaseKind::Standing, LeaseKind::Bound] {
        for good in [limits::LEASE_MS_MIN, TTL_MS, limits::LEASE_MS_MAX] {
            assert_eq!(check_ttl(kind, good), Ok(()));
        }
        for bad in [0, limits::LEASE_MS_MIN - 1, limits::LEASE_MS_MAX + 1, u64::MAX - 1] {
            let refusal = check_ttl(kind, bad).unwrap_err();
            assert!(matches!(refusal, Refusal::InvalidValue { what: "ttl_ms", .. }));
        }
    }
    assert_eq!(check_ttl(LeaseKind::Standing, limits::LEASE_MS_INFINITE), Ok(()));
    assert!(check_ttl(LeaseKind::Bound, limits::LEASE_MS_INFINITE).is_err());
}

fn each_cell(table: &str, run: impl Fn(&str, &LeaseName, Option<&Lease>, Now) -> String) {
    for cell in cells(table) {
        let (lease, now) = in_state(&cell.state);
        assert_eq!(show(&name(), lease.as_ref(), now), cell.state, "the start");
        let got = run(&cell.action, &name(), lease.as_ref(), now);
        assert_eq!(got, cell.wanted, "{} in state {}", cell.action, cell.state);
        if cell.state == "Available" {
            let got = run(&cell.action, &name(), None, now);
            assert_eq!(got, cell.wanted, "{} of a name without history", cell.action);
        }
    }
}

fn in_state(state: &str) -> (Option<Lease>, Now) {
    let lease = held(LeaseKind::Standing, TTL_MS);
    let (lease, after_ms) = match state {
        "Available" => (look(&lease, 10_000).release(A).unwrap().lease, 20_000),
        "Leased(A)" => (lease, TTL_MS - 1),
        "Expired(A)" => (lease, TTL_MS),
        "Breaking(A)" => (look(&lease, 10_000).break_hold(Some(30_000)).unwrap().lease, 39_999),
        "Broken(A)" => (look(&lease, 10_000).break_hold(Some(30_000)).unwrap().lease, 40_000),
        other => panic!("no such state: {other}"),
    };
    (Some(lease), START.plus_ms(after_ms))
}

fn act(action: &str, at: LeaseAt<'_>) -> Result<Decision, LeaseRefusal> {
    match action.split(' ').collect::<Vec<_>>()[..] {
        ["acquire"] => at.acquire(&ask(D, LeaseKind::Standing, TTL_MS), MemberSlot(1)),
        ["acquire", who] => at.acquire(&ask(id(who), LeaseKind::Standing, TTL_MS), MemberSlot(1)),
        ["renew", who] => at.renew(id(who)),
        ["change", from, to] => at.change(id(from), id(to)),
        ["release", who] => at.release(id(who)),
        ["break"] => at.break_hold(None),
        ["break", period_ms] => at.break_hold(Some(period_ms.parse().unwrap())),
        ["ask", ..] => at.ask_step_down(None),
        _ => panic!("no such action: {action}"),
    }
}

fn show(name: &LeaseName, lease: Option<&Lease>, now: Now) -> String {
    let at = LeaseAt { name, lease, now, beaten_at: None, terms_from: Term(0) };
    match lease.map(|lease| lease.hold) {
        None | Some(Hold::Free) => format!("{:?}", at.state()),
        Some(Hold::Held { id, .. } | Hold::Broken { id, .. }) => {
            format!("{:?}({:X})", at.state(), id.0)
        }
    }
}

fn code(refusal: &LeaseRefusal) -> &'static str {
    match refusal {
        LeaseRefusal::Held { .. } => "AP",
        LeaseRefusal::IdMismatch(_) => "MM",
        LeaseRefusal::NotPresent(_) => "NP",
        LeaseRefusal::Breaking(_) => "BA",
        LeaseRefusal::Broken(_) => "BR",
        LeaseRefusal::BreakingCannotChange(_) => "BC",
        LeaseRefusal::TermOver { .. }
        | LeaseRefusal::NotGranted(_)
        | LeaseRefusal::Paused(_)
        | LeaseRefusal::NotInLine { .. }
        | LeaseRefusal::OtherSlots { .. } => "not of this table",
    }
}

fn id(text: &str) -> LeaseId {
    match text {
        "A" => A,
        "B" => B,
        "C" => C,
        other => panic!("no such id: {other}"),
    }
}

fn name() -> LeaseName {
    LeaseName::new("leader").unwrap()
}

fn ask(id: LeaseId, kind: LeaseKind, ttl_ms: u64) -> Acquire {
    let metadata = String::new();
    Acquire { lease: name(), id, kind, ttl_ms, metadata, wait_ms: 0, priority: 0, slots: 1 }
}

/// Granted to A at [`START`].
fn held(kind: LeaseKind, ttl_ms: u64) -> Lease {
    let at =
        LeaseAt { name: &name(), lease: None, now: START, beaten_at: None, terms_from: Term(0) };
    at.acquire(&ask(A, kind, ttl_ms), MemberSlot(1)).unwrap().lease
}

fn grant(at: LeaseAt<'_>, id: LeaseId) -> Lease {
    let kind = at.lease.map_or(LeaseKind::Standing, |lease| lease.kind);
    at.acquire(&ask(id, kind, TTL_MS), MemberSlot(1)).unwrap().lease
}

fn look(lease: &Lease, after_ms: u64) -> LeaseAt<'_> {
    static NAME: std::sync::OnceLock<LeaseName> = std::sync::OnceLock::new();
    let now = START.plus_ms(after_ms);
    LeaseAt {
        name: NAME.get_or_init(name),
        lease: Some(lease),
        now,
        beaten_at: None,
        terms_from: Term(0),
    }
}

fn term(lease: Option<&Lease>) -> Term {
    lease.map_or(Term(0), |lease| lease.term)
}
