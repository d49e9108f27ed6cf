//! A small world of fleets without a store: a network that loses, delays, doubles and reorders,
//! parts that do not hear each other, also in one direction only, clocks that drift by up to 10 %
//! each, crashes, returns and freezes, all from one seed. A failure prints the seed.
//!
//! 1. With the majority rule no two members are trusted at the same moment, ever (F9).
//! 2. When the faults have ended, all who live agree on one leader within a bounded time, it is the
//!    one that the strategy names, and nothing changes any more (F1 to F4).
//! 3. Without the majority rule two do lead at once in some worlds: the rule is what prevents it.

use std::collections::BTreeMap;

use bellwether_core::chance::Chance;
use bellwether_core::fleet::{Action, Config, Event, Fleet, FleetId, Strategy, Word};
use bellwether_core::time::BootTime;

const SEEDS: u64 = 800;
const BEAT_MS: u64 = 500;
const SILENCE_MS: u64 = 2_000;
const HOLD_MS: u64 = 3_000;
const CALM_FROM_MS: u64 = 18_000;
/// Within so many silences of calm all agree: listening, following for `HOLD_MS`, asking until the
/// promises of others have run out, and what an election in vain takes before.
const AGREED_BY_MS: u64 = CALM_FROM_MS + 8 * SILENCE_MS;
const END_MS: u64 = AGREED_BY_MS + 2 * SILENCE_MS;

#[test]
fn the_lowest_id_leads_in_every_calm() {
    run(Strategy::LowestId);
}

#[test]
fn the_bully_leads_in_every_calm() {
    run(Strategy::Bully);
}

#[test]
fn the_ring_agrees_in_every_calm() {
    run(Strategy::Ring);
}

fn run(strategy: Strategy) {
    let (mut reigns, mut divided) = (0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(strategy, seed);
        world.run();
        reigns += world.reigns;
        divided += u64::from(world.was_divided);
    }
    assert!(reigns > 2 * SEEDS, "a world without changes proves nothing: {reigns} reigns");
    assert!(divided > SEEDS / 20, "without the rule two lead at times: {divided} worlds");
}

/// A clock with its own rate: 900 to 1100 of its milliseconds pass in 1000 true ones.
#[derive(Clone, Copy)]
struct Clock {
    rate: u64,
    offset: u64,
}

impl Clock {
    fn random(chance: &mut Chance) -> Self {
        Self { rate: 900 + chance.below(201), offset: chance.below(1_000_000) }
    }

    fn at(self, true_ms: u64) -> BootTime {
        BootTime(self.offset + true_ms * self.rate / 1000)
    }

    /// The first true moment at which the clock shows `time`.
    fn when(self, time: BootTime) -> u64 {
        (time.0.saturating_sub(self.offset) * 1000).div_ceil(self.rate)
    }
}

struct Member {
    id: FleetId,
    fleet: Fleet,
    clock: Clock,
    life: u64,
    alive: bool,
    frozen_until: u64,
    /// When it wants to be woken, in true time.
    wake_at: u64,
    leads: bool,
}

impl Member {
    fn new(id: FleetId, fleet: Fleet, clock: Clock, life: u64) -> Self {
        let (wake_at, frozen_until) = (u64::MAX, 0);
        Self { id, fleet, clock, life, alive: true, frozen_until, wake_at, leads: false }
    }
}

#[derive(Clone, Copy)]
enum Happening {
    Heard {
        to: usize,
        from: usize,
        life: u64,
        word: Word,
    },
    Start(usize),
    Crash(usize),
    Revive(usize),
    Leave(usize),
    Freeze(usize),
    /// Everybody whose bit is set hears only others whose bit is.
    Divide(u64),
    /// The second does not hear the first.
    Deafen(usize, usize),
    Heal,
    Calm,
}

struct World {
    strategy: Strategy,
    seed: u64,
    majority_of: Option<u32>,
    chance: Chance,
    now: u64,
    order: u64,
    due: BTreeMap<(u64, u64), Happening>,
    members: Vec<Member>,
    sides: u64,
    deaf: Vec<(usize, usize)>,
    loss_percent: u64,
    reigns: u64,
    was_divided: bool,
    changes_after_agreed: u64,
}

impl World {
    fn new(strategy: Strategy, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let count = 2 + chance.below(5) as usize;
        // Some fleets run fewer members than they are configured for.
        let spare = chance.below(2) as u32;
        let majority_of = (chance.below(2) == 0).then_some(count as u32 + spare);
        let mut world = Self {
            strategy,
            seed,
            majority_of,
            now: 0,
            order: 0,
            due: BTreeMap::new(),
            members: Vec::new(),
            sides: 0,
            deaf: Vec::new(),
            loss_percent: chance.below(30),
            reigns: 0,
            was_divided: false,
            changes_after_agreed: 0,
            chance,
        };
        for index in 0..count {
            // Neighbours in the list are not neighbours on the ring.
            let id = FleetId(((index as u64 * 5 + 3) % 7) * 10);
            let clock = Clock::random(&mut world.chance);
            let fleet = world.fleet(id, 0);
            world.members.push(Member::new(id, fleet, clock, 0));
            let after_ms = world.chance.below(1_000);
            world.later(after_ms, Happening::Start(index));
        }
        world.plan_faults();
        world
    }

    fn fleet(&mut self, me: FleetId, life: u64) -> Fleet {
        let config = Config {
            me,
            life,
            strategy: self.strategy,
            majority_of: self.majority_of,
            beat_ms: BEAT_MS,
            silence_ms: SILENCE_MS,
            hold_ms: HOLD_MS,
        };
        assert_eq!(config.check(), Ok(()));
        Fleet::new(config, self.chance.bits())
    }

    fn plan_faults(&mut self) {
        let mut at = 3_000;
        while at < CALM_FROM_MS {
            let who = self.chance.below(self.members.len() as u64) as usize;
            let other = self.chance.below(self.members.len() as u64) as usize;
            let fault = match self.chance.below(12) {
                0..3 => Happening::Crash(who),
                3 => Happening::Freeze(who),
                4 => Happening::Leave(who),
                5 | 6 => Happening::Divide(self.chance.bits()),
                7..10 => Happening::Deafen(who, other),
                _ => Happening::Heal,
            };
            self.later(at, fault);
            at += 100 + self.chance.below(2_000);
        }
        self.later(CALM_FROM_MS, Happening::Calm);
    }

    fn later(&mut self, after_ms: u64, happening: Happening) {
        self.order += 1;
        self.due.insert((self.now + after_ms, self.order), happening);
    }

    fn run(&mut self) {
        loop {
            let happening = self.due.first_key_value().map(|(key, _)| *key);
            let wake = self.next_wake();
            match (happening, wake) {
                (key, Some((at, who))) if key.is_none_or(|(due, _)| at < due) => {
                    if at > END_MS {
                        break;
                    }
                    self.now = at.max(self.now);
                    self.step(who, Event::Wake);
                }
                (Some(key), _) => {
                    if key.0 > END_MS {
                        break;
                    }
                    self.now = key.0;
                    if let Some(happening) = self.due.remove(&key) {
                        self.happen(happening);
                    }
                }
                (None, _) => break,
            }
        }
        self.check_calm();
    }

    fn next_wake(&self) -> Option<(u64, usize)> {
        let wakes =
            self.members.iter().enumerate().filter(|(_, m)| m.alive && m.wake_at < u64::MAX);
        wakes.map(|(i, m)| (m.wake_at.max(m.frozen_until).max(self.now), i)).min()
    }

    fn check_calm(&self) {
        let (seed, strategy) = (self.seed, self.strategy);
        let alive: Vec<&Member> = self.members.iter().filter(|member| member.alive).collect();
        let views: Vec<_> = alive.iter().map(|m| (m.id, m.fleet.view().leader)).collect();
        let leader = views[0].1.map(|(id, _)| id);
        let agreed = views.iter().all(|(_, view)| view.map(|(id, _)| id) == leader);
        assert!(agreed && leader.is_some(), "{strategy:?} seed {seed}: no agreement: {views:?}");
        let leading = alive.iter().find(|member| Some(member.id) == leader);
        let leads = leading.is_some_and(|m| m.fleet.is_trusted(m.clock.at(self.now)));
        assert!(leads, "{strategy:?} seed {seed}: {leader:?} is followed and does not lead");
        let ids = alive.iter().map(|member| member.id);
        let first = match strategy {
            Strategy::LowestId => ids.min(),
            Strategy::Bully => ids.max(),
            Strategy::Ring => leader,
        };
        assert_eq!(leader, first, "{strategy:?} seed {seed}: the wrong one leads");
        let changes = self.changes_after_agreed;
        assert_eq!(changes, 0, "{strategy:?} seed {seed}: views change in the calm");
    }

    /// A time of trust begins in a step, so whoever has just stepped is compared with the others.
    fn check_trust(&mut self, who: usize) {
        let trusts =
            |member: &Member| member.alive && member.fleet.is_trusted(member.clock.at(self.now));
        if !trusts(&self.members[who]) {
            return;
        }
        let other = self.members.iter().enumerate().find(|(i, other)| *i != who && trusts(other));
        let Some((_, other)) = other else { return };
        let (seed, now, ids) = (self.seed, self.now, (self.members[who].id, other.id));
        let is_ruled = self.majority_of.is_some();
        assert!(!is_ruled, "{:?} seed {seed} at {now}: {ids:?} both lead", self.strategy);
        self.was_divided = true;
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Heard { to, from, life, word } => {
                let member = &self.members[to];
                if member.frozen_until > self.now {
                    self.later(member.frozen_until - self.now, happening);
                } else if member.alive {
                    let from = self.members[from].id;
                    self.step(to, Event::Heard { from, life, word });
                }
            }
            Happening::Start(who) => self.step(who, Event::Start),
            Happening::Crash(who) if self.members[who].alive => self.end(who),
            Happening::Leave(who) if self.members[who].alive => {
                if self.members[who].frozen_until <= self.now {
                    self.step(who, Event::Leave);
                    self.end(who);
                }
            }
            Happening::Revive(who) if !self.members[who].alive => self.revive(who),
            Happening::Crash(_) | Happening::Leave(_) | Happening::Revive(_) => {}
            Happening::Freeze(who) => {
                self.members[who].frozen_until = self.now + self.chance.below(3 * SILENCE_MS);
            }
            Happening::Divide(sides) => self.sides = sides,
            Happening::Deafen(from, to) => self.deaf.push((from, to)),
            Happening::Heal => (self.sides, self.deaf) = (0, Vec::new()),
            Happening::Calm => self.calm(),
        }
    }

    fn end(&mut self, who: usize) {
        self.members[who].alive = false;
        self.members[who].leads = false;
        // One that is back at once has forgotten what it promised a moment ago.
        let away_ms = if self.chance.below(2) == 0 { SILENCE_MS / 20 } else { 4 * SILENCE_MS };
        let after_ms = self.chance.below(away_ms);
        if self.now + after_ms < CALM_FROM_MS {
            self.later(after_ms, Happening::Revive(who));
        }
    }

    fn revive(&mut self, who: usize) {
        let (id, life) = (self.members[who].id, self.members[who].life + 1);
        let fleet = self.fleet(id, life);
        let clock = Clock::random(&mut self.chance);
        self.members[who] = Member::new(id, fleet, clock, life);
        self.step(who, Event::Start);
    }

    /// The network is whole, and enough members live; the others stay dead.
    fn calm(&mut self) {
        (self.sides, self.deaf, self.loss_percent) = (0, Vec::new(), 0);
        let needed = self.majority_of.map_or(1, |ids| ids as usize / 2 + 1);
        for who in 0..self.members.len() {
            self.members[who].frozen_until = self.now;
            let alive = self.members.iter().filter(|member| member.alive).count();
            if !self.members[who].alive && (alive < needed || self.chance.below(2) == 0) {
                self.revive(who);
            }
        }
    }

    /// What a shell does: steps, and performs the actions at once.
    fn step(&mut self, who: usize, event: Event) {
        let member = &mut self.members[who];
        let (life, now) = (member.life, member.clock.at(self.now));
        for action in member.fleet.step(now, event) {
            match action {
                Action::Send { to, word } => {
                    if let Some(to) = self.members.iter().position(|member| member.id == to) {
                        self.send(who, to, life, word);
                    }
                }
                Action::SendAll(word) => {
                    for to in 0..self.members.len() {
                        self.send(who, to, life, word);
                    }
                }
                Action::Announce(view) => {
                    let leads = view.leader.is_some_and(|(id, _)| id == self.members[who].id);
                    self.reigns += u64::from(leads && !self.members[who].leads);
                    self.members[who].leads = leads;
                    self.changes_after_agreed += u64::from(self.now > AGREED_BY_MS);
                }
                Action::Closed => {}
            }
        }
        let member = &mut self.members[who];
        let wake = member.fleet.next_wake();
        assert!(wake.is_none_or(|at| at > now), "seed {}: it would spin", self.seed);
        member.wake_at = wake.map_or(u64::MAX, |at| member.clock.when(at));
        self.check_trust(who);
    }

    fn send(&mut self, from: usize, to: usize, life: u64, word: Word) {
        let is_cut = (self.sides >> from) & 1 != (self.sides >> to) & 1;
        if from == to || is_cut || self.deaf.contains(&(from, to)) {
            return;
        }
        if self.chance.below(100) < self.loss_percent {
            return;
        }
        let is_calm = self.now >= CALM_FROM_MS;
        let copies = if !is_calm && self.chance.below(10) == 0 { 2 } else { 1 };
        for _ in 0..copies {
            let slow = !is_calm && self.chance.below(50) == 0;
            let after_ms = self.chance.below(if slow { 3 * SILENCE_MS } else { 150 });
            self.later(after_ms, Happening::Heard { to, from, life, word });
        }
    }
}
