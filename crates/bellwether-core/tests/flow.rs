//! Stories of one pump, and a world that tries to confuse it.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::chance::Chance;
use bellwether_core::command::Disposition::{self, Abandon, Complete, DeadLetter, Defer, Release};
use bellwether_core::flow::{
    Action, Arrival, Cause, Event, Flow, FlowConfig, Retry, Source, Verdict, Why,
};
use bellwether_core::name::{DeliveryNumber, Incarnation, LockToken, SequenceNumber};
use bellwether_core::time::BootTime;

const LOCK_MS: u32 = 10_000;

fn token(sequence: u64) -> LockToken {
    LockToken {
        sequence: SequenceNumber(sequence),
        number: DeliveryNumber(1),
        incarnation: Incarnation(1),
    }
}

fn config() -> FlowConfig {
    let retry = Retry { base_ms: 1_000, factor: 2, max_ms: 60_000, jitter_percent: 0 };
    FlowConfig { receive_max: 10, wait_ms: 30_000, retry, ..FlowConfig::default() }
}

fn receive(attempt: u64, max: u32) -> Action {
    Action::Receive { attempt, max, wait_ms: 30_000 }
}
fn handle(sequence: u64) -> Action {
    Action::Handle { token: token(sequence) }
}
fn cancel(sequence: u64, why: Cause) -> Action {
    Action::CancelHandler { token: token(sequence), why }
}
fn renew(sequence: u64) -> Action {
    Action::Renew { token: token(sequence) }
}
fn settle(sequence: u64, disposition: Disposition) -> Action {
    Action::Settle { token: token(sequence), disposition }
}
fn report(source: Source, sequence: u64, why: Why) -> Action {
    Action::Report { source, token: Some(token(sequence)), why }
}
fn done(sequence: u64, verdict: Verdict) -> Event {
    Event::HandlerDone { token: token(sequence), verdict }
}
fn failed(sequence: u64) -> Event {
    Event::HandlerFailed { token: token(sequence) }
}
fn renewed(sequence: u64) -> Event {
    Event::Renewed { token: token(sequence), lock_ms: LOCK_MS }
}
fn settled(sequence: u64) -> Event {
    Event::Settled { token: token(sequence) }
}
fn arrivals(sequences: &[u64], lock_ms: u32) -> Vec<Arrival> {
    let arrival = |&sequence| Arrival { token: token(sequence), lock_ms, deliveries: 1 };
    sequences.iter().map(arrival).collect()
}
fn received(attempt: u64, sequences: &[u64]) -> Event {
    Event::Received { attempt, deliveries: arrivals(sequences, LOCK_MS) }
}

/// A flow and the time on its clock.
struct Story {
    flow: Flow,
}

impl Story {
    /// Started at zero; its first receive is out.
    fn started(config: FlowConfig) -> Self {
        let mut flow = Flow::new(config);
        flow.step(BootTime(0), Event::Start);
        Self { flow }
    }

    #[track_caller]
    fn at(&mut self, ms: u64, event: Event, expected: &[Action]) {
        assert_eq!(self.flow.step(BootTime(ms), event), expected);
    }

    /// Nothing is due before `ms`; then this is.
    #[track_caller]
    fn wakes_at(&mut self, ms: u64, expected: &[Action]) {
        assert_eq!(self.flow.next_wake(), Some(BootTime(ms)));
        self.at(ms, Event::Wake, expected);
    }
}

#[test]
fn a_message_is_taken_handled_completed_and_the_next_one_asked_for() {
    let mut flow = Flow::new(config());
    assert_eq!(flow.next_wake(), None);
    assert_eq!(flow.step(BootTime(0), Event::Start), [receive(1, 1)]);
    let mut story = Story { flow };
    story.at(5, received(1, &[1]), &[handle(1)]);
    story.at(9, done(1, Verdict::Complete), &[settle(1, Complete), receive(2, 1)]);
    story.at(11, settled(1), &[]);
    // Doubled answers and wake-ups change nothing.
    story.at(11, settled(1), &[]);
    story.at(11, received(1, &[1]), &[]);
    story.at(12, Event::Wake, &[]);
}

#[test]
fn no_more_handlers_than_allowed_and_nothing_taken_for_a_busy_one() {
    let mut story = Story::started(FlowConfig { concurrency: 3, receive_max: 2, ..config() });
    story.at(1, received(1, &[1, 2]), &[handle(1), handle(2), receive(2, 1)]);
    story.at(2, received(2, &[3]), &[handle(3)]);
    story.at(3, done(2, Verdict::Complete), &[settle(2, Complete), receive(3, 1)]);
}

#[test]
fn settlements_that_hang_stop_the_taking_before_they_pile_up() {
    let mut story = Story::started(FlowConfig { concurrency: 1, ..config() });
    story.at(1, received(1, &[1]), &[handle(1)]);
    story.at(2, done(1, Verdict::Complete), &[settle(1, Complete), receive(2, 1)]);
    story.at(3, received(2, &[2]), &[handle(2)]);
    story.at(4, done(2, Verdict::Complete), &[settle(2, Complete)]);
    story.at(5, settled(1), &[receive(3, 1)]);
}

#[test]
fn a_handler_that_settled_itself_is_not_settled_again() {
    let mut story = Story::started(config());
    story.at(1, received(1, &[1]), &[handle(1)]);
    story.at(2, done(1, Verdict::SettledByHandler), &[receive(2, 1)]);

    let mut manual = Story::started(FlowConfig { auto_settle: false, ..config() });
    manual.at(1, received(1, &[1]), &[handle(1)]);
    manual.at(2, done(1, Verdict::Complete), &[receive(2, 1)]);
    manual.at(3, received(2, &[2]), &[handle(2)]);
    let abandon = settle(2, Abandon { delay_ms: Some(1_000) });
    manual.at(4, failed(2), &[report(Source::Handler, 2, Why::Failed), abandon, receive(3, 1)]);
}

#[test]
fn every_verdict_has_its_end() {
    let ends = [
        (Verdict::Complete, Complete),
        (Verdict::Retry { after_ms: None }, Abandon { delay_ms: Some(1_000) }),
        (Verdict::Retry { after_ms: Some(0) }, Abandon { delay_ms: None }),
        (Verdict::Retry { after_ms: Some(7) }, Abandon { delay_ms: Some(7) }),
        (Verdict::DeadLetter, DeadLetter),
        (Verdict::Defer, Defer),
        (Verdict::Release, Release),
    ];
    for (verdict, disposition) in ends {
        let mut story = Story::started(config());
        story.at(1, received(1, &[1]), &[handle(1)]);
        story.at(2, done(1, verdict), &[settle(1, disposition), receive(2, 1)]);
    }
}

#[test]
fn a_lost_lock_cancels_the_handler_and_its_result_is_dropped() {
    for end in [done(1, Verdict::Complete), failed(1), done(1, Verdict::DeadLetter)] {
        let mut story = Story::started(config());
        story.at(0, received(1, &[1]), &[handle(1)]);
        story.wakes_at(4_000, &[renew(1)]);
        let told = [report(Source::Renew, 1, Why::Refused), cancel(1, Cause::LockLost)];
        story.at(4_010, Event::RenewRefused { token: token(1) }, &told);
        assert_eq!(story.flow.running(), 1, "it keeps its place until it has ended");
        story.at(5_000, end, &[receive(2, 1)]);
    }
}

#[test]
fn a_renewal_refused_because_of_our_own_settlement_is_no_news() {
    let mut story = Story::started(config());
    story.at(0, received(1, &[1]), &[handle(1)]);
    story.wakes_at(4_000, &[renew(1)]);
    story.at(4_001, done(1, Verdict::Complete), &[settle(1, Complete), receive(2, 1)]);
    story.at(4_002, Event::RenewRefused { token: token(1) }, &[]);
    story.at(4_003, settled(1), &[]);
}

#[test]
fn a_handler_of_three_locks_length_is_kept_by_renewals() {
    let mut story = Story::started(config());
    story.at(0, received(1, &[1]), &[handle(1)]);
    // Half of the trusted 8 s; after that half of what is trusted from the request on.
    story.wakes_at(4_000, &[renew(1)]);
    story.at(4_200, renewed(1), &[]);
    story.wakes_at(8_100, &[renew(1)]);
    story.at(8_100, renewed(1), &[]);
    for ms in [12_100, 16_100, 20_100, 24_100, 28_100] {
        story.wakes_at(ms, &[renew(1)]);
        story.at(ms, renewed(1), &[]);
    }
    story.at(30_000, done(1, Verdict::Complete), &[settle(1, Complete), receive(2, 1)]);
}

#[test]
fn renewal_ends_at_its_maximum_and_the_handler_hears_of_it() {
    let mut story = Story::started(FlowConfig { renew_max_ms: 5_000, ..config() });
    story.at(0, received(1, &[1]), &[handle(1)]);
    story.wakes_at(4_000, &[renew(1)]);
    story.at(4_000, renewed(1), &[]);
    // The whole lock is the handler's, not just the trusted part of it.
    let told = [report(Source::Renew, 1, Why::GivenUp), cancel(1, Cause::LockLost)];
    story.wakes_at(14_000, &told);
    story.at(14_001, done(1, Verdict::Complete), &[receive(2, 1)]);
}

#[test]
fn the_maximum_is_the_handlers_own_and_waiting_does_not_use_it_up() {
    let mut story = Story::started(FlowConfig { prefetch: 1, renew_max_ms: 5_000, ..config() });
    story.at(0, received(1, &[1, 2]), &[handle(1)]);
    story.wakes_at(4_000, &[renew(1), renew(2)]);
    story.at(4_000, renewed(1), &[]);
    story.at(4_000, renewed(2), &[]);
    let next = [settle(1, Complete), handle(2), receive(2, 1)];
    story.at(6_000, done(1, Verdict::Complete), &next);
    // Half of what is trusted until 12 000.
    story.wakes_at(9_000, &[renew(2)]);
}

#[test]
fn work_done_within_the_lock_counts_without_renewal() {
    let mut story = Story::started(FlowConfig { renew_max_ms: 0, ..config() });
    story.at(0, received(1, &[1]), &[handle(1)]);
    story.at(9_900, done(1, Verdict::Complete), &[settle(1, Complete), receive(2, 1)]);
}

#[test]
fn with_less_than_400_ms_left_the_lock_is_renewed_at_once() {
    let mut story = Story::started(config());
    story.at(0, received(1, &[1]), &[handle(1)]);
    story.wakes_at(4_000, &[renew(1)]);
    // Trusted until 5 600, 80 % from the request on; the answer was long on its way.
    let short = Event::Renewed { token: token(1), lock_ms: 2_000 };
    story.at(5_300, short, &[renew(1)]);
}

#[test]
fn a_lock_that_is_short_from_the_start_does_not_keep_the_engine_busy() {
    let mut story = Story::started(config());
    let short = Event::Received { attempt: 1, deliveries: arrivals(&[1], 100) };
    story.at(0, short, &[handle(1)]);
    story.wakes_at(40, &[renew(1)]);
    story.at(41, Event::Renewed { token: token(1), lock_ms: 100 }, &[]);
    story.wakes_at(81, &[renew(1)]);
}

#[test]
fn an_unknown_renewal_is_tried_again_until_the_lock_ends() {
    let mut story = Story::started(config());
    story.at(0, received(1, &[1]), &[handle(1)]);
    let unknown = report(Source::Renew, 1, Why::Unknown);
    for ms in [4_000, 5_000, 6_000, 7_000, 8_000, 9_000, 9_500, 9_750, 9_875, 9_937] {
        story.wakes_at(ms, &[renew(1)]);
        story.at(ms, Event::RenewFailed { token: token(1) }, std::slice::from_ref(&unknown));
    }
    story.wakes_at(9_987, &[renew(1)]);
    let told = [report(Source::Renew, 1, Why::GivenUp), cancel(1, Cause::LockLost)];
    story.wakes_at(10_000, &told);
    // The answer that comes after all changes nothing.
    story.at(10_001, renewed(1), &[]);
    story.at(10_002, done(1, Verdict::Complete), &[receive(2, 1)]);
}

#[test]
fn a_waiting_message_is_kept_by_renewals_and_handled_in_its_turn() {
    let mut story = Story::started(FlowConfig { prefetch: 2, ..config() });
    story.at(0, received(1, &[1, 2, 3]), &[handle(1)]);
    assert_eq!(story.flow.waiting(), 2);
    story.wakes_at(4_000, &[renew(1), renew(2), renew(3)]);
    for sequence in [1, 2, 3] {
        story.at(4_000, renewed(sequence), &[]);
    }
    let next = [settle(1, Complete), handle(2), receive(2, 1)];
    story.at(6_000, done(1, Verdict::Complete), &next);
}

#[test]
fn a_waiting_message_is_given_back_before_its_lock_runs_out() {
    let unrenewed = FlowConfig { prefetch: 1, renew_max_ms: 0, ..config() };
    let mut story = Story::started(unrenewed);
    story.at(0, received(1, &[1, 2]), &[handle(1)]);
    story.wakes_at(8_000, &[settle(2, Release), receive(2, 1)]);

    // Nobody knows whether the renewal was done: unsure means no.
    let mut story = Story::started(FlowConfig { prefetch: 1, ..config() });
    story.at(0, received(1, &[1, 2]), &[handle(1)]);
    story.wakes_at(4_000, &[renew(1), renew(2)]);
    story.at(4_001, renewed(1), &[]);
    // Trust ends at 8 000, and with it the turn of the second, even if the first ends just then.
    let end = [settle(1, Complete), settle(2, Release), receive(2, 1)];
    story.at(8_000, done(1, Verdict::Complete), &end);
}

#[test]
fn a_lock_that_may_have_run_out_on_the_way_is_never_handed_to_a_handler() {
    // A receive that does not wait was answered when it was asked, or any time since.
    let mut story = Story::started(FlowConfig { wait_ms: 0, ..config() });
    let again = Action::Receive { attempt: 2, max: 1, wait_ms: 0 };
    story.at(8_000, received(1, &[1]), &[settle(1, Release), again]);

    // Of a long poll only the answer says something.
    let mut story = Story::started(config());
    story.at(29_000, received(1, &[1]), &[handle(1)]);

    let mut story = Story::started(FlowConfig { prefetch: 1, ..config() });
    story.at(0, received(1, &[1, 2]), &[handle(1)]);
    story.wakes_at(4_000, &[renew(1), renew(2)]);
    let lost = [report(Source::Renew, 2, Why::Refused), receive(2, 1)];
    story.at(4_001, Event::RenewRefused { token: token(2) }, &lost);
    story.at(4_002, done(1, Verdict::Complete), &[settle(1, Complete)]);
}

#[test]
fn pause_stops_the_taking_and_what_runs_goes_on() {
    let mut story = Story::started(FlowConfig { concurrency: 2, ..config() });
    story.at(0, received(1, &[1]), &[handle(1), receive(2, 1)]);
    story.at(1, Event::Pause, &[Action::Withdraw { attempt: 2 }]);
    story.at(2, Event::Pause, &[]);
    // Two minutes: no lock ends, nothing is taken.
    let mut ms = 4_000;
    while ms < 120_000 {
        story.wakes_at(ms, &[renew(1)]);
        story.at(ms, renewed(1), &[]);
        ms += 4_000;
    }
    // Taken before the withdrawal was heard: back, and not counted.
    story.at(118_000, received(2, &[2]), &[settle(2, Release)]);
    story.at(118_001, done(1, Verdict::Complete), &[settle(1, Complete)]);
    story.at(118_002, settled(1), &[]);
    story.at(118_003, settled(2), &[]);
    assert_eq!(story.flow.next_wake(), None);
    story.at(119_000, Event::Resume, &[receive(3, 2)]);
}

#[test]
fn pause_gives_back_what_waits_and_resume_waits_for_the_withdrawn_receive() {
    let mut story = Story::started(FlowConfig { prefetch: 3, ..config() });
    story.at(0, received(1, &[1, 2, 3]), &[handle(1), receive(2, 1)]);
    let back = [Action::Withdraw { attempt: 2 }, settle(2, Release), settle(3, Release)];
    story.at(1, Event::Pause, &back);
    story.at(2, settled(2), &[]);
    story.at(2, settled(3), &[]);
    story.at(3, Event::Resume, &[]);
    story.at(4, received(2, &[]), &[receive(3, 3)]);
}

#[test]
fn a_stop_withdraws_gives_back_finishes_and_then_says_so() {
    let mut story = Story::started(FlowConfig { concurrency: 2, prefetch: 2, ..config() });
    story.at(0, received(1, &[1, 2, 3]), &[handle(1), handle(2), receive(2, 1)]);
    story.at(1, Event::Stop, &[Action::Withdraw { attempt: 2 }, settle(3, Release)]);
    story.at(2, received(2, &[4]), &[settle(4, Release)]);
    story.at(3, settled(3), &[]);
    story.at(4, settled(4), &[]);
    story.wakes_at(4_000, &[renew(1), renew(2)]);
    story.at(4_001, done(1, Verdict::Complete), &[settle(1, Complete)]);
    let abandon = settle(2, Abandon { delay_ms: Some(1_000) });
    story.at(4_002, failed(2), &[report(Source::Handler, 2, Why::Failed), abandon]);
    // Settlements may finish; and a renewal's answer is waited for.
    story.at(4_003, settled(1), &[]);
    story.at(4_004, settled(2), &[]);
    story.at(4_005, renewed(1), &[]);
    story.at(4_006, renewed(2), &[Action::Stopped]);
    story.at(4_007, Event::Start, &[]);
    story.at(4_008, Event::Stop, &[]);
    assert_eq!(story.flow.next_wake(), None);
}

#[test]
fn a_settlement_of_unknown_outcome_is_finished_before_the_end() {
    let mut story = Story::started(config());
    story.at(0, received(1, &[1]), &[handle(1)]);
    story.at(1, Event::Stop, &[]);
    story.at(2, done(1, Verdict::Complete), &[settle(1, Complete)]);
    let unknown = [report(Source::Settle, 1, Why::Unknown)];
    story.at(3, Event::SettleFailed { token: token(1) }, &unknown);
    story.wakes_at(53, &[settle(1, Complete)]);
    story.at(54, settled(1), &[Action::Stopped]);
}

#[test]
fn when_the_grace_is_over_the_rest_is_told_and_given_back() {
    let graceful = FlowConfig { concurrency: 3, stop_grace_ms: 1_000, ..config() };
    let mut story = Story::started(graceful);
    story.at(0, received(1, &[1, 2, 3]), &[handle(1), handle(2), handle(3)]);
    story.at(500, Event::Stop, &[]);
    story.at(900, done(1, Verdict::Complete), &[settle(1, Complete)]);
    story.wakes_at(1_500, &[cancel(2, Cause::GraceOver), cancel(3, Cause::GraceOver)]);
    // Being cancelled is not the message's fault: not counted, not reported.
    story.at(1_600, failed(2), &[settle(2, Release)]);
    // Done after all is done.
    story.at(1_700, done(3, Verdict::Complete), &[settle(3, Complete)]);
    story.at(1_701, settled(3), &[]);
    story.at(1_702, settled(1), &[]);
    story.at(1_703, settled(2), &[Action::Stopped]);
}

#[test]
fn an_idle_flow_stops_at_once() {
    let mut flow = Flow::new(config());
    assert_eq!(flow.step(BootTime(0), Event::Stop), [Action::Stopped]);
    let mut story = Story::started(config());
    story.at(1, Event::Stop, &[Action::Withdraw { attempt: 1 }]);
    story.at(2, Event::ReceiveFailed { attempt: 1 }, &[Action::Stopped]);
}

#[test]
fn a_failing_message_stays_away_longer_each_time() {
    let delays: [(u32, u64); 6] =
        [(0, 1_000), (1, 1_000), (2, 2_000), (5, 16_000), (7, 60_000), (u32::MAX, 60_000)];
    for (deliveries, ms) in delays {
        let mut story = Story::started(config());
        let arrival = Arrival { token: token(1), lock_ms: LOCK_MS, deliveries };
        let event = Event::Received { attempt: 1, deliveries: vec![arrival] };
        story.at(0, event, &[handle(1)]);
        let abandon = settle(1, Abandon { delay_ms: Some(ms) });
        let reported = report(Source::Handler, 1, Why::Failed);
        story.at(1, failed(1), &[reported, abandon, receive(2, 1)]);
    }
}

#[test]
fn what_failed_together_does_not_come_back_together() {
    let retry = Retry { base_ms: 10_000, factor: 2, max_ms: 60_000, jitter_percent: 20 };
    let delays: BTreeSet<u64> = (0..100).map(|i| retry.delay_ms(1, 7, token(i))).collect();
    assert!(delays.len() > 80, "{} different delays", delays.len());
    assert!(delays.iter().all(|ms| (8_000..=10_000).contains(ms)));
    assert_eq!(retry.delay_ms(1, 7, token(1)), retry.delay_ms(1, 7, token(1)));
    let none = Retry { base_ms: 0, ..retry };
    assert_eq!(none.delay_ms(9, 7, token(1)), 0);
}

#[test]
fn an_unknown_settlement_is_repeated_until_the_lock_ends_then_dropped() {
    let mut story = Story::started(config());
    story.at(0, received(1, &[1]), &[handle(1)]);
    story.at(8_000, done(1, Verdict::Defer), &[settle(1, Defer), receive(2, 1)]);
    let unknown = [report(Source::Settle, 1, Why::Unknown)];
    let fails = || Event::SettleFailed { token: token(1) };
    story.at(8_000, fails(), &unknown);
    for ms in [8_050, 8_150, 8_350, 8_750] {
        story.wakes_at(ms, &[settle(1, Defer)]);
        story.at(ms, fails(), &unknown);
    }
    story.wakes_at(9_550, &[settle(1, Defer)]);
    story.at(9_550, fails(), &[report(Source::Settle, 1, Why::GivenUp)]);

    let mut story = Story::started(config());
    story.at(0, received(1, &[1]), &[handle(1)]);
    story.at(1, done(1, Verdict::Defer), &[settle(1, Defer), receive(2, 1)]);
    let refused = [report(Source::Settle, 1, Why::Refused)];
    story.at(2, Event::SettleRefused { token: token(1) }, &refused);
}

#[test]
fn failing_receives_back_off_with_growth_and_are_reported() {
    let mut story = Story::started(config());
    let reported = [Action::Report { source: Source::Receive, token: None, why: Why::Unknown }];
    let mut ms = 0;
    for (attempt, pause_ms) in (1..).zip([100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000])
    {
        story.at(ms, Event::ReceiveFailed { attempt }, &reported);
        let wake = story.flow.next_wake().unwrap().0;
        assert!((ms + pause_ms * 8 / 10..=ms + pause_ms).contains(&wake), "{attempt}: {wake}");
        ms = wake;
        story.at(ms, Event::Wake, &[receive(attempt + 1, 1)]);
    }
    story.at(ms, received(10, &[1]), &[handle(1)]);
}

#[test]
fn an_empty_answer_is_no_error_and_not_asked_for_without_a_breath() {
    let mut story = Story::started(FlowConfig { wait_ms: 0, ..config() });
    story.at(1, received(1, &[]), &[]);
    let wake = story.flow.next_wake().unwrap();
    assert!((80..=100).contains(&wake.0));
    story.at(wake.0, Event::Wake, &[Action::Receive { attempt: 2, max: 1, wait_ms: 0 }]);

    let mut waited = Story::started(config());
    waited.at(30_000, received(1, &[]), &[receive(2, 1)]);
}

// ---- a world that answers late, wrongly or not at all ----------------------------------------

/// Chance, with the ways a world rolls it.
struct Dice(Chance);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }
    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// What the world knows of one delivery.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts to check against, not a state")]
struct Known {
    /// When the lock ends in truth.
    lock_ends: u64,
    /// When it is over by everything the pump was told.
    heard_ends: u64,
    lock_ms: u32,
    handled: bool,
    running: bool,
    told: bool,
    /// The pump was told, or said itself, that the lock is lost.
    lost: bool,
    /// Gone from the engine's side.
    gone: bool,
    /// What the handler asked for; the flow owes it.
    owed: bool,
    settlement: Option<Disposition>,
    /// The settlement may be sent (again).
    may_settle: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Receive,
    Handler(LockToken),
    Renew(LockToken),
    Settle(LockToken),
}

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts to check against, not a state")]
struct World {
    flow: Flow,
    config: FlowConfig,
    now: u64,
    taking: bool,
    stopping: bool,
    stopped: bool,
    receive: Option<(u64, u64, u32)>,
    renewing: BTreeMap<LockToken, u64>,
    settling: BTreeSet<LockToken>,
    known: BTreeMap<LockToken, Known>,
    sequence: u64,
    coverage: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(dice: &mut Dice) -> Self {
        let config = FlowConfig {
            concurrency: 1 + dice.below(4) as u32,
            prefetch: dice.pick(&[0, 0, 1, 3]),
            receive_max: 1 + dice.below(5) as u32,
            wait_ms: dice.pick(&[0, 1_000, 30_000]),
            renew_max_ms: dice.pick(&[0, 1_000, 300_000]),
            auto_settle: dice.percent(80),
            stop_grace_ms: dice.pick(&[0, 500, 30_000]),
            seed: dice.below(u64::MAX),
            ..FlowConfig::default()
        };
        Self {
            flow: Flow::new(config.clone()),
            config,
            now: 0,
            taking: false,
            stopping: false,
            stopped: false,
            receive: None,
            renewing: BTreeMap::new(),
            settling: BTreeSet::new(),
            known: BTreeMap::new(),
            sequence: 0,
            coverage: BTreeMap::new(),
        }
    }

    fn running(&self) -> usize {
        self.known.values().filter(|known| known.running).count()
    }

    fn seen(&mut self, what: &'static str) {
        *self.coverage.entry(what).or_default() += 1;
    }

    fn step(&mut self, event: Event) {
        let was_stopped = self.stopped;
        let actions = self.flow.step(BootTime(self.now), event);
        assert!(!was_stopped || actions.is_empty(), "after the end: {actions:?}");
        for action in &actions {
            self.perform(action);
        }
        assert!(self.running() <= self.config.concurrency as usize, "more handlers than allowed");
        assert_eq!(self.running(), self.flow.running());
        if let Some(wake) = self.flow.next_wake() {
            assert!(wake.0 > self.now, "what is due now was not done");
        }
        let idle = self.running() == 0 && self.settling.is_empty() && self.renewing.is_empty();
        if self.taking && idle && self.receive.is_none() {
            assert!(self.flow.next_wake().is_some(), "an idle pump forgot to ask");
        }
    }

    fn perform(&mut self, action: &Action) {
        let now = self.now;
        match *action {
            Action::Receive { attempt, max, .. } => {
                assert!(self.taking, "taken while not taking");
                assert!(self.receive.is_none(), "two receives in flight");
                let places = (self.config.concurrency + self.config.prefetch) as usize;
                assert!(
                    self.running() + self.flow.waiting() + max as usize <= places,
                    "more taken than there are places"
                );
                assert!(max > 0 && max <= self.config.receive_max);
                self.receive = Some((attempt, now, max));
            }
            Action::Withdraw { attempt } => {
                assert!(!self.taking);
                assert_eq!(self.receive.map(|(attempt, ..)| attempt), Some(attempt));
            }
            Action::Handle { token } => {
                assert!(self.taking, "begun while not taking");
                let known = self.known.get_mut(&token).expect("known");
                assert!(!known.handled && !known.lost && known.settlement.is_none());
                assert!(now < known.lock_ends, "begun on a lock that has run out");
                known.handled = true;
                known.running = true;
            }
            Action::CancelHandler { token, why } => {
                let known = self.known.get_mut(&token).expect("known");
                assert!(known.running && !known.told, "told twice, or nobody");
                known.told = true;
                known.lost |= why == Cause::LockLost;
                assert!(why == Cause::LockLost || self.stopping);
                self.seen("handler cancelled");
            }
            Action::Renew { token } => {
                let known = &self.known[&token];
                assert!(!known.lost && known.settlement.is_none());
                assert!(known.running || !known.handled, "renewed after its handler ended");
                assert!(self.renewing.insert(token, now).is_none(), "two renewals in flight");
            }
            Action::Settle { token, disposition } => self.settle(token, disposition),
            Action::Report { source, token, why } => {
                if let Some(known) = token.and_then(|token| self.known.get_mut(&token)) {
                    known.lost |= source == Source::Renew && why != Why::Unknown;
                    known.lost |= source == Source::Settle && why == Why::GivenUp;
                }
                if why == Why::GivenUp {
                    self.seen("given up");
                }
            }
            Action::Stopped => {
                assert!(self.stopping && !self.stopped);
                let open = self.open();
                assert!(open.is_empty(), "stopped before {open:?} ended");
                for (token, known) in &self.known {
                    let settled = known.settlement.is_some() && !known.may_settle;
                    assert!(known.lost || settled || !known.owed, "forgotten: {token:?} {known:?}");
                }
                self.stopped = true;
            }
        }
    }

    fn settle(&mut self, token: LockToken, disposition: Disposition) {
        let known = self.known.get_mut(&token).expect("known");
        assert!(!known.lost, "settled although the lock was lost");
        assert!(!known.running, "settled while its handler runs");
        assert!(self.now < known.heard_ends, "settled after the lock's end");
        assert!(known.may_settle, "settled twice");
        assert!(known.handled || disposition == Disposition::Release);
        assert!(known.settlement.is_none_or(|first| first == disposition), "another settlement");
        known.settlement = Some(disposition);
        known.may_settle = false;
        assert!(self.settling.insert(token));
    }

    fn open(&self) -> Vec<Open> {
        let handlers = self.known.iter().filter(|(_, known)| known.running);
        self.receive
            .map(|_| Open::Receive)
            .into_iter()
            .chain(handlers.map(|(&token, _)| Open::Handler(token)))
            .chain(self.renewing.keys().map(|&token| Open::Renew(token)))
            .chain(self.settling.iter().map(|&token| Open::Settle(token)))
            .collect()
    }

    fn answer(&mut self, dice: &mut Dice, open: Open) {
        let event = match open {
            Open::Receive => self.answer_receive(dice),
            Open::Handler(token) => self.answer_handler(dice, token),
            Open::Renew(token) => self.answer_renew(dice, token),
            Open::Settle(token) => self.answer_settle(dice, token),
        };
        self.step(event);
    }

    fn answer_receive(&mut self, dice: &mut Dice) -> Event {
        let (attempt, asked_at, max) = self.receive.take().expect("open");
        if dice.percent(15) {
            return Event::ReceiveFailed { attempt };
        }
        let lock_ms = dice.pick(&[100, 500, 2_000, 10_000]);
        let count = dice.below(u64::from(max) + 1);
        let deliveries = (0..count).map(|_| {
            self.sequence += 1;
            // A long poll's answer is assumed to be under way for a fifth of the lock at most.
            let way_ms = match self.config.wait_ms {
                0 => self.now - asked_at,
                _ => (self.now - asked_at).min(u64::from(lock_ms) / 5),
            };
            let locked_at = self.now - dice.below(way_ms + 1);
            let known = Known {
                lock_ends: locked_at + u64::from(lock_ms),
                heard_ends: self.now + u64::from(lock_ms),
                lock_ms,
                handled: false,
                running: false,
                told: false,
                lost: false,
                gone: false,
                owed: true,
                settlement: None,
                may_settle: true,
            };
            self.known.insert(token(self.sequence), known);
            Arrival { token: token(self.sequence), lock_ms, deliveries: 1 }
        });
        let deliveries = deliveries.collect();
        Event::Received { attempt, deliveries }
    }

    fn answer_handler(&mut self, dice: &mut Dice, token: LockToken) -> Event {
        let known = self.known.get_mut(&token).expect("known");
        known.running = false;
        if dice.percent(20) {
            return Event::HandlerFailed { token };
        }
        let verdict = dice.pick(&[
            Verdict::Complete,
            Verdict::Complete,
            Verdict::Retry { after_ms: None },
            Verdict::DeadLetter,
            Verdict::Defer,
            Verdict::Release,
            Verdict::SettledByHandler,
        ]);
        if verdict == Verdict::SettledByHandler
            || (verdict == Verdict::Complete && !self.config.auto_settle)
        {
            known.owed = false;
            known.may_settle = false;
        }
        Event::HandlerDone { token, verdict }
    }

    fn answer_renew(&mut self, dice: &mut Dice, token: LockToken) -> Event {
        let asked_at = self.renewing.remove(&token).expect("open");
        let known = self.known.get_mut(&token).expect("known");
        let done_at = asked_at + dice.below(self.now - asked_at + 1);
        let lock_ms = known.lock_ms;
        // Locks are also lost early: a broker restarted, a link dropped.
        known.gone |= dice.percent(5);
        let held = !known.gone && done_at < known.lock_ends;
        let unknown = dice.percent(25);
        if held && (!unknown || dice.percent(50)) {
            known.lock_ends = done_at + u64::from(lock_ms);
        }
        if unknown {
            return Event::RenewFailed { token };
        }
        if held {
            known.heard_ends = self.now + u64::from(lock_ms);
            return Event::Renewed { token, lock_ms };
        }
        // A settlement already on its way is not called back.
        known.lost = true;
        self.seen("renewal refused");
        Event::RenewRefused { token }
    }

    fn answer_settle(&mut self, dice: &mut Dice, token: LockToken) -> Event {
        self.settling.remove(&token);
        let known = self.known.get_mut(&token).expect("known");
        if dice.percent(25) {
            known.may_settle = true;
            self.seen("settlement unknown");
            return Event::SettleFailed { token };
        }
        if known.gone || self.now >= known.lock_ends {
            return Event::SettleRefused { token };
        }
        known.gone = true;
        Event::Settled { token }
    }

    fn pass_time(&mut self, dice: &mut Dice) {
        let wake = self.flow.next_wake().map_or(self.now, |wake| wake.0);
        self.now = match dice.below(10) {
            0..=5 => wake.clamp(self.now, self.now + 5_000),
            6 => wake.max(self.now) + dice.below(300),
            7 => self.now + dice.below(4_000),
            _ => self.now + dice.below(100),
        };
        self.step(Event::Wake);
    }

    fn disturb(&mut self, dice: &mut Dice) {
        let stray = token(self.sequence + 1_000);
        match dice.below(6) {
            0 | 1 => {
                self.taking = false;
                self.step(Event::Pause);
            }
            2..=4 => {
                self.taking = true;
                self.step(Event::Resume);
            }
            _ => {
                let before = self.open();
                self.step(Event::Settled { token: stray });
                self.step(Event::HandlerFailed { token: stray });
                self.step(Event::RenewRefused { token: stray });
                self.step(Event::ReceiveFailed { attempt: u64::MAX });
                assert!(before.iter().all(|open| self.open().contains(open)));
            }
        }
    }

    fn run(&mut self, dice: &mut Dice, events: u64) {
        self.taking = true;
        self.step(Event::Start);
        for _ in 0..events {
            let open = self.open();
            match dice.below(20) {
                0 => self.disturb(dice),
                1..=13 if !open.is_empty() => {
                    self.now += dice.below(20);
                    let open = dice.pick(&open);
                    self.answer(dice, open);
                }
                _ => self.pass_time(dice),
            }
        }
    }

    fn stop(&mut self, dice: &mut Dice) {
        self.taking = false;
        self.stopping = true;
        self.step(Event::Stop);
        for _ in 0..10_000 {
            if self.stopped {
                self.step(Event::Wake);
                return;
            }
            let open = self.open();
            if !open.is_empty() && dice.percent(60) {
                let open = dice.pick(&open);
                self.answer(dice, open);
            } else {
                assert!(!open.is_empty() || self.flow.next_wake().is_some(), "stuck");
                self.pass_time(dice);
            }
        }
        panic!("it never stopped");
    }
}

#[test]
fn in_two_thousand_worlds_every_rule_holds_and_every_stop_ends() {
    let mut coverage: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..2_000 {
        let world = std::panic::catch_unwind(|| {
            let mut dice = Dice(Chance::new(seed));
            let mut world = World::new(&mut dice);
            let events = 300 - dice.pick(&[0, 0, 200]);
            world.run(&mut dice, events);
            world.stop(&mut dice);
            world
        });
        let Ok(world) = world else { panic!("seed {seed}") };
        for (what, count) in world.coverage {
            *coverage.entry(what).or_default() += count;
        }
        *coverage.entry("handled").or_default() +=
            world.known.values().filter(|known| known.handled).count() as u64;
        *coverage.entry("given back").or_default() +=
            world.known.values().filter(|known| !known.handled).count() as u64;
    }
    for what in [
        "handled",
        "given back",
        "handler cancelled",
        "renewal refused",
        "settlement unknown",
        "given up",
    ] {
        assert!(coverage.get(what).is_some_and(|&count| count > 1_000), "rare: {coverage:?}");
    }
}
