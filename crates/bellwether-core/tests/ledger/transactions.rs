//! Transactions, results and claims: what is told in one step happens in one step.

use bellwether_core::command::{Command, Disposition, NewContent, Settlement};
use bellwether_core::error::{Refusal, StepRefusal};
use bellwether_core::limits;
use bellwether_core::name::{LockToken, NoteKey, SequenceNumber};
use bellwether_core::note::{ClaimToken, Claimed, NoteState, Report};
use bellwether_core::outcome::{Outcome, Sequences};
use bellwether_core::transaction::Step;

use super::store::{Answer, Store, main, message, queue, settings, token};

fn key(text: &str) -> NoteKey {
    NoteKey::new(text).unwrap()
}

fn settle(name: &str, token: LockToken, disposition: Disposition) -> Step {
    let settlement = Settlement { token, disposition, overlay: None };
    Step::Settle { from: main(name), settlement }
}

fn send(name: &str) -> Step {
    Step::Send { queue: queue(name), messages: vec![message()].into(), first: 0 }
}

fn request(name: &str, id: &str, ttl_ms: u64) -> Step {
    let (queue, message) = (queue(name), message());
    Step::Request { queue, message, content: 0, key: key(id), ttl_ms }
}

fn report(id: &str, report: Report, bytes: u32) -> Step {
    let content = Some(NewContent { index: 0, bytes });
    Step::Report { queue: queue("q"), key: key(id), report, content, ttl_ms: None }
}

fn transact(store: &mut Store, steps: Vec<Step>) -> Answer {
    store.ask(1, Command::Transact { steps })
}

fn refused(answer: Answer) -> (u32, Refusal) {
    match answer {
        Err(Refusal::Step(StepRefusal { step, why })) => (step, *why),
        other => panic!("{other:?}"),
    }
}

fn state(store: &mut Store, id: &str) -> Option<NoteState> {
    match store.ask(0, Command::GetResult { queue: queue("q"), key: key(id), wait_ms: 0 }) {
        Ok(Outcome::Result(info)) => info.map(|info| info.state),
        other => panic!("{other:?}"),
    }
}

fn claim(store: &mut Store, member: u32, name: &str) -> Claimed {
    let (scope, key) = (queue("payments"), key(name));
    let claim = Command::Claim { scope, key, hash: 0, lock_ms: 1000, ttl_ms: 10_000 };
    match store.ask(member, claim) {
        Ok(Outcome::Claimed(claimed)) => claimed,
        other => panic!("{other:?}"),
    }
}

fn granted(claimed: &Claimed) -> ClaimToken {
    match claimed {
        Claimed::Granted { token, .. } => *token,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refused_step_leaves_no_trace_of_the_others() {
    let mut store = Store::with_queue(settings());
    store.create("r", settings());
    store.send_one("q");
    let token = token(&store.receive_one(main("q")));
    let complete = || settle("q", token, Disposition::Complete);
    let before = (store.info("q"), store.info("r"));
    let steps = vec![send("r"), complete(), send("missing")];
    let (step, why) = refused(transact(&mut store, steps));
    assert_eq!((step, why), (2, Refusal::QueueNotFound(queue("missing"))));
    assert_eq!((store.info("q"), store.info("r")), before);
    let done = transact(&mut store, vec![send("r"), complete()]).unwrap();
    let one = Sequences::Run { first: SequenceNumber(1), count: 1 };
    assert_eq!(done, Outcome::Transacted(vec![one]));
    store.restart();
    assert_eq!((store.info("q").totals.completed, store.info("r").counts.ready), (1, 1));
}

#[test]
fn a_transaction_has_at_most_a_hundred_steps_and_twelve_mebibytes() {
    let mut store = Store::with_queue(settings());
    let many = vec![send("q"); limits::TRANSACTION_STEPS_MAX + 1];
    assert!(matches!(transact(&mut store, many), Err(Refusal::TooMany { max: 100, .. })));
    let large = |bytes| report("m", Report::Succeeded, bytes);
    let steps = vec![large(8 << 20), large(4 << 20), large(1)];
    let (step, why) = refused(transact(&mut store, steps));
    assert_eq!(step, 2);
    assert!(matches!(why, Refusal::TooLarge { what: "one transaction", .. }), "{why:?}");
}

#[test]
fn a_result_is_waited_for_and_told_with_its_content_in_one_step() {
    let mut store = Store::with_queue(settings());
    transact(&mut store, vec![request("q", "r1", 5_000)]).unwrap();
    let get = Command::GetResult { queue: queue("q"), key: key("r1"), wait_ms: 60_000 };
    let waiting = store.begin(2, 0, get);
    assert_eq!(store.answer(waiting), None);
    let token = token(&store.receive_one(main("q")));
    let running = report("r1", Report::Running { percent: Some(10) }, 0);
    transact(&mut store, vec![running]).unwrap();
    assert_eq!(store.answer(waiting), None, "nobody is woken for half of it");
    let done = report("r1", Report::Succeeded, 7);
    transact(&mut store, vec![settle("q", token, Disposition::Complete), done]).unwrap();
    match store.answer(waiting) {
        Some(Ok(Outcome::Result(Some(info)))) => {
            assert_eq!((info.state, info.place.len), (NoteState::Succeeded, 7));
        }
        other => panic!("{other:?}"),
    }
    store.pass(4_999);
    assert_eq!(state(&mut store, "r1"), Some(NoteState::Succeeded));
    store.pass(1);
    assert_eq!(state(&mut store, "r1"), None, "forgotten");
}

#[test]
fn a_request_asked_again_sends_nothing_again() {
    let mut store = Store::with_queue(settings());
    transact(&mut store, vec![request("q", "r1", 5_000)]).unwrap();
    let again = transact(&mut store, vec![request("q", "r1", 5_000)]).unwrap();
    assert_eq!(again, Outcome::Transacted(vec![Sequences::List(vec![SequenceNumber(0)])]));
    assert_eq!(store.info("q").counts.ready, 1);
}

#[test]
fn whoever_waits_for_a_message_that_dies_is_told_at_once() {
    let mut store = Store::with_queue(settings());
    transact(&mut store, vec![request("q", "r1", 50_000)]).unwrap();
    let get = Command::GetResult { queue: queue("q"), key: key("r1"), wait_ms: 600_000 };
    let waiting = store.begin(2, 0, get);
    for _ in 0..3 {
        assert_eq!(store.answer(waiting), None);
        store.receive_one(main("q"));
        store.pass(1000);
    }
    assert!(matches!(store.answer(waiting),
        Some(Ok(Outcome::Result(Some(info)))) if info.state == NoteState::Gone));
}

#[test]
fn a_claim_is_one_members_until_its_lock_is_over_also_after_a_restart() {
    let mut store = Store::new();
    let first = granted(&claim(&mut store, 1, "order-17"));
    assert!(matches!(claim(&mut store, 2, "order-17"), Claimed::InProgress { .. }));
    store.pass(999);
    assert!(matches!(claim(&mut store, 2, "order-17"), Claimed::InProgress { .. }));
    store.restart();
    store.pass(999);
    assert!(matches!(claim(&mut store, 2, "order-17"), Claimed::InProgress { .. }), "a full lock");
    store.pass(1);
    let taken = claim(&mut store, 2, "order-17");
    assert!(matches!(taken, Claimed::Granted { taken_over: true, .. }), "{taken:?}");
    let finish = |token| Step::Finish {
        scope: queue("payments"),
        key: key("order-17"),
        token,
        content: None,
    };
    let (_, why) = refused(transact(&mut store, vec![finish(first)]));
    assert!(matches!(why, Refusal::ClaimLost { .. }), "{why:?}");
    transact(&mut store, vec![finish(granted(&taken))]).unwrap();
    assert!(matches!(claim(&mut store, 1, "order-17"), Claimed::Done { .. }));
}
