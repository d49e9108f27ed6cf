//! A shop with tills, under a seed: messages come in bursts, workers start slowly and take their time.

use bellwether_core::chance::Chance;
use bellwether_core::scaler::{Candidate, Policy, Reading, Scaler, Why, choose_victims};
use bellwether_core::time::BootTime;

/// The world goes on by so much, and the scaler looks every ten of these.
const TICK_MS: u64 = 100;
const LOOK_EVERY: u64 = 10;

#[derive(Clone, Copy)]
struct Worker {
    started_at: u64,
    takes_from: u64,
    busy_until: u64,
    /// Told to stop: takes no more.
    leaving: bool,
}

struct World {
    now: u64,
    scaler: Scaler,
    workers: Vec<Worker>,
    waiting: Vec<u64>,
    arrived: u64,
    completed: u64,
    service_ms: u64,
    start_ms: u64,
    paused: bool,
    /// (when, from, to).
    changes: Vec<(u64, u32, u32)>,
}

impl World {
    fn new(policy: Policy, service_ms: u64, start_ms: u64) -> Self {
        policy.check().expect("a policy that works");
        Self {
            now: 0,
            scaler: Scaler::new(policy),
            workers: Vec::new(),
            waiting: Vec::new(),
            arrived: 0,
            completed: 0,
            service_ms,
            start_ms,
            paused: false,
            changes: Vec::new(),
        }
    }

    fn send(&mut self, count: u64) {
        self.arrived += count;
        self.waiting.extend((0..count).map(|_| self.now));
    }

    fn tick(&mut self) {
        self.now += TICK_MS;
        let now = self.now;
        for worker in &mut self.workers {
            if worker.busy_until != 0 && worker.busy_until <= now {
                worker.busy_until = 0;
                self.completed += 1;
            }
            let takes = !worker.leaving && worker.takes_from <= now && !self.paused;
            if takes && worker.busy_until == 0 && !self.waiting.is_empty() {
                self.waiting.remove(0);
                worker.busy_until = now + self.service_ms;
            }
        }
        self.workers.retain(|worker| !worker.leaving || worker.busy_until != 0);
        if (now / TICK_MS).is_multiple_of(LOOK_EVERY) {
            self.look();
        }
    }

    fn staying(&self) -> impl Iterator<Item = &Worker> {
        self.workers.iter().filter(|worker| !worker.leaving)
    }

    fn look(&mut self) {
        let now = self.now;
        let count = |of: &dyn Fn(&Worker) -> bool| self.staying().filter(|w| of(w)).count() as u32;
        let reading = Reading {
            ready: self.waiting.len() as u64,
            locked: self.workers.iter().filter(|worker| worker.busy_until != 0).count() as u64,
            arrived: self.arrived,
            completed: self.completed,
            oldest_ms: self.waiting.first().map(|at| now - at),
            is_paused: self.paused,
            running: count(&|worker| worker.takes_from <= now),
            starting: count(&|worker| worker.takes_from > now),
            busy: count(&|worker| worker.busy_until != 0),
        };
        let decision = self.scaler.step(BootTime(now), reading);
        let policy = self.scaler.policy();
        let (from, wanted) = (decision.from, decision.wanted);
        let in_bounds = (policy.min..=policy.max).contains(&wanted);
        assert!(in_bounds || self.paused, "{decision}");
        assert!(wanted <= from || wanted - from <= policy.step_out_max.max(policy.min));
        assert!(wanted >= from || wanted >= reading.busy, "a busy one would go: {decision}");
        assert!(wanted <= from || !self.paused, "grown for a paused queue: {decision}");
        assert!(wanted == from || reading.starting == 0 || from < policy.min, "{decision}");
        if wanted != from {
            self.changes.push((now, from, wanted));
        }
        self.obey(from, wanted);
    }

    fn obey(&mut self, from: u32, wanted: u32) {
        let now = self.now;
        for _ in from..wanted {
            let takes_from = now + self.start_ms;
            self.workers.push(Worker {
                started_at: now,
                takes_from,
                busy_until: 0,
                leaving: false,
            });
        }
        let staying: Vec<usize> =
            (0..self.workers.len()).filter(|at| !self.workers[*at].leaving).collect();
        let candidates: Vec<Candidate> = staying
            .iter()
            .map(|at| Candidate {
                is_busy: Some(self.workers[*at].busy_until != 0),
                leads: false,
                started_at: BootTime(self.workers[*at].started_at),
            })
            .collect();
        for victim in choose_victims(&candidates, from.saturating_sub(wanted) as usize) {
            let worker = &mut self.workers[staying[victim]];
            assert_eq!(worker.busy_until, 0, "an idle one was there");
            worker.leaving = true;
        }
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms / TICK_MS {
            self.tick();
        }
    }

    /// Messages at a steady pace, one every so often.
    fn steady(&mut self, ms: u64, every_ms: u64) {
        for _ in 0..ms / TICK_MS {
            if self.now.is_multiple_of(every_ms) {
                self.send(1);
            }
            self.tick();
        }
    }

    fn count(&self) -> u32 {
        self.staying().count() as u32
    }
}

fn targets(chance: &mut Chance) -> Policy {
    let mut policy = Policy {
        min: chance.below(3) as u32,
        max: 4 + chance.below(40) as u32,
        in_pause_ms: 20_000 + chance.below(60_000),
        out_pause_ms: chance.below(10_000),
        window_ms: 5_000 + chance.below(30_000),
        ..Policy::default()
    };
    match chance.below(3) {
        0 => policy.per_worker = Some(1 + chance.below(20)),
        1 => policy.drain_within_ms = Some(5_000 + chance.below(60_000)),
        _ => {
            policy.oldest_within_ms = Some(2_000 + chance.below(30_000));
            policy.per_worker = Some(10 + chance.below(50));
        }
    }
    policy
}

/// XM-20 to XM-24 and XM-31, whatever comes: every look checks the bounds, the steps, the busy and the
/// paused; in the end the line is gone, and what is left is the minimum.
#[test]
fn bursts_of_any_size_are_drained_and_forgotten() {
    for seed in 0..300 {
        let mut chance = Chance::new(seed);
        let policy = targets(&mut chance);
        let min = policy.min;
        let (service_ms, start_ms) = (100 + chance.below(4_000), chance.below(8_000));
        let mut world = World::new(policy, service_ms, start_ms);
        for _ in 0..chance.below(6) {
            let burst = chance.below(200);
            world.send(burst);
            world.paused = chance.below(4) == 0;
            world.run(chance.below(60_000));
        }
        world.paused = false;
        world.run(2_000_000);
        assert_eq!(world.completed, world.arrived, "seed {seed}: not drained");
        assert_eq!(world.count(), min, "seed {seed}: not forgotten");
        let settled = world.changes.len();
        world.run(600_000);
        assert_eq!(world.changes.len(), settled, "seed {seed}: changes with nothing to do");
    }
}

/// XM-24: at a steady load the number comes to rest.
#[test]
fn a_steady_load_has_a_steady_number() {
    for seed in 0..100 {
        let mut chance = Chance::new(1_000 + seed);
        let policy = targets(&mut chance);
        let service_ms = 100 * (1 + chance.below(20));
        // Between a tenth of one worker's time and nearly that of four.
        let every_ms = 100 * (service_ms / 350).max(1 + chance.below(service_ms / 10));
        let mut world = World::new(policy, service_ms, 2_000);
        world.steady(600_000, every_ms);
        let settled = world.changes.len();
        world.steady(1_200_000, every_ms);
        let later = world.changes[settled..].to_vec();
        // A number that is just between two may go once more, and back.
        assert!(later.len() <= 4, "seed {seed}: {every_ms} {service_ms} flaps: {later:?}");
        assert!(world.waiting.len() < 200, "seed {seed}: {} wait", world.waiting.len());
    }
}

/// XM-24, XM-31: a burst every half minute is not followed up and down.
#[test]
fn bursts_that_come_again_and_again_do_not_make_it_flap() {
    let policy = Policy { per_worker: Some(5), max: 20, ..Policy::default() };
    let mut world = World::new(policy, 500, 3_000);
    for _ in 0..10 {
        world.send(60);
        world.run(30_000);
    }
    let settled = world.changes.len();
    for _ in 0..40 {
        world.send(60);
        world.run(30_000);
    }
    assert_eq!(world.changes[settled..], [], "{:?}", world.changes);
    assert!(world.count() >= 5, "{}", world.count());
}

/// Scale to none and back, by the world's own messages.
#[test]
fn to_none_and_back() {
    let policy = Policy { min: 0, per_worker: Some(5), ..Policy::default() };
    let mut world = World::new(policy, 200, 1_000);
    world.run(5_000);
    assert_eq!(world.count(), 0);
    world.send(3);
    world.run(20_000);
    assert_eq!((world.completed, world.count()), (3, 1));
    world.run(120_000);
    assert_eq!(world.count(), 0);
    let reading = Reading::default();
    assert_eq!(world.scaler.step(BootTime(world.now), reading).why, Why::Dormant);
}
