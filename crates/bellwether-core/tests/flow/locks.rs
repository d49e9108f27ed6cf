//! Locks: lost, renewed, run out on the way; and messages that wait with one.

use bellwether_core::command::Disposition::{Complete, Release};
use bellwether_core::flow::{Action, Cause, Event, FlowConfig, Source, Verdict, Why};

use crate::story::{
    Story, arrivals, cancel, config, done, failed, handle, receive, received, renew, renewed,
    report, settle, settled, token,
};

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
