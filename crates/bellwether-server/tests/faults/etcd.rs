//! Elections on etcd, which is killed and started again on what it has kept, and frozen.

use std::sync::Mutex;
use std::time::Duration;

use bellwether_server::drill::Rules;
use rustix::process::Signal;
use tokio::runtime::Runtime;

use crate::guise::Guise;
use crate::run::Run;
use crate::servers::Etcd;
use crate::world::World;

#[test]
fn etcds() {
    let runtime = Runtime::new().unwrap();
    let etcd = runtime.block_on(Etcd::start());
    let address = etcd.url().replace("http://", "etcd://");
    let etcd = Mutex::new(etcd);
    let rules = Rules::default();
    let run = Run { kind: "etcds", share: 50, worlds: 1, rules, deposes: false };
    let make = |world: &mut World| {
        // The shortest that it can keep.
        world.ttl = Duration::from_secs(2);
        (0..3).for_each(|_| world.stand(&address, Guise::default()));
    };
    run.go(make, |world, number| {
        let during = world.parts_of_ttl(0.2, 1.2);
        match number % 4 {
            0 | 2 => {
                world.fault("kill", "etcd");
                runtime.block_on(etcd.lock().unwrap().restart());
            }
            1 => {
                world.fault("freeze", "etcd");
                etcd.lock().unwrap().process.signal(Signal::STOP);
                std::thread::sleep(during);
                etcd.lock().unwrap().process.signal(Signal::CONT);
            }
            _ => {
                let leader = world.leader();
                world.kill(leader);
            }
        }
    });
}
