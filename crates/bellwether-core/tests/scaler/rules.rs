use bellwether_core::scaler::{Decision, Policy, Reading, Rule, Scaler, WORKERS_MAX, Why};
use bellwether_core::time::BootTime;

/// One to ten workers, five messages to each, and no pauses.
fn policy() -> Policy {
    Policy { per_worker: Some(5), out_pause_ms: 0, in_pause_ms: 0, ..Policy::default() }
}

fn reading(ready: u64, running: u32) -> Reading {
    Reading { ready, running, ..Reading::default() }
}

fn decide(policy: Policy, reading: Reading) -> Decision {
    policy.check().expect("a policy that works");
    Scaler::new(policy).step(BootTime(1_000), reading)
}

fn wanted(policy: Policy, reading: Reading) -> u32 {
    decide(policy, reading).wanted
}

/// XM-21: rounded up, and clamped.
#[test]
fn so_many_messages_to_a_worker() {
    assert_eq!(wanted(policy(), reading(10, 2)), 2);
    assert_eq!(wanted(policy(), reading(11, 2)), 3);
    let all_at_once = Policy { step_out_max: 99, ..policy() };
    assert_eq!(wanted(all_at_once.clone(), reading(1_000, 2)), 10);
    assert_eq!(
        wanted(policy(), Reading { locked: 6, ..reading(5, 2) }),
        3,
        "in hand is to be done"
    );
    let quiet = Policy { min: 3, ..all_at_once };
    assert_eq!(wanted(quiet, reading(0, 3)), 3);
}

/// XM-22.
#[test]
fn a_few_at_a_time() {
    let decision = decide(policy(), reading(1_000, 2));
    assert_eq!(decision.wanted, 6);
    let Why::Out(wish) = decision.why else { panic!("{decision:?}") };
    assert_eq!((wish.rule, wish.seen, wish.target, wish.wants), (Rule::PerWorker, 1_000, 5, 200));
    assert_eq!(decision.to_string(), "out from 2 to 6: 1000 messages, 5 to a worker, want 200");
}

/// XM-22, XM-27: what somebody did by hand is pulled back.
#[test]
fn the_number_stays_between_its_ends() {
    let few = Policy { min: 2, max: 4, in_pause_ms: 60_000, ..policy() };
    let below = decide(few.clone(), reading(0, 0));
    assert_eq!((below.wanted, below.why), (2, Why::BelowMinimum));
    let above = decide(few.clone(), reading(1_000, 9));
    assert_eq!((above.wanted, above.why), (4, Why::AboveMaximum));
    let full = decide(few, reading(1_000, 4));
    assert_eq!((full.wanted, full.why), (4, Why::AtMaximum { wants: 200 }), "and says so (XM-28)");
}

/// XM-23: out if any says so, the largest increase.
#[test]
fn one_rule_is_enough_for_more() {
    let both = Policy { oldest_within_ms: Some(1_000), ..policy() };
    let old = Reading { oldest_ms: Some(5_000), busy: 2, ..reading(2, 2) };
    let decision = decide(both, old);
    assert_eq!(decision.wanted, 3, "{decision}");
    let wants: Vec<_> = decision.wishes.iter().map(|wish| (wish.rule, wish.wants)).collect();
    assert_eq!(wants, [(Rule::PerWorker, 1), (Rule::OldestWithin, 3)]);
}

/// XM-23: in only if all agree, the smallest decrease.
#[test]
fn every_rule_must_agree_on_fewer() {
    let both = Policy { oldest_within_ms: Some(1_000), ..policy() };
    let old = Reading { oldest_ms: Some(2_000), ..reading(2, 4) };
    assert_eq!(wanted(both.clone(), old), 4, "the oldest is too old");
    let young = Reading { oldest_ms: Some(100), ..reading(2, 4) };
    assert_eq!(wanted(both.clone(), young), 1);
    let some = Reading { oldest_ms: Some(100), ..reading(9, 4) };
    assert_eq!(wanted(both, some), 3, "nine by three, three quarters of five");
}

/// XM-20: how many wait does not tell how urgent it is; how long it takes does.
#[test]
fn the_time_to_drain_is_by_the_pace_of_those_who_work() {
    let policy = Policy {
        per_worker: None,
        drain_within_ms: Some(10_000),
        step_out_max: 99,
        max: 99,
        ..policy()
    };
    let busy = |ready, completed| Reading { completed, busy: 2, ..reading(ready, 2) };
    // Two workers complete ten a second each; two hundred are gone in ten seconds.
    let mut scaler = Scaler::new(policy.clone());
    scaler.step(BootTime(0), busy(400, 0));
    assert_eq!(scaler.step(BootTime(10_000), busy(200, 200)).wanted, 2);
    let mut scaler = Scaler::new(policy);
    scaler.step(BootTime(0), busy(500, 0));
    let late = scaler.step(BootTime(10_000), busy(500, 200));
    assert_eq!(late.wanted, 5, "{late}");
    assert_eq!(late.to_string(), "out from 2 to 5: drained in 25 s, to be in 10 s, wants 5");
    // What comes in meanwhile has to be dealt with as well: ten a second take another one.
    let more = Reading { arrived: 100, ..busy(500, 200) };
    let mut scaler = Scaler::new(scaler.policy().clone());
    scaler.step(BootTime(0), busy(500, 0));
    assert_eq!(scaler.step(BootTime(10_000), more).wanted, 6);
}

/// XM-29: where the pace is not known, one more at a time.
#[test]
fn without_a_pace_it_feels_its_way() {
    let policy = Policy { per_worker: None, drain_within_ms: Some(10_000), ..policy() };
    let all_busy = Reading { busy: 2, ..reading(500, 2) };
    assert_eq!(wanted(policy.clone(), all_busy), 3);
    let one_idle = Reading { busy: 1, ..all_busy };
    assert_eq!(wanted(policy, one_idle), 2, "one has nothing to do: more would not help");
}

/// XM-24: the load after the removal is looked at before.
#[test]
fn nobody_goes_who_would_be_called_back() {
    let three = decide(policy(), reading(8, 3));
    assert_eq!(three.wanted, 3, "two would have four each, and one more message calls for three");
    assert!(matches!(three.why, Why::WouldFlap(wish) if wish.wants == 3), "{three}");
    assert_eq!(wanted(policy(), reading(6, 3)), 2);
}

/// Pain 31: a worker with a message is none too many.
#[test]
fn never_fewer_than_are_busy() {
    let decision = decide(policy(), Reading { locked: 4, busy: 4, ..reading(0, 6) });
    assert_eq!(decision.wanted, 4, "{decision}");
    let decision = decide(policy(), Reading { locked: 4, busy: 4, ..reading(0, 4) });
    assert_eq!((decision.wanted, decision.why), (4, Why::Busy { busy: 4 }));
}

/// XM-24: what counts is the average of the window, not the moment.
#[test]
fn workers_that_were_busy_lately_are_needed() {
    let mut scaler = Scaler::new(policy());
    for second in 0..10 {
        let busy = if second % 2 == 0 { 6 } else { 2 };
        scaler.step(BootTime(second * 1_000), Reading { busy, ..reading(0, 6) });
    }
    let lull = scaler.step(BootTime(10_000), Reading { busy: 0, ..reading(0, 6) });
    assert_eq!(lull.wanted, 5, "four on average, for four fifths of their time: {lull}");
}

/// XM-24: pauses.
#[test]
fn out_follows_out_after_a_pause() {
    let mut scaler = Scaler::new(Policy { out_pause_ms: 10_000, ..policy() });
    assert_eq!(scaler.step(BootTime(0), reading(50, 1)).wanted, 5);
    let soon = scaler.step(BootTime(9_999), reading(50, 5));
    assert_eq!((soon.wanted, soon.why), (5, Why::CoolingDown { wants: 10, remaining_ms: 1 }));
    assert_eq!(scaler.step(BootTime(10_000), reading(50, 5)).wanted, 9);
}

/// XM-24: a lull that does not last changes nothing.
#[test]
fn in_only_after_it_has_been_calm() {
    let mut scaler = Scaler::new(Policy { in_pause_ms: 60_000, ..policy() });
    let calming = scaler.step(BootTime(0), reading(0, 5));
    assert_eq!((calming.wanted, calming.why), (5, Why::Calming { to: 1, remaining_ms: 60_000 }));
    scaler.step(BootTime(30_000), reading(25, 5));
    assert_eq!(scaler.step(BootTime(60_000), reading(0, 5)).wanted, 5, "it was not calm");
    assert_eq!(scaler.step(BootTime(119_999), reading(0, 5)).wanted, 5);
    let calm = scaler.step(BootTime(120_000), reading(0, 5));
    assert_eq!((calm.wanted, calm.why), (1, Why::In { calm_ms: 60_000 }));
}

/// XM-24.
#[test]
fn nothing_is_decided_while_workers_start() {
    let starting = Reading { starting: 2, ..reading(1_000, 1) };
    let decision = decide(policy(), starting);
    assert_eq!((decision.wanted, decision.why), (3, Why::Starting { starting: 2 }));
}

/// Pain 31: whoever waits in a paused queue waits for its operator, not for workers.
#[test]
fn a_paused_queue_keeps_what_it_has() {
    let paused = Reading { is_paused: true, ..reading(1_000, 3) };
    let decision = decide(policy(), paused);
    assert_eq!((decision.wanted, decision.why), (3, Why::Paused));
    let none = Reading { is_paused: true, ..reading(1_000, 0) };
    assert_eq!(wanted(policy(), none), 0, "not even its minimum");
    let empty = Reading { is_paused: true, ..reading(0, 3) };
    assert_eq!(wanted(policy(), empty), 3, "and fewer neither: it will go on");
}

/// XM-22: to none and back.
#[test]
fn a_queue_without_messages_may_have_no_worker() {
    let to_none = Policy { min: 0, ..policy() };
    assert_eq!(wanted(to_none.clone(), reading(0, 1)), 0);
    let at_work = Reading { locked: 1, busy: 1, ..reading(0, 1) };
    assert_eq!(wanted(to_none.clone(), at_work), 1);
    let dormant = decide(to_none.clone(), reading(0, 0));
    assert_eq!((dormant.wanted, dormant.why), (0, Why::Dormant));
    assert_eq!(wanted(to_none.clone(), reading(1, 0)), 1);
    let lazy = Policy { activate_above: 10, ..to_none.clone() };
    assert_eq!(wanted(lazy.clone(), reading(10, 0)), 0);
    assert_eq!(wanted(lazy, reading(11, 0)), 3);
    // By a rule that has no opinion yet, too.
    let drained = Policy { per_worker: None, drain_within_ms: Some(1_000), ..to_none.clone() };
    assert_eq!(wanted(drained, reading(1, 0)), 1);
    let old = Policy { per_worker: None, oldest_within_ms: Some(1_000), ..to_none.clone() };
    assert_eq!(wanted(old, Reading { oldest_ms: Some(1), ..reading(1, 0) }), 1);
    // One that came and went a moment ago keeps one awake.
    let mut scaler = Scaler::new(to_none);
    scaler.step(BootTime(0), reading(0, 1));
    let awake = scaler.step(BootTime(1_000), Reading { arrived: 1, completed: 1, ..reading(0, 1) });
    assert_eq!((awake.wanted, awake.why), (1, Why::Awake));
}

#[test]
fn a_queue_that_was_created_anew_has_no_past() {
    let mut scaler = Scaler::new(policy());
    scaler.step(BootTime(0), Reading { arrived: 0, completed: 0, ..reading(0, 1) });
    scaler.step(BootTime(1_000), Reading { arrived: 500, completed: 400, ..reading(0, 1) });
    assert_eq!((scaler.pace().arrived(), scaler.pace().completed()), (500, 400));
    scaler.step(BootTime(2_000), Reading { arrived: 3, completed: 2, ..reading(0, 1) });
    assert_eq!((scaler.pace().arrived(), scaler.pace().completed()), (0, 0));
}

#[test]
fn what_cannot_work_is_refused() {
    let refused = [
        Policy { max: 0, min: 0, ..policy() },
        Policy { max: WORKERS_MAX + 1, ..policy() },
        Policy { min: 11, ..policy() },
        Policy { per_worker: Some(0), ..policy() },
        Policy { drain_within_ms: Some(0), ..policy() },
        Policy { oldest_within_ms: Some(u64::MAX), ..policy() },
        Policy { window_ms: 0, ..policy() },
        Policy { step_out_max: 0, ..policy() },
    ];
    for policy in refused {
        assert!(policy.check().is_err(), "{policy:?}");
    }
    let target = |policy: Policy| policy.with_a_target().per_worker;
    assert_eq!(target(Policy::default()), Some(Policy::PER_WORKER));
    assert_eq!(target(Policy { drain_within_ms: Some(1), ..Policy::default() }), None);
}
