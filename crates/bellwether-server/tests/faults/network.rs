//! A bad network: answers that are lost, frames that are late or come twice, connections that are cut
//! (F12, F13).

use std::collections::BTreeMap;
use std::sync::Mutex;

use bellwether_server::drill::Rules;

use crate::guise::Guise;
use crate::line::{Line, Mood};
use crate::run::Run;
use crate::world::World;

/// The server that `bellwether://` names.
pub fn server_at(address: &str) -> std::net::SocketAddr {
    address.strip_prefix("bellwether://").unwrap().parse().unwrap()
}

/// Lines of all worlds, by their addresses.
pub type Lines = Mutex<BTreeMap<String, Line>>;

pub fn new_line(lines: &Lines, server: &str) -> String {
    let line = Line::to(server_at(server));
    let address = line.address();
    lines.lock().unwrap().insert(address.clone(), line);
    address
}

pub fn line_of(lines: &Lines, world: &World, index: usize) -> Line {
    lines.lock().unwrap()[&world.candidates[index].address].clone()
}

#[test]
fn networks() {
    let lines = Lines::default();
    let run =
        Run { kind: "networks", share: 140, worlds: 3, rules: Rules::default(), deposes: true };
    let make = |world: &mut World| {
        let server = world.serve(&Guise::default(), "127.0.0.1", &[]);
        for _ in 0..3 {
            let address = new_line(&lines, &server);
            world.stand(&address, Guise::default());
        }
    };
    run.go(make, |world, number| {
        let index = if world.chance.below(4) == 0 { world.follower() } else { world.leader() };
        let (name, line) = (world.candidates[index].name.clone(), line_of(&lines, world, index));
        let during = world.parts_of_ttl(0.5, 2.5);
        if number % 6 == 5 {
            line.set(Mood::Deaf);
            let leaving = world.dismiss(index, "leaves, and answers are lost");
            std::thread::sleep(during);
            line.set(Mood::Well);
            line.cut();
            world.replace(leaving);
            return;
        }
        let late = world.parts_of_ttl(0.05, 0.6);
        let (mood, what) = match number % 6 {
            0 => (Mood::Deaf, "answers are lost"),
            1 => (Mood::Late(late), "frames are late"),
            2 => (Mood::Twice, "frames come twice"),
            3 => (Mood::Held, "nothing comes through"),
            _ => (Mood::Well, "connections are cut"),
        };
        world.fault(what, &name);
        line.set(mood);
        if mood == Mood::Well {
            line.cut();
        }
        std::thread::sleep(during);
        line.set(Mood::Well);
        // What was swallowed is not said again on the same connection.
        if matches!(mood, Mood::Deaf | Mood::Held) {
            line.cut();
        }
    });
}
