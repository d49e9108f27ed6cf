//! What is taken, when, and how it ends.

use bellwether_core::command::Disposition::{Abandon, Complete, DeadLetter, Defer, Release};
use bellwether_core::flow::{Event, Flow, FlowConfig, Source, Verdict, Why};
use bellwether_core::time::BootTime;

use crate::story::{
    Story, config, done, failed, handle, receive, received, report, settle, settled,
};

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
        (Verdict::Retry { after_ms: Some(0) }, Abandon { delay_ms: Some(0) }),
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
