//! Pause, resume, stop.

use bellwether_core::command::Disposition::{Abandon, Complete, Release};
use bellwether_core::flow::{Action, Cause, Event, Flow, FlowConfig, Source, Verdict, Why};
use bellwether_core::time::BootTime;

use crate::story::{
    Story, cancel, config, done, failed, handle, receive, received, renew, renewed, report, settle,
    settled, token,
};

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
