//! Sessions: so many at once, held while there is work, given up when there is none.

use bellwether_core::command::Disposition::{self, Complete, Release};
use bellwether_core::flow::{
    Action, Cause, Event, FlowConfig, SessionAction, SessionEvent, SessionFlow, SessionFlowConfig,
    Source, Verdict, Why,
};
use bellwether_core::name::{DeliveryNumber, Incarnation, SessionId, SessionToken};
use bellwether_core::time::BootTime;

use crate::story::{
    LOCK_MS, cancel, config, done, failed, handle, received, settle, settled, token,
};

pub(crate) fn session(name: &str) -> SessionToken {
    SessionToken {
        session: SessionId::new(name).expect("a name"),
        number: DeliveryNumber(1),
        incarnation: Incarnation(1),
    }
}

fn accept(attempt: u64) -> SessionAction {
    SessionAction::Accept { attempt, wait_ms: 30_000 }
}
fn close(name: &str) -> SessionAction {
    SessionAction::Close { session: session(name) }
}
fn renew(name: &str) -> SessionAction {
    SessionAction::Renew { session: session(name) }
}
fn act(name: &str, action: Action) -> SessionAction {
    SessionAction::In { session: session(name), action }
}
/// While messages come nobody waits for them; a patient receive waits the idle time.
fn receive(attempt: u64, max: u32) -> Action {
    Action::Receive { attempt, max, wait_ms: 0 }
}
fn patient(attempt: u64, max: u32) -> Action {
    Action::Receive { attempt, max, wait_ms: 5_000 }
}
fn withdraw(attempt: u64) -> Action {
    Action::Withdraw { attempt }
}
fn report(name: &str, source: Source, why: Why) -> SessionAction {
    SessionAction::Report { session: Some(session(name)), source, why }
}
fn accepted(attempt: u64, name: &str) -> SessionEvent {
    SessionEvent::Accepted { attempt, session: Some((session(name), LOCK_MS)) }
}
fn none_accepted(attempt: u64) -> SessionEvent {
    SessionEvent::Accepted { attempt, session: None }
}
fn closed(name: &str) -> SessionEvent {
    SessionEvent::Closed { session: session(name) }
}
fn renewed(name: &str) -> SessionEvent {
    SessionEvent::Renewed { session: session(name), lock_ms: LOCK_MS }
}
fn on(name: &str, event: Event) -> SessionEvent {
    SessionEvent::In { session: session(name), event }
}

struct Story(SessionFlow);

impl Story {
    /// Started at zero; its first accept is out.
    fn started(sessions: u32, flow: FlowConfig) -> Self {
        let config = SessionFlowConfig { sessions, accept_wait_ms: 30_000, idle_ms: 5_000, flow };
        let mut story = Self(SessionFlow::new(config));
        story.at(0, SessionEvent::Start, &[accept(1)]);
        story
    }

    #[track_caller]
    fn at(&mut self, ms: u64, event: SessionEvent, expected: &[SessionAction]) {
        assert_eq!(self.0.step(BootTime(ms), event), expected);
    }

    #[track_caller]
    fn wakes_at(&mut self, ms: u64, expected: &[SessionAction]) {
        assert_eq!(self.0.next_wake(), Some(BootTime(ms)));
        self.at(ms, SessionEvent::Wake, expected);
    }
}

#[test]
fn a_session_is_taken_worked_off_kept_for_a_wait_and_closed() {
    let mut story = Story::started(1, config());
    story.at(1, accepted(1, "a"), &[act("a", receive(1, 1))]);
    story.at(2, on("a", received(1, &[1])), &[act("a", handle(1))]);
    // In order: nothing is taken before the one before is settled.
    story.at(3, on("a", done(1, Verdict::Complete)), &[act("a", settle(1, Complete))]);
    story.at(4, on("a", settled(1)), &[act("a", receive(2, 1))]);
    // Nothing more: it waits, and meanwhile another session may have its place.
    story.at(5, on("a", received(2, &[])), &[act("a", patient(3, 1)), accept(2)]);
    story.at(5_005, on("a", received(3, &[])), &[close("a")]);
    assert_eq!(story.0.sessions(), 1);
    story.at(5_006, closed("a"), &[]);
    assert_eq!(story.0.sessions(), 0);
    story.at(30_005, none_accepted(2), &[accept(3)]);
}

#[test]
fn no_more_sessions_than_allowed_and_one_call_each() {
    let mut story = Story::started(2, config());
    story.at(1, accepted(1, "a"), &[act("a", receive(1, 1)), accept(2)]);
    story.at(1, accepted(2, "b"), &[act("b", receive(1, 1))]);
    story.at(2, on("a", received(1, &[1])), &[act("a", handle(1))]);
    story.at(2, on("b", received(1, &[2])), &[act("b", handle(2))]);
    assert_eq!(story.0.running(), 2);

    let mut two = Story::started(1, FlowConfig { concurrency: 2, ..config() });
    two.at(1, accepted(1, "a"), &[act("a", receive(1, 2))]);
    let both = [act("a", handle(1)), act("a", handle(2))];
    two.at(2, on("a", received(1, &[1, 2])), &both);
}

#[test]
fn an_idle_session_gives_way_to_one_that_has_messages() {
    let mut story = Story::started(1, config());
    story.at(1, accepted(1, "a"), &[act("a", receive(1, 1))]);
    story.at(2, on("a", received(1, &[])), &[act("a", patient(2, 1)), accept(2)]);
    let gives_way = [act("a", withdraw(2)), act("b", receive(1, 1))];
    story.at(3, accepted(2, "b"), &gives_way);
    // What came in that very moment goes back, uncounted.
    story.at(4, on("a", received(2, &[1])), &[act("a", settle(1, Release))]);
    story.at(5, on("b", received(1, &[2])), &[act("b", handle(2))]);
    story.at(6, on("a", settled(1)), &[close("a")]);
    story.at(7, closed("a"), &[]);
}

#[test]
fn a_session_that_comes_when_all_are_busy_again_is_let_go_unused() {
    let mut story = Story::started(1, config());
    story.at(1, accepted(1, "a"), &[act("a", receive(1, 1))]);
    story.at(2, on("a", received(1, &[])), &[act("a", patient(2, 1)), accept(2)]);
    let busy = [act("a", handle(1)), SessionAction::WithdrawAccept { attempt: 2 }];
    story.at(3, on("a", received(2, &[1])), &busy);
    story.at(4, accepted(2, "b"), &[close("b")]);
    story.at(5, closed("b"), &[]);
}

#[test]
fn the_hold_is_renewed_while_its_handler_runs_and_messages_are_not() {
    let mut story = Story::started(1, config());
    story.at(0, accepted(1, "a"), &[act("a", receive(1, 1))]);
    story.at(0, on("a", received(1, &[1])), &[act("a", handle(1))]);
    for ms in [4_000, 8_000, 12_000, 16_000, 20_000, 24_000, 28_000] {
        story.wakes_at(ms, &[renew("a")]);
        story.at(ms, renewed("a"), &[]);
    }
    let complete = act("a", settle(1, Complete));
    story.at(30_000, on("a", done(1, Verdict::Complete)), &[complete]);
}

#[test]
fn what_stands_behind_a_message_that_comes_back_goes_back_too() {
    let mut story = Story::started(1, FlowConfig { prefetch: 2, ..config() });
    story.at(0, accepted(1, "a"), &[act("a", receive(1, 3))]);
    story.at(0, on("a", received(1, &[1, 2, 3])), &[act("a", handle(1))]);
    let later = Disposition::Abandon { delay_ms: Some(7) };
    let back =
        [settle(1, later), settle(2, Release), settle(3, Release)].map(|back| act("a", back));
    story.at(1, on("a", done(1, Verdict::Retry { after_ms: Some(7) })), &back);
    story.at(2, on("a", settled(2)), &[]);
    story.at(2, on("a", settled(1)), &[]);
    // Only now is the next one that comes the right one.
    story.at(2, on("a", settled(3)), &[act("a", receive(2, 3))]);
}

#[test]
fn a_lost_hold_cancels_its_handlers_and_their_results_are_dropped() {
    for end in [done(1, Verdict::Complete), failed(1)] {
        let mut story = Story::started(1, FlowConfig { prefetch: 1, ..config() });
        story.at(0, accepted(1, "a"), &[act("a", receive(1, 2))]);
        story.at(0, on("a", received(1, &[1, 2])), &[act("a", handle(1))]);
        story.wakes_at(4_000, &[renew("a")]);
        let gone = |sequence| Action::Report {
            source: Source::Renew,
            token: Some(token(sequence)),
            why: Why::Refused,
        };
        let told = [
            report("a", Source::Renew, Why::Refused),
            act("a", gone(1)),
            act("a", cancel(1, Cause::LockLost)),
            act("a", gone(2)),
        ];
        story.at(4_001, SessionEvent::RenewRefused { session: session("a") }, &told);
        // Its handler still runs, so it keeps its place.
        story.at(4_002, SessionEvent::Wake, &[]);
        story.at(5_000, on("a", end), &[accept(2)]);
        assert_eq!(story.0.sessions(), 0, "and it is not closed: it is not ours");
    }
}

#[test]
fn a_handler_that_hangs_loses_its_session() {
    let mut story = Story::started(1, FlowConfig { renew_max_ms: 5_000, ..config() });
    story.at(0, accepted(1, "a"), &[act("a", receive(1, 1))]);
    story.at(0, on("a", received(1, &[1])), &[act("a", handle(1))]);
    story.wakes_at(4_000, &[renew("a")]);
    story.at(4_000, renewed("a"), &[]);
    story.wakes_at(8_000, &[]);
    let gone = Action::Report { source: Source::Renew, token: Some(token(1)), why: Why::GivenUp };
    let told = [
        report("a", Source::Renew, Why::GivenUp),
        act("a", gone),
        act("a", cancel(1, Cause::LockLost)),
    ];
    story.wakes_at(14_000, &told);
    story.at(15_000, on("a", done(1, Verdict::Complete)), &[accept(2)]);
}

#[test]
fn nothing_is_taken_or_begun_while_nobody_knows_whether_the_session_is_ours() {
    let mut story = Story::started(1, FlowConfig { prefetch: 1, ..config() });
    story.at(0, accepted(1, "a"), &[act("a", receive(1, 2))]);
    story.at(0, on("a", received(1, &[1, 2])), &[act("a", handle(1))]);
    story.wakes_at(4_000, &[renew("a")]);
    // The renewal is not answered; trust ends at 8 000, the hold at 10 000.
    story.wakes_at(8_000, &[act("a", settle(2, Release))]);
    story.at(8_001, on("a", done(1, Verdict::Complete)), &[act("a", settle(1, Complete))]);
    story.at(8_002, on("a", settled(1)), &[]);
    story.at(8_002, on("a", settled(2)), &[]);
    story.at(8_003, renewed("a"), &[act("a", receive(2, 2))]);
}

#[test]
fn a_pause_gives_the_sessions_to_others_when_what_runs_has_ended() {
    let mut story = Story::started(2, config());
    story.at(0, accepted(1, "a"), &[act("a", receive(1, 1)), accept(2)]);
    story.at(0, on("a", received(1, &[1])), &[act("a", handle(1))]);
    story.at(1, SessionEvent::Pause, &[SessionAction::WithdrawAccept { attempt: 2 }]);
    story.at(2, accepted(2, "b"), &[close("b")]);
    story.at(3, closed("b"), &[]);
    story.wakes_at(4_000, &[renew("a")]);
    story.at(4_000, renewed("a"), &[]);
    story.at(5_000, on("a", done(1, Verdict::Complete)), &[act("a", settle(1, Complete))]);
    story.at(5_001, on("a", settled(1)), &[close("a")]);
    story.at(5_002, closed("a"), &[]);
    assert_eq!(story.0.next_wake(), None);
    story.at(6_000, SessionEvent::Resume, &[accept(3)]);
}

#[test]
fn a_stop_ends_what_runs_closes_the_sessions_and_then_says_so() {
    let mut story = Story::started(2, config());
    story.at(0, accepted(1, "a"), &[act("a", receive(1, 1)), accept(2)]);
    story.at(0, accepted(2, "b"), &[act("b", receive(1, 1))]);
    story.at(0, on("a", received(1, &[1])), &[act("a", handle(1))]);
    story.at(1, SessionEvent::Stop, &[act("b", withdraw(1))]);
    story.at(2, on("b", received(1, &[])), &[close("b")]);
    story.at(3, on("a", done(1, Verdict::Complete)), &[act("a", settle(1, Complete))]);
    story.at(4, on("a", settled(1)), &[close("a")]);
    let unknown = SessionEvent::CloseFailed { session: session("b") };
    story.at(5, unknown, &[report("b", Source::Close, Why::GivenUp)]);
    story.at(6, closed("a"), &[SessionAction::Stopped]);
    story.at(7, SessionEvent::Start, &[]);
    assert_eq!(story.0.next_wake(), None);
}
