//! One command, one frame: what would not fit is refused before it is applied.

use bellwether::Error;
use bellwether::core::command::Command;
use bellwether::core::error::Refusal;
use bellwether::core::message::NewMessage;
use bellwether::core::name::{QueueName, SessionId};
use bellwether::core::settings::QueueSettings;
use bellwether::core::time::Now;
use bellwether::journal::file::SimDisk;
use bytes::Bytes;

use crate::driver::Driver;

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
        let send = Command::Send { queue: name(0), messages: vec![message; count] };
        let contents: Vec<Bytes> = vec![content.clone(); count];
        match driver.ask(send, contents) {
            Some(_) => accepted = count,
            None => {
                assert!(driver.shard.fault().is_none(), "{count}: {:?}", driver.shard.fault());
                let refusal = driver.last_refusal.take();
                let too_large = matches!(refusal, Some(Error::Refused(Refusal::TooLarge { .. })));
                assert!(too_large, "{count}: {refusal:?}");
            }
        }
    }
    assert!((5..30).contains(&accepted), "{accepted}");
}
