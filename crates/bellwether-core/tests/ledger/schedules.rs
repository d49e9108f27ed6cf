//! Schedules: one message a slot, whatever happens.

use bellwether_core::command::{Command, NewContent};
use bellwether_core::error::Refusal;
use bellwether_core::message::MessageView;
use bellwether_core::name::ScheduleName;
use bellwether_core::outcome::Outcome;
use bellwether_core::schedule::{Missed, ScheduleInfo, ScheduleSettings, SteerSchedule};
use bellwether_core::settings::{QueueSettings, SettingsPatch, Status};

use super::store::{Store, main, queue, receive, session_settings, settings};

const MINUTE: u64 = 60_000;

fn name() -> ScheduleName {
    ScheduleName::new("s").unwrap()
}

fn every_minute(missed: Missed) -> ScheduleSettings {
    let (rule, zone) = ("every 1m".into(), "UTC".into());
    ScheduleSettings { rule, zone, queue: queue("q"), session: None, missed }
}

fn create(settings: ScheduleSettings) -> Command {
    let content = NewContent { index: 0, bytes: 10 };
    Command::CreateSchedule { schedule: name(), settings: Box::new(settings), content }
}

fn steer(how: SteerSchedule) -> Command {
    Command::SteerSchedule { schedule: name(), how }
}

impl Store {
    fn with_schedule(missed: Missed) -> Self {
        let mut store = Self::with_queue(settings());
        let created = store.ask(1, create(every_minute(missed)));
        assert_eq!(created, Ok(Outcome::ScheduleCreated { existed: false }));
        store
    }

    fn schedule(&mut self) -> ScheduleInfo {
        match self.ask(0, Command::ListSchedules { from: None, max: 9 }) {
            Ok(Outcome::Schedules(mut infos)) => infos.pop().expect("it is there"),
            other => panic!("{other:?}"),
        }
    }

    fn sent(&mut self) -> u64 {
        self.info("q").totals.sent
    }

    /// The store is closed for so long, and opened again.
    fn sleep(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        self.restart();
        self.join(9, 3_600_000);
        self.tick();
    }
}

/// K1, K3: each slot sends one message, which was enqueued at the slot.
#[test]
fn a_slot_sends_one_message() {
    let mut store = Store::with_schedule(Missed::Latest);
    let begin = store.now.wall.0;
    store.pass(MINUTE - 1);
    assert_eq!(store.sent(), 0);
    store.pass(1);
    assert_eq!(store.sent(), 1);
    store.tick();
    store.pass(2 * MINUTE);
    let views = store.receive(1, receive(main("q"), 9));
    let slots: Vec<u64> =
        views.iter().map(|view: &MessageView| view.message.enqueued_at.0).collect();
    assert_eq!(slots, [1, 2, 3].map(|nth| begin + nth * MINUTE));
    let info = store.schedule();
    assert_eq!((info.sent, info.skipped, info.last.unwrap().0), (3, 0, slots[2]));
}

/// K2: a crash before or after the slot, or in it, makes no second message and loses none.
#[test]
fn a_slot_is_sent_once_over_restarts() {
    let mut store = Store::with_schedule(Missed::All { max: 10 });
    for slot in 1..=5 {
        store.restart();
        store.pass(MINUTE - 1);
        store.restart();
        store.pass(1);
        store.tick();
        store.restart();
        store.tick();
        assert_eq!(store.sent(), slot);
    }
}

/// K5: what each policy makes of slots that nobody was there for.
#[test]
fn missed_slots_are_what_the_policy_says() {
    for (missed, sent, skipped) in [
        (Missed::Latest, 1, 1),
        (Missed::All { max: 10 }, 5, 0),
        (Missed::All { max: 2 }, 2, 1),
        (Missed::Skip, 0, 1),
    ] {
        let mut store = Store::with_schedule(missed);
        let begin = store.now.wall.0;
        store.sleep(5 * MINUTE + 30_000);
        let info = store.schedule();
        assert_eq!((info.sent, info.skipped), (sent, skipped), "{missed:?}");
        assert_eq!(info.next.unwrap().0, begin + 6 * MINUTE, "{missed:?}");
        assert_eq!(store.sent(), sent, "{missed:?}");
        store.pass(30_000);
        assert_eq!(store.sent(), sent + 1, "{missed:?}: it goes on");
    }
    // A little late is not missed.
    let mut store = Store::with_schedule(Missed::Skip);
    store.sleep(MINUTE + 500);
    assert_eq!(store.sent(), 1);
}

/// K4, K6: paused, resumed, run and deleted.
#[test]
fn a_schedule_is_steered() {
    let mut store = Store::with_schedule(Missed::All { max: 10 });
    store.ask(1, steer(SteerSchedule::Pause)).unwrap();
    store.pass(3 * MINUTE);
    assert_eq!((store.sent(), store.schedule().next), (0, None));
    store.ask(1, steer(SteerSchedule::RunNow)).unwrap();
    assert_eq!((store.sent(), store.schedule().next), (1, None));
    store.ask(1, steer(SteerSchedule::Resume)).unwrap();
    store.pass(MINUTE);
    assert_eq!(store.sent(), 2, "what passed while it was paused is not missed");
    let again = store.ask(2, create(every_minute(Missed::Skip)));
    assert_eq!(again, Ok(Outcome::ScheduleCreated { existed: true }));
    store.ask(1, steer(SteerSchedule::Delete)).unwrap();
    store.pass(3 * MINUTE);
    store.restart();
    store.tick();
    assert_eq!(store.sent(), 2);
    assert_eq!(store.ask(1, steer(SteerSchedule::Pause)), Err(Refusal::ScheduleNotFound(name())));
}

/// K7: a queue that does not take the message costs that slot, and no other.
#[test]
fn a_queue_that_takes_nothing_costs_the_slot() {
    let mut store = Store::with_schedule(Missed::Latest);
    let status = |status| Command::UpdateQueue {
        queue: queue("q"),
        patch: Box::new(SettingsPatch { status: Some(status), ..SettingsPatch::default() }),
    };
    store.ask(1, status(Status::Disabled)).unwrap();
    store.pass(MINUTE);
    store.ask(1, status(Status::Active)).unwrap();
    store.pass(MINUTE);
    let info = store.schedule();
    assert_eq!((info.sent, info.skipped, store.sent()), (1, 1, 1));
    store.ask(1, Command::DeleteQueue { queue: queue("q") }).unwrap();
    store.pass(MINUTE);
    assert_eq!(store.schedule().skipped, 2);
    let refused = store.ask(1, steer(SteerSchedule::RunNow));
    assert_eq!(refused, Err(Refusal::QueueNotFound(queue("q"))));
}

/// K8: what makes no sense is refused when the schedule is created.
#[test]
fn a_schedule_that_makes_no_sense_is_refused() {
    let mut store = Store::with_queue(settings());
    store.create("sessions", session_settings());
    store.create("small", QueueSettings { message_bytes_max: 9, ..settings() });
    let usual = || every_minute(Missed::Latest);
    let what = |answer| match answer {
        Err(Refusal::InvalidValue { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let rule = |rule: &str| ScheduleSettings { rule: rule.into(), ..usual() };
    assert_eq!(what(store.ask(1, create(rule("every day")))), "rule");
    assert_eq!(what(store.ask(1, create(rule("61 * * * *")))), "rule");
    assert_eq!(what(store.ask(1, create(every_minute(Missed::All { max: 0 })))), "missed");
    let to = |name: &str| ScheduleSettings { queue: queue(name), ..usual() };
    let nowhere = store.ask(1, create(to("nowhere")));
    assert_eq!(nowhere, Err(Refusal::QueueNotFound(queue("nowhere"))));
    let sessions = store.ask(1, create(to("sessions")));
    assert_eq!(sessions, Err(Refusal::SessionRequired(queue("sessions"))));
    assert!(matches!(store.ask(1, create(to("small"))), Err(Refusal::TooLarge { .. })));
}

/// K1: many messages of one schedule are one content, which goes when the last of them does.
#[test]
fn the_messages_of_a_schedule_share_one_content() {
    let mut store = Store::with_schedule(Missed::Latest);
    store.pass(3 * MINUTE);
    assert_eq!(store.info("q").counts.size_bytes, 30);
    assert_eq!(store.ledger.live_bytes(0) + store.ledger.live_bytes(1), 10);
    store.ask(1, steer(SteerSchedule::Delete)).unwrap();
    let purge = Command::Purge { from: main("q"), before: None, max: 9 };
    assert_eq!(store.ask(1, purge), Ok(Outcome::Count(3)));
    assert_eq!(store.ledger.live_bytes(0) + store.ledger.live_bytes(1), 0);
}
