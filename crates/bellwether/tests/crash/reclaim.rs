//! S3: a unit is given back only when nothing that a power cut leaves behind refers to it.

use bellwether::core::command::{Command, Disposition, Settlement};
use bellwether::core::few::Few;
use bellwether::core::name::{QueueName, QueuePath};
use bellwether::core::settings::QueueSettings;
use bellwether::core::time::Now;
use bellwether::journal::file::{CrashChoice, SimDisk};

use crate::driver::{Driver, assert_kept, queue};

#[test]
fn a_unit_is_kept_until_what_emptied_it_is_durable() {
    let disk = SimDisk::new();
    let mut driver = Driver::open(&disk, Now::new(1_600_000_000_000, 5_000)).unwrap();
    let settings = Box::new(QueueSettings::default());
    driver.ask(Command::CreateQueue { queue: queue(), settings }, Vec::new()).unwrap();
    // One message stays in an old unit; everything around it goes, and a snapshot is written.
    driver.send(&[vec![b'a'; 3_000]]);
    let first = driver.receive(1)[0];
    for _ in 0..40 {
        driver.send(&[vec![b'b'; 900]]);
        for token in driver.receive(1) {
            driver.settle(token, Disposition::Complete);
        }
    }
    // It becomes empty and could be given back, but nothing of that is flushed.
    let disposition = Disposition::Complete;
    let settlements = Few::One(Settlement { token: first, disposition, overlay: None });
    let settle = Command::Settle { from: QueuePath::main(queue()), settlements };
    driver.told.tried.insert(first.sequence);
    driver.submit(settle, Vec::new());
    for index in 0..70 {
        let queue = QueueName::new(&format!("other-{index}")).unwrap();
        let settings = Box::new(QueueSettings::default());
        driver.submit(Command::CreateQueue { queue, settings }, Vec::new());
        driver.shard.seal();
    }
    driver.upkeep();
    let crashed = disk.crash(CrashChoice::LoseAll, 0);
    assert_kept(&crashed, &driver.told, driver.now.plus_ms(1_000_000), "power cut");
}
