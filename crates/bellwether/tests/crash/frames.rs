//! What one frame cannot hold: a command is refused before it is applied, and what the store does
//! of itself lies in several.

use bellwether::Error;
use bellwether::core::command::{Command, Receive, ReceiveMode};
use bellwether::core::error::Refusal;
use bellwether::core::message::NewMessage;
use bellwether::core::name::{QueueName, QueuePath, SessionId};
use bellwether::core::outcome::{Outcome, QueueInfo};
use bellwether::core::settings::QueueSettings;
use bellwether::core::time::Now;
use bellwether::journal::file::{CrashChoice, SimDisk};
use bytes::Bytes;

use crate::driver::{Driver, queue};

/// D3, D7: every queue that a message is forwarded through writes its session down once more.
#[test]
fn a_send_that_grows_on_its_way_is_refused_and_the_store_goes_on() {
    let disk = SimDisk::new();
    let mut driver = Driver::open(&disk, Now::new(1_600_000_000_000, 5_000)).unwrap();
    let name = |nth: u32| QueueName::new(&format!("queue {nth}")).unwrap();
    for nth in (0..=4).rev() {
        let forward_to = (nth < 4).then(|| name(nth + 1));
        let settings = Box::new(QueueSettings { forward_to, ..QueueSettings::default() });
        driver.ask(Command::CreateQueue { queue: name(nth), settings }, Vec::new()).unwrap();
    }
    let session = SessionId::new(&"s".repeat(260)).unwrap();
    let content = bellwether::message::encode(&"hello".into());
    let mut accepted = 0;
    for count in 1..40 {
        let message = NewMessage {
            content_bytes: content.len() as u32,
            session: Some(session.clone()),
            ..NewMessage::default()
        };
        let send = Command::Send { queue: name(0), messages: vec![message; count].into() };
        let contents: Vec<Bytes> = vec![content.clone(); count];
        if driver.ask(send, contents).is_some() {
            accepted = count;
            continue;
        }
        assert!(driver.shard.fault().is_none(), "{count}: {:?}", driver.shard.fault());
        let refusal = driver.last_refusal.take();
        let too_large = matches!(refusal, Some(Error::Refused(Refusal::TooLarge { .. })));
        assert!(too_large, "{count}: {refusal:?}");
    }
    assert!((5..30).contains(&accepted), "{accepted}");
}

const START: Now = Now::new(1_600_000_000_000, 5_000);
const MESSAGES: usize = 3_000;
const LOCK_MS: u32 = 60_000;

fn info(driver: &mut Driver) -> QueueInfo {
    let Some(Outcome::Queue(info)) =
        driver.ask(Command::DescribeQueue { queue: queue() }, Vec::new())
    else {
        panic!("the queue: {:?}", driver.shard.fault())
    };
    *info
}

/// A store in which one holder of a session has far more locked than one frame can give back.
fn many_locked_in_one_session(disk: &SimDisk) -> (Driver, Command) {
    let mut driver = Driver::open(disk, START).unwrap();
    let settings = QueueSettings { sessions: true, lock_ms: LOCK_MS, ..QueueSettings::default() };
    let settings = Box::new(settings);
    driver.ask(Command::CreateQueue { queue: queue(), settings }, Vec::new()).unwrap();
    let content = bellwether::message::encode(&"hello".into());
    for _ in 0..MESSAGES / 10 {
        let message = NewMessage {
            content_bytes: content.len() as u32,
            session: Some(SessionId::new("s").unwrap()),
            ..NewMessage::default()
        };
        let send = Command::Send { queue: queue(), messages: vec![message; 10].into() };
        driver.ask(send, vec![content.clone(); 10]).unwrap();
    }
    let accept = Command::AcceptSession { queue: queue(), session: None, wait_ms: 0 };
    let Some(Outcome::Session(Some(hold))) = driver.ask(accept, Vec::new()) else {
        panic!("the session")
    };
    for _ in 0..MESSAGES / 100 {
        let receive = Receive {
            from: QueuePath::main(queue()),
            session: Some(hold.token.clone()),
            max: 100,
            mode: ReceiveMode::PeekLock,
            wait_ms: 0,
            lock_ms: None,
        };
        driver.ask(Command::Receive(receive), Vec::new()).unwrap();
    }
    assert_eq!(info(&mut driver).counts.locked, MESSAGES as u64);
    (driver, Command::CloseSession { queue: queue(), token: hold.token })
}

#[test]
fn a_session_with_very_many_deliveries_can_be_closed() {
    let disk = SimDisk::new();
    let (mut driver, close) = many_locked_in_one_session(&disk);
    assert_eq!(driver.ask(close, Vec::new()), Some(Outcome::Done));
    assert_eq!(info(&mut driver).counts.ready, MESSAGES as u64);
    // What was answered is durable, in however many frames it lies.
    let cut = disk.crash(CrashChoice::LoseAll, usize::MAX);
    let mut driver = Driver::open(&cut, START.plus_ms(1_000)).unwrap();
    assert_eq!(info(&mut driver).counts.ready, MESSAGES as u64);
}

#[test]
fn a_session_with_very_many_deliveries_can_run_out() {
    let disk = SimDisk::new();
    let (mut driver, _) = many_locked_in_one_session(&disk);
    driver.now = driver.now.plus_ms(u64::from(LOCK_MS));
    driver.shard.tick(driver.now);
    assert_eq!(info(&mut driver).counts.ready, MESSAGES as u64);
}

/// Without an answer, a crash anywhere in between keeps every message, given back or not yet.
#[test]
fn a_crash_between_the_frames_of_one_step_loses_nothing() {
    let disk = SimDisk::new();
    let (mut driver, _) = many_locked_in_one_session(&disk);
    driver.now = driver.now.plus_ms(u64::from(LOCK_MS));
    driver.shard.tick(driver.now);
    driver.shard.seal();
    let mut halfway = 0;
    for lost in 0..disk.pending_len() {
        let cut = disk.crash(CrashChoice::LoseOne(lost), usize::MAX);
        let mut driver = Driver::open(&cut, START.plus_ms(1_000)).unwrap();
        let counts = info(&mut driver).counts;
        assert_eq!(counts.ready + counts.locked, MESSAGES as u64, "without sector {lost}");
        halfway += usize::from(counts.ready > 0 && counts.locked > 0);
    }
    assert!(halfway > 0, "no crash came in between");
}
