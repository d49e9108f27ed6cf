//! Jobs: fan-out, fan-in, and what becomes of them when things go wrong.

use bellwether_core::command::{Command, Disposition, NewContent, ReceiveMode};
use bellwether_core::content::ContentId;
use bellwether_core::error::Refusal;
use bellwether_core::fence::Fence;
use bellwether_core::job::{
    EndJob, Ending, Failure, ItemInfo, ItemState, JobInfo, JobSettings, OnFailure, Which,
};
use bellwether_core::limits;
use bellwether_core::message::{MessageView, Reason};
use bellwether_core::name::{JobName, LeaseId, QueuePath, SequenceNumber};
use bellwether_core::outcome::Outcome;
use bellwether_core::settings::QueueSettings;

use super::store::{
    Answer, Store, dead, lease, main, message, queue, receive, session_settings, settings, token,
};

fn job(name: &str) -> JobName {
    JobName::new(name).unwrap()
}

/// A job over `q` that gathers in `g`.
fn over_q(on_failure: OnFailure) -> JobSettings {
    JobSettings { gather_to: Some(queue("g")), on_failure, ..JobSettings::new(queue("q")) }
}

fn create_job(settings: JobSettings, items: Option<u32>) -> Command {
    let gather = settings.gather_to.as_ref().map(|_| NewContent { index: 0, bytes: 7 });
    Command::CreateJob { job: job("j"), settings: Box::new(settings), items, gather }
}

fn dispatch(first: u32, count: usize, items: Option<u32>) -> Command {
    Command::Dispatch { job: job("j"), first, messages: vec![message(); count].into(), items }
}

fn end(how: EndJob) -> Command {
    Command::EndJob { job: job("j"), how }
}

fn sent(sent: u32) -> Outcome {
    Outcome::Dispatched { sent }
}

impl Store {
    /// A store with an open job.
    fn with_job(on_failure: OnFailure, items: Option<u32>) -> Self {
        let mut store = Self::with_queue(settings());
        store.create("g", settings());
        let created = store.ask(1, create_job(over_q(on_failure), items));
        assert_eq!(created, Ok(Outcome::JobCreated { existed: false }));
        store
    }

    fn job(&mut self) -> JobInfo {
        match self.ask(0, Command::AwaitJob { job: job("j"), wait_ms: 0 }) {
            Ok(Outcome::Job(info)) => *info,
            other => panic!("{other:?}"),
        }
    }

    fn items(&mut self, which: Which) -> Vec<ItemInfo> {
        match self.ask(0, Command::ListItems { job: job("j"), from: 0, max: 1000, which }) {
            Ok(Outcome::Items(items)) => items,
            other => panic!("{other:?}"),
        }
    }

    fn ending(&mut self) -> Option<Ending> {
        self.job().ended.map(|ended| ended.how)
    }

    /// Gather messages that were ever sent.
    fn gathered(&mut self) -> u64 {
        self.info("g").totals.sent
    }

    fn complete(&mut self, view: &MessageView) {
        let settled = self.settle(main("q"), token(view), Disposition::Complete);
        assert_eq!(settled, Ok(Outcome::Done));
    }

    fn complete_item(&mut self, from: QueuePath, view: &MessageView, bytes: u32) -> Answer {
        let result = Some(NewContent { index: 0, bytes });
        self.ask(1, Command::CompleteItem { from, token: token(view), result })
    }
}

/// J1, J4, J8, J10: out, done, gathered once.
#[test]
fn a_job_ends_with_its_last_item_and_gathers_once() {
    let mut store = Store::with_job(OnFailure::Wait, Some(3));
    assert_eq!(store.ask(1, dispatch(0, 3, None)), Ok(sent(3)));
    let views = store.receive(1, receive(main("q"), 3));
    store.complete(&views[0]);
    assert_eq!(store.complete_item(main("q"), &views[1], 5), Ok(Outcome::Count(1)));
    assert_eq!((store.ending(), store.gathered()), (None, 0));
    store.complete(&views[2]);
    let info = store.job();
    assert_eq!((info.done, info.failed, info.gathered), (3, 0, true));
    assert_eq!((store.ending(), store.gathered()), (Some(Ending::Completed), 1));
    let results: Vec<bool> = store
        .items(Which::Done)
        .iter()
        .map(|item| item.state != ItemState::Done { result: ContentId(0) })
        .collect();
    assert_eq!(results, [false, true, false]);
    let gather = store.receive_one(main("g"));
    assert_eq!(gather.session.map(|session| session.to_string()), Some("j".into()));
}

/// J9: none is an end as well as any.
#[test]
fn a_job_without_items_ends_at_once() {
    let mut store = Store::with_job(OnFailure::Wait, Some(0));
    assert_eq!((store.ending(), store.gathered()), (Some(Ending::Completed), 1));
    // Also one that learns of it later.
    let mut store = Store::with_job(OnFailure::Wait, None);
    assert_eq!(store.ending(), None);
    assert_eq!(store.ask(1, dispatch(0, 0, Some(0))), Ok(sent(0)));
    assert_eq!((store.ending(), store.gathered()), (Some(Ending::Completed), 1));
}

/// J2: the same name is the same job.
#[test]
fn creating_a_job_again_changes_nothing() {
    let mut store = Store::with_job(OnFailure::Wait, None);
    let again = store.ask(2, create_job(JobSettings::new(queue("q")), Some(0)));
    assert_eq!(again, Ok(Outcome::JobCreated { existed: true }));
    assert_eq!((store.job().settings, store.ending()), (over_q(OnFailure::Wait), None));
}

/// J3, J5: more may come until somebody says how many there are.
#[test]
fn an_open_job_takes_items_until_it_is_said_how_many_there_are() {
    let mut store = Store::with_job(OnFailure::Wait, None);
    assert_eq!(store.ask(1, dispatch(0, 2, None)), Ok(sent(2)));
    for view in store.receive(1, receive(main("q"), 2)) {
        store.complete(&view);
    }
    assert_eq!((store.job().done, store.ending()), (2, None));
    assert_eq!(store.ask(1, dispatch(2, 1, Some(3))), Ok(sent(1)));
    let what = |answer: Answer| match answer {
        Err(Refusal::InvalidValue { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    // An index beyond what was said, another number, and nothing at all.
    assert_eq!(what(store.ask(1, dispatch(3, 1, None))), "items");
    assert_eq!(what(store.ask(1, dispatch(0, 0, Some(4)))), "items");
    assert_eq!(what(store.ask(1, dispatch(0, 0, None))), "items");
    let view = store.receive_one(main("q"));
    store.complete(&view);
    assert_eq!(store.ending(), Some(Ending::Completed));
}

/// J6: a second dispatch of the same items sends nothing, whether they wait, are done, or failed.
#[test]
fn dispatching_what_is_known_sends_nothing() {
    let mut store = Store::with_job(OnFailure::Wait, Some(5));
    assert_eq!(store.ask(1, dispatch(1, 2, None)), Ok(sent(2)));
    let view = store.receive_one(main("q"));
    store.complete(&view);
    assert_eq!(store.job().next, 0);
    assert_eq!(store.ask(2, dispatch(0, 5, None)), Ok(sent(3)));
    assert_eq!((store.job().next, store.job().dispatched), (5, 5));
    assert_eq!(store.ask(2, dispatch(0, 5, None)), Ok(sent(0)));
    assert_eq!(store.info("q").totals.sent, 5);
    // Nor after its end; but nothing new is sent then.
    assert_eq!(store.ask(1, end(EndJob::Cancel)), Ok(Outcome::Done));
    assert_eq!(store.ask(2, dispatch(0, 5, None)), Ok(sent(0)));
    assert_eq!(store.ask(2, end(EndJob::Cancel)), Err(Refusal::JobEnded(job("j"))));
}

/// J6: the job's memory is longer than the queue's.
#[test]
fn the_window_of_the_queue_does_not_swallow_an_item() {
    let mut store = Store::new();
    store.create("q", QueueSettings { duplicate_window_ms: Some(60_000), ..settings() });
    let seen = bellwether_core::message::NewMessage { id_hash: 9, ..message() };
    store.send("q", vec![seen.clone()]);
    store.ask(1, create_job(JobSettings::new(queue("q")), Some(1))).unwrap();
    let messages = vec![seen].into();
    let again = Command::Dispatch { job: job("j"), first: 0, messages, items: None };
    assert_eq!(store.ask(1, again), Ok(sent(1)));
}

/// J7: a deposed leader dispatches nothing, however late it asks.
#[test]
fn a_dispatch_under_a_term_that_is_over_is_refused() {
    let mut store = Store::with_job(OnFailure::Wait, Some(4));
    let old = store.acquire(1, "l", 1).unwrap();
    let under = |store: &mut Store, term, command| {
        let fence = Fence { election: lease("l"), term };
        let ticket = store.begin_under(Some(fence), 1, 0, command);
        store.answer(ticket).unwrap()
    };
    assert_eq!(under(&mut store, old, dispatch(0, 2, None)), Ok(sent(2)));
    let release = Command::ReleaseLease { lease: lease("l"), id: LeaseId(1), successor: None };
    store.ask(1, release).unwrap();
    let new = store.acquire(2, "l", 2).unwrap();
    for command in [dispatch(2, 2, None), end(EndJob::Cancel)] {
        let refused = under(&mut store, old, command);
        assert!(matches!(refused, Err(Refusal::Fenced { .. })), "{refused:?}");
    }
    assert_eq!(store.job().dispatched, 2);
    assert_eq!(under(&mut store, new, dispatch(0, 4, None)), Ok(sent(2)));
}

/// J11: what each policy makes of a dead letter.
#[test]
fn a_dead_letter_is_what_the_policy_says() {
    let cases = [
        (OnFailure::Wait, None, None),
        (OnFailure::Fail, Some(Ending::Failed), Some(Ending::Failed)),
        (OnFailure::Gaps, None, Some(Ending::Gaps)),
    ];
    for (policy, after_one, at_last) in cases {
        let mut store = Store::with_job(policy, Some(2));
        store.ask(1, dispatch(0, 2, None)).unwrap();
        let views = store.receive(1, receive(main("q"), 2));
        store.settle(main("q"), token(&views[0]), Disposition::DeadLetter).unwrap();
        assert_eq!(store.ending(), after_one, "{policy:?}");
        let failed = store.items(Which::Failed);
        let why = Failure::DeadLettered { reason: Reason::Application };
        assert!(matches!(failed[0].state, ItemState::Failed { why: w, .. } if w == why));
        assert!(failed[0].message.is_some(), "its dead letter can be found");
        store.complete(&views[1]);
        assert_eq!(store.ending(), at_last, "{policy:?}");
        assert_eq!(store.job().is_stuck(), policy == OnFailure::Wait);
        assert_eq!(store.gathered(), u64::from(at_last.is_some()));
    }
}

/// J12: the ways out of a job that waits.
#[test]
fn somebody_decides_about_a_failed_item() {
    let stuck = || {
        let mut store = Store::with_job(OnFailure::Wait, Some(1));
        store.ask(1, dispatch(0, 1, None)).unwrap();
        let view = store.receive_one(main("q"));
        store.settle(main("q"), token(&view), Disposition::DeadLetter).unwrap();
        assert!(store.job().is_stuck());
        store
    };
    // It is sent again, and works.
    let mut store = stuck();
    let (to, sequences) = (None, Vec::new());
    store.ask(1, Command::Redrive { queue: queue("q"), to, sequences, max: 1 }).unwrap();
    assert_eq!((store.job().failed, store.items(Which::Pending).len()), (0, 1));
    let view = store.receive_one(main("q"));
    store.complete(&view);
    assert_eq!(store.ending(), Some(Ending::Completed));
    // It is done by hand.
    let mut store = stuck();
    let view = store.receive_one(dead("q"));
    assert_eq!(store.complete_item(dead("q"), &view, 3), Ok(Outcome::Count(1)));
    assert_eq!(store.ending(), Some(Ending::Completed));
    // The gap is accepted, or the job is cancelled; or the dead letter is thrown away, which
    // decides nothing.
    let mut store = stuck();
    let view = store.receive_one(dead("q"));
    store.settle(dead("q"), token(&view), Disposition::Complete).unwrap();
    assert!(store.job().is_stuck());
    store.ask(1, end(EndJob::AcceptGaps)).unwrap();
    assert_eq!(store.ending(), Some(Ending::Gaps));
    let mut store = stuck();
    store.ask(1, end(EndJob::Cancel)).unwrap();
    assert_eq!(store.ending(), Some(Ending::Cancelled));
}

/// J13: no job waits for a message that is not there.
#[test]
fn a_message_that_vanishes_is_a_failed_item() {
    type Step = fn(&mut Store);
    let ways: &[(Step, Failure)] = &[
        (|store| store.pass(500), Failure::Expired),
        (
            |store| {
                let from = main("q");
                store.ask(1, Command::Purge { from, before: None, max: 9 }).unwrap();
            },
            Failure::Removed,
        ),
        (
            |store| {
                let (from, sequences) = (main("q"), vec![SequenceNumber(1)]);
                store.ask(1, Command::Remove { from, sequences }).unwrap();
            },
            Failure::Removed,
        ),
        (
            |store| {
                store.ask(1, Command::DeleteQueue { queue: queue("q") }).unwrap();
                store.tick();
            },
            Failure::QueueGone,
        ),
        (
            |store| {
                // The store is closed before it could look.
                store.ask(1, Command::DeleteQueue { queue: queue("q") }).unwrap();
                store.restart();
                store.tick();
            },
            Failure::QueueGone,
        ),
    ];
    for (vanish, why) in ways {
        let mut store = Store::new();
        store.create("q", QueueSettings { ttl_ms: Some(400), ..settings() });
        store.create("g", settings());
        store.ask(1, create_job(over_q(OnFailure::Gaps), Some(1))).unwrap();
        store.ask(1, dispatch(0, 1, None)).unwrap();
        vanish(&mut store);
        let failed = store.items(Which::Failed);
        assert_eq!(failed[0].state, ItemState::Failed { content: ContentId(0), why: *why });
        assert_eq!((store.ending(), store.gathered()), (Some(Ending::Gaps), 1), "{why:?}");
    }
}

/// J14: the supervisor is the lock: who is late comes again, and too often is a dead letter.
#[test]
fn a_worker_that_is_late_says_nothing_and_too_many_of_them_fail_the_item() {
    let mut store = Store::with_job(OnFailure::Gaps, Some(1));
    store.ask(1, dispatch(0, 1, None)).unwrap();
    for _ in 0..3 {
        let view = store.receive_one(main("q"));
        store.pass(1_000);
        let late = store.complete_item(main("q"), &view, 3);
        assert_eq!(late, Err(Refusal::LockLost(view.sequence)));
    }
    assert_eq!(store.ending(), Some(Ending::Gaps));
    let why = Failure::DeadLettered { reason: Reason::MaxDeliveryCountExceeded };
    assert!(
        matches!(store.items(Which::All)[0].state, ItemState::Failed { why: w, .. } if w == why)
    );
}

/// J15: an item is followed through forwarding; receiving and deleting it does it.
#[test]
fn an_item_is_followed_wherever_its_message_goes() {
    let mut store = Store::new();
    store.create("far", settings());
    store.create("q", QueueSettings { forward_to: Some(queue("far")), ..settings() });
    store.ask(1, create_job(JobSettings::new(queue("q")), Some(2))).unwrap();
    store.ask(1, dispatch(0, 2, None)).unwrap();
    let there = store.items(Which::Pending)[0].message.clone().unwrap();
    assert_eq!((there.queue, there.is_locked), (queue("far"), false));
    let view = store.receive_one(main("far"));
    assert!(store.items(Which::Pending)[0].message.as_ref().unwrap().is_locked);
    assert_eq!(store.complete_item(main("far"), &view, 3), Ok(Outcome::Count(1)));
    let mode = ReceiveMode::ReceiveAndDelete;
    store.receive(1, bellwether_core::command::Receive { mode, ..receive(main("far"), 1) });
    assert_eq!(store.ending(), Some(Ending::Completed));
}

/// J16: after the end nobody works for nothing.
#[test]
fn what_is_left_of_an_ended_job_is_taken_out_of_its_queue() {
    let mut store = Store::with_job(OnFailure::Wait, Some(4));
    store.ask(1, dispatch(0, 4, None)).unwrap();
    let views = store.receive(1, receive(main("q"), 2));
    store.ask(1, end(EndJob::Cancel)).unwrap();
    store.tick();
    let counts = store.info("q").counts;
    assert_eq!((counts.ready, counts.locked), (0, 2));
    // Those who work on it may end it, for nobody; what they give back is gone.
    assert_eq!(store.complete_item(main("q"), &views[0], 3), Ok(Outcome::Count(0)));
    store.settle(main("q"), token(&views[1]), Disposition::Abandon { delay_ms: None }).unwrap();
    assert_eq!(store.info("q").counts.ready, 0);
    assert_eq!((store.job().done, store.gathered()), (0, 1));
}

/// J17: deadlines and retention are the wall clock's.
#[test]
fn a_job_ends_at_its_deadline_and_is_forgotten_after_its_retention() {
    let mut store = Store::with_queue(settings());
    let settings = JobSettings {
        deadline_ms: Some(5_000),
        retention_ms: 2_000,
        ..JobSettings::new(queue("q"))
    };
    store.ask(1, create_job(settings, None)).unwrap();
    store.ask(1, dispatch(0, 1, None)).unwrap();
    let forget = store.ask(1, end(EndJob::Forget));
    assert_eq!(forget, Err(Refusal::JobOpen(job("j"))));
    store.pass(4_999);
    assert_eq!(store.ending(), None);
    store.restart();
    store.pass(1);
    store.tick();
    assert_eq!(store.ending(), Some(Ending::Overdue));
    assert_eq!(store.info("q").counts.ready, 0);
    store.pass(2_000);
    store.tick();
    let gone = store.ask(1, Command::AwaitJob { job: job("j"), wait_ms: 0 });
    assert_eq!(gone, Err(Refusal::JobNotFound(job("j"))));
}

/// J10: an end that has nowhere to gather is gathered when there is a queue.
#[test]
fn a_gather_message_is_owed_until_its_queue_is_there() {
    let mut store = Store::with_job(OnFailure::Wait, Some(1));
    store.ask(1, dispatch(0, 1, None)).unwrap();
    store.ask(1, Command::DeleteQueue { queue: queue("g") }).unwrap();
    let view = store.receive_one(main("q"));
    store.complete(&view);
    assert_eq!((store.ending(), store.job().gathered), (Some(Ending::Completed), false));
    store.restart();
    store.join(3, 60_000);
    store.create("g", session_settings());
    assert_eq!((store.job().gathered, store.gathered()), (true, 1));
    assert_eq!(store.info("g").counts.ready, 1);
}

/// J18: who waits for the end hears of it, of its being forgotten, or of nothing new.
#[test]
fn waiting_for_a_job_is_answered_by_its_end() {
    let mut store = Store::with_job(OnFailure::Wait, Some(1));
    store.ask(1, dispatch(0, 1, None)).unwrap();
    let wait = |wait_ms| Command::AwaitJob { job: job("j"), wait_ms };
    let (short, long) = (store.begin(1, 0, wait(50)), store.begin(2, 0, wait(60_000)));
    store.pass(50);
    let Some(Ok(Outcome::Job(info))) = store.answer(short) else { panic!() };
    assert_eq!(info.ended, None);
    assert_eq!(store.answer(long), None);
    let view = store.receive_one(main("q"));
    store.complete(&view);
    let Some(Ok(Outcome::Job(info))) = store.answer(long) else { panic!() };
    assert_eq!(info.ended.map(|ended| ended.how), Some(Ending::Completed));
}

/// J19: everything has a limit.
#[test]
fn jobs_have_limits() {
    let mut store = Store::with_job(OnFailure::Wait, None);
    let too_many = Refusal::TooMany { what: "items of one job", max: 1_000_000 };
    let beyond = dispatch(limits::JOB_ITEMS_MAX - 1, 2, None);
    assert_eq!(store.ask(1, beyond), Err(too_many.clone()));
    assert_eq!(store.ask(1, dispatch(u32::MAX, 1, None)), Err(too_many.clone()));
    assert_eq!(store.ask(1, dispatch(0, 0, Some(1_000_001))), Err(too_many));
    assert_eq!(store.ask(1, dispatch(limits::JOB_ITEMS_MAX - 1, 1, None)), Ok(sent(1)));
    let view = store.receive_one(main("q"));
    let large = store.complete_item(main("q"), &view, limits::RESULT_BYTES_MAX + 1);
    let (bytes, bytes_max) = (65_537, 65_536);
    let what = "the result of an item";
    assert_eq!(large, Err(Refusal::TooLarge { what, bytes, bytes_max }));
    assert_eq!(store.complete_item(main("q"), &view, 65_536), Ok(Outcome::Count(1)));
    let other = JobSettings::new(queue("nowhere"));
    let create =
        Command::CreateJob { job: job("k"), settings: Box::new(other), items: None, gather: None };
    assert_eq!(store.ask(1, create), Err(Refusal::QueueNotFound(queue("nowhere"))));
}

/// J20: a job goes on where it was, also from a journal that ends anywhere.
#[test]
fn a_job_outlives_restarts_at_every_step() {
    let mut store = Store::with_job(OnFailure::Gaps, Some(3));
    store.restart();
    store.join(3, 3_600_000);
    assert_eq!(store.ask(1, dispatch(0, 2, None)), Ok(sent(2)));
    store.restart();
    assert_eq!(store.ask(1, dispatch(0, 3, None)), Ok(sent(1)));
    let views = store.receive(1, receive(main("q"), 3));
    assert_eq!(store.complete_item(main("q"), &views[0], 9), Ok(Outcome::Count(1)));
    store.restart();
    store.settle(main("q"), token(&views[1]), Disposition::DeadLetter).unwrap();
    store.restart();
    let info = store.job();
    assert_eq!((info.done, info.failed, info.next), (1, 1, 3));
    store.complete(&views[2]);
    assert_eq!((store.ending(), store.gathered()), (Some(Ending::Gaps), 1));
    store.restart();
    store.tick();
    assert_eq!((store.ending(), store.gathered()), (Some(Ending::Gaps), 1));
    assert_eq!(store.items(Which::All).len(), 3);
}

/// J13, J16: very many at once do not stop the writer; each step does a bounded amount.
#[test]
fn ten_thousand_items_end_in_bounded_steps() {
    let mut store = Store::with_job(OnFailure::Gaps, Some(10_000));
    for first in (0..10_000).step_by(2_500) {
        assert_eq!(store.ask(1, dispatch(first, 2_500, None)), Ok(sent(2_500)));
    }
    store.ask(1, end(EndJob::Cancel)).unwrap();
    let mut steps = 0;
    while store.ledger.next_deadline_ms(store.now) == Some(0) {
        let before = store.info("q").counts.ready;
        store.ask(0, Command::Tick).unwrap();
        assert!(before - store.info("q").counts.ready <= limits::TICK_WORK_MAX as u64);
        steps += 1;
    }
    assert_eq!((store.info("q").counts.ready, steps), (0, 5));
}
