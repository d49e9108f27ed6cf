//! How many faults, drawn from what, and what came of them.

use std::io::Write as _;

use bellwether::clock::boot_ns;
use bellwether_server::drill::{Rules, Tally};

use crate::world::World;

/// How many faults there are in all, if nothing else is said.
const FAULTS: u64 = 260;

/// Several worlds of one kind, side by side.
pub struct Run {
    pub kind: &'static str,
    /// So many of a thousand faults are of this kind.
    pub share: u64,
    pub worlds: u64,
    pub rules: Rules,
    /// Whether deposed leaders were there to be refused: else nothing is proved of the fence.
    pub deposes: bool,
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: write a number")))
}

impl Run {
    /// Makes the worlds and the faults, and judges. `fault` makes one fault, mends it, and returns; the
    /// number is that of the fault in its world.
    pub fn go(&self, make: impl Fn(&mut World) + Sync, fault: impl Fn(&mut World, u64) + Sync) {
        let faults = (variable("FAULTS").unwrap_or(FAULTS) * self.share).div_ceil(1000);
        let each = faults.div_ceil(self.worlds);
        let seed = variable("FAULTS_SEED").unwrap_or_else(|| boot_ns() % 1_000_000_000);
        let play = |nth: u64| {
            let mut world = World::new(self.kind, seed, nth);
            make(&mut world);
            world.somebody_leads();
            for number in 0..each {
                fault(&mut world, number);
                world.somebody_leads();
            }
            world.judge(self.rules)
        };
        // A process dies with the thread that started it, so each world has one to its end.
        let tallies: Vec<_> = std::thread::scope(|scope| {
            let worlds: Vec<_> =
                (0..self.worlds).map(|nth| scope.spawn(move || play(nth))).collect();
            worlds.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let mut all = Tally::default();
        for tally in tallies {
            let Ok(tally) = tally else { panic!("{}: see above", again(self.kind, seed)) };
            all.terms += tally.terms;
            all.faults += tally.faults;
            all.accepted += tally.accepted;
            all.refused += tally.refused;
        }
        let Tally { terms, faults, accepted, refused } = all;
        // Past the test's own output, which nobody sees when all is well.
        let _ = writeln!(
            std::io::stderr(),
            "{}: {faults} faults, {terms} terms, {accepted} writes, {refused} refused, seed {seed}",
            self.kind
        );
        assert_eq!(faults as u64, each * self.worlds, "every fault was written down");
        assert!(terms as u64 >= self.worlds && accepted > 0, "somebody led, and wrote");
        assert!(refused > 0 || !self.deposes || faults < 20, "nobody was refused: was it late?");
    }
}

/// The command that makes these faults again.
pub fn again(kind: &str, seed: u64) -> String {
    let faults = variable("FAULTS").unwrap_or(FAULTS);
    format!(
        "FAULTS={faults} FAULTS_SEED={seed} cargo test -p bellwether-server --all-features \
         --test faults {kind}"
    )
}
