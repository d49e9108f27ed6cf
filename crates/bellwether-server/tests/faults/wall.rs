//! Wall clocks that jump, of servers and of leaders: by an hour, by ten years, over 2038 (F8).

use std::fs;
use std::path::Path;

use bellwether::Clock;
use bellwether_server::drill::Rules;

use crate::guise::Guise;
use crate::run::Run;
use crate::world::World;

const HOUR: i64 = 3_600;
const TEN_YEARS: i64 = 315_360_000;
/// The last second that fits into 31 bits.
const YEAR_2038: i64 = 2_147_483_647;

fn wall_seconds() -> i64 {
    (Clock::System.now().wall.0 / 1000).cast_signed()
}

/// As one step: who reads it finds the old text or the new one.
fn set(file: &Path, by_seconds: i64) {
    let making = file.with_extension("new");
    fs::write(&making, format!("{by_seconds:+}\n")).unwrap();
    fs::rename(making, file).unwrap();
}

fn clock_of(world: &World, name: &str) -> std::path::PathBuf {
    world.path(&format!("{name}.wall"))
}

#[test]
fn wall_clocks() {
    let rules = Rules::default();
    let run = Run { kind: "wall_clocks", share: 120, worlds: 2, rules, deposes: false };
    let make = |world: &mut World| {
        for name in ["server", "one", "two", "three"] {
            set(&clock_of(world, name), 0);
        }
        let guise = Guise::with_wall_clock(&clock_of(world, "server"));
        let address = world.serve(&guise, "127.0.0.1", &[]);
        for name in ["one", "two", "three"] {
            let guise = Guise::with_wall_clock(&clock_of(world, name));
            world.stand(&address, guise);
        }
    };
    run.go(make, |world, number| {
        let to_2038 = YEAR_2038 - wall_seconds();
        let jumps = [TEN_YEARS, HOUR, -HOUR, -TEN_YEARS, to_2038, 0];
        let by = match number {
            // Whether a jump arrives at all is seen in the first one.
            0 => TEN_YEARS,
            _ => jumps[world.chance.below(jumps.len() as u64) as usize],
        };
        if number % 2 == 0 {
            world.fault(&format!("wall clock {by:+} s"), "server");
            set(&clock_of(world, "server"), by);
        } else {
            let leader = world.leader();
            let name = world.candidates[leader].name.clone();
            world.fault(&format!("wall clock {by:+} s"), &name);
            // All of them, so that it is the leader's whoever that is by now.
            for name in ["one", "two", "three"] {
                set(&clock_of(world, name), by);
            }
        }
        let during = world.parts_of_ttl(0.5, 1.5);
        std::thread::sleep(during);
        if number % 4 == 0 {
            // The next term is granted at the time that it jumped to.
            let (before, leader) = (world.newest_term(), world.leader());
            let name = world.candidates[leader].name.clone();
            world.candidates[leader].process.signal(rustix::process::Signal::STOP);
            world.eventually("somebody else leads", |world| world.newest_term() > before);
            let frozen = world.candidates.iter().position(|candidate| candidate.name == name);
            world.candidates[frozen.unwrap()].process.signal(rustix::process::Signal::CONT);
        }
        if number == 0 {
            let jumped_ms = (wall_seconds() + TEN_YEARS - HOUR).cast_unsigned() * 1000;
            let term = world.newest_term();
            assert!(term > jumped_ms, "term {term}: the server's wall clock did not jump");
        }
    });
}
