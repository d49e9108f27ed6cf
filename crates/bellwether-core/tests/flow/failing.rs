//! Handlers, settlements and receives that fail.

use std::collections::BTreeSet;

use bellwether_core::command::Disposition::{Abandon, Defer};
use bellwether_core::flow::{Action, Arrival, Event, FlowConfig, Retry, Source, Verdict, Why};

use crate::story::{
    LOCK_MS, Story, config, done, failed, handle, receive, received, report, settle, token,
};

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
