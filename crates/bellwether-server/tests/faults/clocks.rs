//! Clocks that do not agree: boot clocks that run at other rates, and from other beginnings (F9).
//!
//! A leader is cut off while it leads, so that it believes until its own clock says that its trust is
//! over. The rates are libfaketime's, which stands in for the C library's `clock_gettime`, that our program asks
//! for the boot clock, and for timeouts; the beginnings are those of a time namespace.

use bellwether_server::drill::Rules;
use std::time::Duration;

use crate::guise::Guise;
use crate::line::Mood;
use crate::network::{Lines, line_of, new_line};
use crate::run::Run;
use crate::world::World;

/// `/proc/uptime` counts hundredths of a second.
const GRAIN_NS: u64 = 10_000_000;

/// The rates of a server's clock and of its candidates' clocks.
type Rates = (&'static str, [&'static str; 3]);

/// A world for each.
fn with_rates(lines: &Lines, worlds: [Rates; 2]) -> impl Fn(&mut World) {
    move |world| {
        // What is left between two beliefs must be more than the grain.
        world.ttl = Duration::from_secs(1);
        let (of_server, of_candidates) = worlds[world.nth as usize];
        let server = world.serve(&Guise::at_rate(of_server), "127.0.0.1", &[]);
        for rate in of_candidates {
            let address = new_line(lines, &server);
            world.stand(&address, Guise::at_rate(rate));
        }
    }
}

fn cut_off_the_leader(lines: &Lines) -> impl Fn(&mut World, u64) {
    move |world, _| {
        let leader = world.leader();
        let line = line_of(lines, world, leader);
        let name = world.candidates[leader].name.clone();
        world.fault("cut off", &name);
        line.set(Mood::Held);
        let during = world.parts_of_ttl(1.2, 2.0);
        world.pass_in_company(during);
        line.set(Mood::Well);
        line.cut();
    }
}

/// 1.25 is the greatest ratio of a server's rate to a leader's here; the promise holds up to 1.31 (T22).
#[test]
fn rates_within_the_bound() {
    let lines = Lines::default();
    let rules = Rules { grain_ns: GRAIN_NS, ..Rules::default() };
    let run = Run { kind: "rates_within_the_bound", share: 60, worlds: 2, rules, deposes: true };
    let rates = [("1.0", ["0.8", "1.3", "0.8"]), ("1.25", ["1.0", "1.3", "1.0"])];
    run.go(with_rates(&lines, rates), cut_off_the_leader(&lines));
}

/// Two believe to lead; the fence holds all the same (T23). That they do shows that the clocks of the
/// test above were no others than they should be.
#[test]
fn rates_beyond_the_bound() {
    let lines = Lines::default();
    let rules = Rules { grain_ns: GRAIN_NS, beyond_drift: true };
    let run = Run { kind: "rates_beyond_the_bound", share: 60, worlds: 2, rules, deposes: true };
    let rates = [("1.0", ["0.5"; 3]), ("2.0", ["1.0"; 3])];
    run.go(with_rates(&lines, rates), cut_off_the_leader(&lines));
}

#[test]
fn other_beginnings() {
    let rules = Rules::default();
    let run = Run { kind: "other_beginnings", share: 40, worlds: 1, rules, deposes: true };
    let make = |world: &mut World| {
        let address = world.serve(&Guise::default(), "127.0.0.1", &[]);
        world.stand(&address, Guise::default());
        world.stand(&address, Guise::ahead(100_000));
        world.stand(&address, Guise::ahead(1_000_000));
    };
    run.go(make, |world, _| {
        let (leader, during) = (world.leader(), world.parts_of_ttl(0.5, 3.0));
        world.freeze(leader, during);
    });
}
