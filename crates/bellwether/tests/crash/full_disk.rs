//! D10: a full disk refuses senders and nobody else, and work resumes by itself.

use bellwether::Error;
use bellwether::core::command::{Command, Disposition, Request};
use bellwether::core::error::Refusal;
use bellwether::core::few::Few;
use bellwether::core::message::NewMessage;
use bellwether::core::name::{QueueName, RequestNumber, Ticket};
use bellwether::core::settings::QueueSettings;
use bellwether::core::time::Now;
use bellwether::engine::Call;
use bellwether::journal::JournalFault;
use bellwether::journal::file::SimDisk;

use crate::driver::{Driver, assert_kept, queue};

const BODY: usize = 900;

fn on_a_small_disk(bytes: u64) -> (SimDisk, Driver) {
    let disk = SimDisk::new();
    disk.set_capacity(Some(bytes));
    let mut driver = Driver::open(&disk, Now::new(1_600_000_000_000, 5_000)).unwrap();
    driver.create_queue();
    (disk, driver)
}

/// Sends until the disk is full; says how many were accepted.
fn fill(driver: &mut Driver) -> usize {
    let before = driver.told.sent.len();
    for _ in 0..10_000 {
        let refused = driver.told.refused;
        driver.send(&[vec![b'x'; BODY]]);
        if driver.told.refused > refused {
            return driver.told.sent.len() - before;
        }
    }
    panic!("the disk never filled up");
}

#[test]
fn settling_goes_on_and_makes_room() {
    let (disk, mut driver) = on_a_small_disk(200 << 10);
    let sent = fill(&mut driver);
    assert!(sent > 40, "{sent}");
    let refused = driver.told.refused;
    for token in driver.receive(20) {
        driver.settle(token, Disposition::Complete);
    }
    assert_eq!(driver.told.completed.len(), 20, "settled while the disk was full");
    assert_eq!((driver.told.refused, driver.told.faults), (refused, 0));
    // Everything consumed: the space comes back without anybody's help.
    while driver.told.completed.len() < sent {
        for token in driver.receive(20) {
            driver.settle(token, Disposition::Complete);
        }
    }
    for _ in 0..200 {
        driver.turn();
    }
    let again = fill(&mut driver);
    assert!(again > 10, "only {again} after {sent} were consumed");
    assert!(driver.shard.fault().is_none());
    disk.set_capacity(None);
    assert_kept(&disk.kill(), &driver.told, driver.now.plus_ms(1_000_000), "filled twice");
}

#[test]
fn space_that_comes_back_is_used() {
    let (disk, mut driver) = on_a_small_disk(200 << 10);
    fill(&mut driver);
    disk.set_capacity(Some(800 << 10));
    for _ in 0..10 {
        driver.turn();
    }
    assert!(fill(&mut driver) > 100);
    assert!(driver.shard.fault().is_none());
    disk.set_capacity(None);
    assert_kept(&disk.kill(), &driver.told, driver.now.plus_ms(1_000_000), "made room");
}

#[test]
fn the_refusal_says_that_it_will_pass() {
    let (_, mut driver) = on_a_small_disk(200 << 10);
    fill(&mut driver);
    let error = driver.last_refusal.take().unwrap();
    let Error::Refused(refusal) = error else { panic!("{error}") };
    assert!(refusal.retry(), "{refusal}");
    assert!(refusal.to_string().contains("disk is full"), "{refusal}");
}

/// D3: what was accepted and waits for room is not refused when it is asked again.
#[test]
fn what_waits_for_room_is_not_refused_when_asked_again() {
    let (disk, mut driver) = on_a_small_disk(10 << 20);
    // Senders are refused before the reserve is used up; who makes queues is not.
    let ask = |driver: &mut Driver, ticket, number| {
        let name = QueueName::new(&format!("queue-{number}")).unwrap();
        let settings = Box::new(QueueSettings::default());
        let request = Request {
            member: driver.member,
            number: RequestNumber(number),
            answered_below: RequestNumber(1),
            command: Command::CreateQueue { queue: name, settings },
            fence: None,
        };
        let call = Call { request, contents: Few::default() };
        driver.shard.apply(driver.now, Ticket(ticket), &call, ticket);
        driver.shard.seal();
    };
    disk.set_capacity(Some(disk.used_bytes()));
    // The first one that is refused comes after the last one that was accepted, which waits.
    let refused = (1..10_000).find(|number| {
        ask(&mut driver, 1_000 + number, *number);
        driver.shard.take_free().iter().any(|(_, answer)| answer.is_err())
    });
    let waits = refused.unwrap() - 1;
    ask(&mut driver, 20_000, waits);
    let answer = driver.shard.take_free();
    assert!(answer.is_empty(), "it waits for room: {answer:?}");
    let durable = driver.shard.flusher().unwrap().flush().unwrap();
    driver.shard.flushed(driver.now, durable);
    assert!(!driver.shard.awaits_flush(), "a flush would bring it nothing");
    disk.set_capacity(None);
    driver.turn();
    driver.turn();
    let mut outcome = |ticket| driver.answers.remove(&ticket).unwrap().unwrap().outcome;
    assert_eq!(outcome(1_000 + waits), outcome(20_000), "the same request twice");
}

/// Whoever waits for the next deadline would wait for nothing, as fast as the processor allows:
/// what is due cannot become so before there is a journal again.
#[test]
fn nothing_is_due_while_nothing_can_be_written() {
    let (disk, mut driver) = on_a_small_disk(200 << 10);
    fill(&mut driver);
    let [token] = driver.receive(1)[..] else { panic!("one message") };
    driver.settle(token, Disposition::Abandon { delay_ms: Some(1_000) });
    let is_stalled =
        |driver: &Driver| matches!(driver.last_refusal, Some(Error::Refused(Refusal::DiskFull)));
    driver.last_refusal = None;
    while !is_stalled(&driver) {
        for token in driver.receive(1) {
            driver.settle(token, Disposition::Release);
        }
    }
    let later = driver.now.plus_ms(1_000_000);
    assert_eq!(driver.shard.next_deadline_ms(later), None, "the disk is full");
    disk.set_capacity(None);
    for _ in 0..10 {
        driver.turn();
    }
    assert_eq!(driver.shard.next_deadline_ms(later), Some(0), "there is space again");

    let fault = JournalFault::Broken { what: "write".into(), cause: "a test".into() };
    driver.shard.fail(fault);
    assert_eq!(driver.shard.next_deadline_ms(later), None, "the journal is broken");
}

/// What senders would take of the reserve is missing for settling.
#[test]
fn senders_are_refused_before_the_reserve_is_used_up() {
    let (disk, mut driver) = on_a_small_disk(10 << 20);
    driver.send(&[vec![b'x'; BODY]]);
    disk.set_capacity(Some(disk.used_bytes()));
    // Nobody looks after the store meanwhile.
    let content = bytes::Bytes::from(vec![b'x'; BODY]);
    for ticket in 1_000..1_100 {
        let message = NewMessage { content_bytes: BODY as u32, ..NewMessage::default() };
        let request = Request {
            member: driver.member,
            number: RequestNumber(0),
            answered_below: RequestNumber(0),
            command: Command::Send { queue: queue(), messages: vec![message].into() },
            fence: None,
        };
        let call = Call { request, contents: Few::One(content.clone()) };
        driver.shard.apply(driver.now, Ticket(ticket), &call, ticket);
        driver.shard.seal();
    }
    assert!(!driver.shard.needs_seal() && driver.shard.is_short_of_space());
    let tokens = driver.receive(1);
    assert_eq!(tokens.len(), 1);
    driver.settle(tokens[0], Disposition::Complete);
    assert_eq!(driver.told.completed.len(), 1, "there is room left to settle in");
}
