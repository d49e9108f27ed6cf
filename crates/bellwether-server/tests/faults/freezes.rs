//! Processes that are frozen, for less and for longer than the ttl (F10).

use std::time::Duration;

use bellwether_server::drill::Rules;
use rustix::process::Signal;

use crate::guise::Guise;
use crate::run::Run;
use crate::world::World;

pub fn freeze_server(world: &mut World, during: Duration) {
    world.fault("freeze", "server");
    let server = world.server.as_ref().unwrap();
    server.signal(Signal::STOP);
    std::thread::sleep(during);
    server.signal(Signal::CONT);
}

#[test]
fn freezes() {
    let run =
        Run { kind: "freezes", share: 200, worlds: 4, rules: Rules::default(), deposes: true };
    let make = |world: &mut World| {
        let address = world.serve(&Guise::default(), "127.0.0.1", &[]);
        (0..3).for_each(|_| world.stand(&address, Guise::default()));
    };
    run.go(make, |world, number| {
        let during = world.parts_of_ttl(0.1, 3.0);
        match number % 4 {
            0 | 1 => {
                let leader = world.leader();
                world.freeze(leader, during);
            }
            2 => {
                let follower = world.follower();
                world.freeze(follower, during);
            }
            _ => freeze_server(world, during),
        }
    });
}
