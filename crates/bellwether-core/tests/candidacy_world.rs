//! A small world: candidacies, the lease rules, a network that loses, delays, doubles and reorders,
//! clocks that drift by up to 10 % each, crashes, freezes and restarts, all from one seed.
//!
//! 1. No two members trust the lease at once.
//! 2. No two works run at once, if work stops promptly and nobody freezes.
//! 3. Terms only grow, and no term is led twice.
//! 4. Nothing is released while its work runs.
//! 5. When the faults end, somebody leads.

use std::collections::BTreeMap;

use bellwether_core::candidacy::{Action, Attempt, Candidacy, Config, Event, WorkEnd};
use bellwether_core::chance::Chance;
use bellwether_core::command::{Acquire, LeaseKind};
use bellwether_core::lease::{Hold, Lease, LeaseAt};
use bellwether_core::name::{LeaseId, LeaseName, MemberId, MemberSlot, Term};
use bellwether_core::time::{BootTime, Now};

const SEEDS: u64 = 500;
const TTL_MS: u64 = 10_000;
const CALM_FROM_MS: u64 = 300_000;
const END_MS: u64 = 400_000;

#[test]
fn five_hundred_worlds_keep_the_promises() {
    let mut terms = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.run();
        terms += world.terms_led;
    }
    assert!(terms > 10 * SEEDS, "a world without changes proves nothing: {terms} terms");
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
    candidacy: Candidacy,
    clock: Clock,
    /// Grows with every start; what was meant for an earlier life is dropped.
    life: u32,
    alive: bool,
    frozen_until: u64,
    work: Option<Term>,
}

#[derive(Clone, Copy)]
enum Ask {
    Acquire { attempt: Attempt, id: LeaseId, wait_ms: u64 },
    Renew { attempt: Attempt, id: LeaseId },
    Release { id: LeaseId },
}

#[derive(Clone, Copy)]
enum Happening {
    ToServer { from: usize, life: u32, ask: Ask },
    ToMember { to: usize, life: u32, event: Event },
    WorkEnds { of: usize, life: u32, term: Term, end: WorkEnd },
    Crash(usize),
    Revive(usize),
    Freeze(usize),
    AskStepDown,
    ServerRestart,
    ServerTick,
}

struct World {
    seed: u64,
    chance: Chance,
    now: u64,
    order: u64,
    due: BTreeMap<(u64, u64), Happening>,
    members: Vec<Member>,
    name: LeaseName,
    kind: LeaseKind,
    server_clock: Clock,
    lease: Option<Lease>,
    waiting: Vec<(usize, u32, Attempt, LeaseId, BootTime)>,
    /// Work stops promptly and nobody freezes: then not even works overlap.
    gentle: bool,
    loss_percent: u64,
    terms_led: u64,
    last_term: Term,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let count = 2 + chance.below(3) as usize;
        let mut world = Self {
            seed,
            now: 0,
            order: 0,
            due: BTreeMap::new(),
            members: Vec::new(),
            name: LeaseName::new("leader").expect("a good name"),
            kind: if chance.below(4) == 0 { LeaseKind::Standing } else { LeaseKind::Bound },
            server_clock: Clock::random(&mut chance),
            lease: None,
            waiting: Vec::new(),
            gentle: chance.below(2) == 0,
            loss_percent: chance.below(30),
            terms_led: 0,
            last_term: Term(0),
            chance,
        };
        for index in 0..count {
            let clock = Clock::random(&mut world.chance);
            let candidacy = world.candidacy(index, 0);
            let alive = true;
            let member = Member { candidacy, clock, life: 0, alive, frozen_until: 0, work: None };
            world.members.push(member);
            world.later(10, Happening::ToMember { to: index, life: 0, event: Event::Start });
        }
        world.plan_faults();
        world
    }

    fn plan_faults(&mut self) {
        let mut at = 0;
        while at < CALM_FROM_MS - 30_000 {
            at += 1_000 + self.chance.below(20_000);
            let who = self.chance.below(self.members.len() as u64) as usize;
            let fault = match self.chance.below(6) {
                0 | 1 => Happening::Crash(who),
                2 | 3 if !self.gentle => Happening::Freeze(who),
                4 => Happening::ServerRestart,
                _ => Happening::AskStepDown,
            };
            self.later(at, fault);
        }
        for at in (0..END_MS).step_by(250) {
            self.later(at, Happening::ServerTick);
        }
    }

    fn candidacy(&mut self, index: usize, life: u32) -> Candidacy {
        let config = Config {
            member: MemberId((index as u128) << 32 | u128::from(life)),
            ttl_ms: TTL_MS,
            wait_ms: [0, 5_000, 30_000][self.chance.below(3) as usize],
            retry_ms: 3_000,
            stop_ms: 2_000,
            renew_ms: 0,
            stall_ms: 0,
            once: false,
        };
        assert_eq!(config.check(), Ok(()));
        Candidacy::new(config, self.chance.bits())
    }

    fn later(&mut self, after_ms: u64, happening: Happening) {
        self.order += 1;
        self.due.insert((self.now + after_ms, self.order), happening);
    }

    fn calm(&self) -> bool {
        self.now >= CALM_FROM_MS
    }

    fn run(&mut self) {
        loop {
            let happening = self.due.first_key_value().map(|(key, _)| *key);
            let wake = self.next_wake();
            match (happening, wake) {
                (Some((at, _)), _) if at > END_MS => break,
                (key, Some((at, who))) if key.is_none_or(|(due, _)| at < due) => {
                    self.now = at.max(self.now);
                    self.step(who, Event::Wake);
                }
                (Some(key), _) => {
                    self.now = key.0;
                    if let Some(happening) = self.due.remove(&key) {
                        self.happen(happening);
                    }
                }
                (None, _) => break,
            }
            self.check();
        }
        let leading = self.trusting().len();
        assert_eq!(leading, 1, "seed {}: nobody leads in the calm", self.seed);
    }

    fn next_wake(&self) -> Option<(u64, usize)> {
        let wakes = self.members.iter().enumerate().filter(|(_, member)| member.alive);
        wakes
            .filter_map(|(index, member)| {
                let at = member.clock.when(member.candidacy.next_wake()?);
                Some((at.max(member.frozen_until).max(self.now), index))
            })
            .min()
    }

    fn trusting(&self) -> Vec<usize> {
        let trusts = |member: &Member| member.candidacy.is_trusted(member.clock.at(self.now));
        let members = self.members.iter().enumerate();
        members.filter(|(_, member)| member.alive && trusts(member)).map(|(i, _)| i).collect()
    }

    fn check(&self) {
        let trusting = self.trusting();
        assert!(trusting.len() <= 1, "seed {} at {}: {trusting:?} lead", self.seed, self.now);
        if self.gentle && self.kind == LeaseKind::Bound {
            let works = self.members.iter().filter(|member| member.work.is_some()).count();
            assert!(works <= 1, "seed {} at {}: {works} works run", self.seed, self.now);
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::ToServer { from, life, ask } => self.serve(from, life, ask),
            Happening::ToMember { to, life, event } => {
                let member = &self.members[to];
                if member.frozen_until > self.now {
                    self.later(member.frozen_until - self.now, happening);
                } else if member.alive && member.life == life {
                    self.step(to, event);
                }
            }
            Happening::WorkEnds { of, life, term, end } => {
                let member = &mut self.members[of];
                if member.frozen_until > self.now {
                    let after_ms = member.frozen_until - self.now;
                    self.later(after_ms, happening);
                } else if member.life == life && member.work == Some(term) {
                    member.work = None;
                    self.step(of, Event::WorkEnded(end));
                }
            }
            Happening::Crash(who) if self.members[who].alive => {
                self.members[who].alive = false;
                self.members[who].work = None;
                let after_ms = self.chance.below(20_000);
                self.later(after_ms, Happening::Revive(who));
            }
            Happening::Crash(_) => {}
            Happening::Revive(who) => {
                let life = self.members[who].life + 1;
                let candidacy = self.candidacy(who, life);
                let clock = Clock::random(&mut self.chance);
                self.members[who] =
                    Member { candidacy, clock, life, alive: true, frozen_until: 0, work: None };
                self.step(who, Event::Start);
            }
            Happening::Freeze(who) => {
                self.members[who].frozen_until = self.now + self.chance.below(25_000);
            }
            Happening::AskStepDown => {
                let Some(term) = self.lease.as_ref().map(|lease| lease.term) else { return };
                for to in 0..self.members.len() {
                    let (life, event) =
                        (self.members[to].life, Event::StepDownAsked { term, successor: None });
                    self.send(Happening::ToMember { to, life, event });
                }
            }
            Happening::ServerRestart => {
                let now = self.server_clock.at(self.now);
                if let Some(Lease { hold: Hold::Held { renewed_at, .. }, .. }) = &mut self.lease {
                    *renewed_at = now;
                }
                self.waiting.clear();
            }
            Happening::ServerTick => self.serve_line(),
        }
    }

    /// What a shell does: steps, and performs the actions at once.
    fn step(&mut self, who: usize, event: Event) {
        let member = &mut self.members[who];
        let (clock, life) = (member.clock, member.life);
        for action in member.candidacy.step(clock.at(self.now), event) {
            let to_server = |ask| Happening::ToServer { from: who, life, ask };
            let answer = |event| Happening::ToMember { to: who, life, event };
            match action {
                Action::Acquire { attempt, id, wait_ms } => {
                    self.send(to_server(Ask::Acquire { attempt, id, wait_ms }));
                    let cut_ms = wait_ms + TTL_MS / 2;
                    self.later(cut_ms, answer(Event::AcquireUnknown { attempt }));
                }
                Action::Renew { attempt, id, deadline } => {
                    self.send(to_server(Ask::Renew { attempt, id }));
                    let cut_ms = clock.when(deadline).saturating_sub(self.now);
                    self.later(cut_ms, answer(Event::RenewUnknown { attempt }));
                }
                Action::Release { id, .. } => {
                    let running = self.members[who].work;
                    assert_eq!(running, None, "seed {}: released while it runs", self.seed);
                    self.send(to_server(Ask::Release { id }));
                    self.later(2_000, answer(Event::ReleaseUnknown));
                }
                Action::StartWork { term } => self.start_work(who, life, term),
                Action::CancelWork { .. } => {
                    let stop_ms = if self.gentle { TTL_MS / 20 } else { TTL_MS / 2 };
                    let after_ms = self.chance.below(stop_ms);
                    self.end_work(who, life, after_ms);
                }
                Action::AbortWork => self.end_work(who, life, 0),
                Action::Announce(_) | Action::Closed => {}
            }
        }
    }

    fn start_work(&mut self, who: usize, life: u32, term: Term) {
        let seed = self.seed;
        assert!(term > self.last_term, "seed {seed}: {term} led after {}", self.last_term);
        assert_eq!(self.members[who].work, None, "seed {seed}: two works in one member");
        self.last_term = term;
        self.terms_led += 1;
        self.members[who].work = Some(term);
        if !self.calm() && self.chance.below(2) == 0 {
            let after_ms = self.chance.below(40_000);
            let end = if self.chance.below(2) == 0 { WorkEnd::Finished } else { WorkEnd::Failed };
            self.later(after_ms, Happening::WorkEnds { of: who, life, term, end });
        }
    }

    fn end_work(&mut self, who: usize, life: u32, after_ms: u64) {
        if let Some(term) = self.members[who].work {
            let end = WorkEnd::Finished;
            self.later(after_ms, Happening::WorkEnds { of: who, life, term, end });
        }
    }

    /// The network: lost, late, doubled.
    fn send(&mut self, happening: Happening) {
        if self.calm() {
            let after_ms = 1 + self.chance.below(50);
            return self.later(after_ms, happening);
        }
        let copies = u64::from(self.chance.below(100) >= self.loss_percent)
            + u64::from(self.chance.below(20) == 0);
        for _ in 0..copies {
            let slow = self.chance.below(8) == 0;
            let after_ms = 1 + self.chance.below(if slow { TTL_MS } else { 300 });
            self.later(after_ms, happening);
        }
    }

    fn serve(&mut self, from: usize, life: u32, ask: Ask) {
        let at = LeaseAt {
            name: &self.name,
            lease: self.lease.as_ref(),
            now: Now::new(0, self.server_now().0),
            beaten_at: None,
            terms_from: Term(0),
        };
        let (decision, event) = match ask {
            Ask::Acquire { attempt, id, wait_ms } => {
                let until = self.server_now().plus_ms(wait_ms);
                self.waiting.push((from, life, attempt, id, until));
                return self.serve_line();
            }
            Ask::Renew { attempt, id } => match at.renew(id) {
                Ok(decision) => (Some(decision), Event::Renewed { attempt }),
                Err(_) => (None, Event::RenewRefused { attempt }),
            },
            Ask::Release { id } => (at.release(id).ok(), Event::Released),
        };
        if let Some(decision) = decision {
            self.keep(decision.lease);
        }
        self.send(Happening::ToMember { to: from, life, event });
        self.serve_line();
    }

    /// Grants to whoever waits, in order; tells those who waited long enough.
    fn serve_line(&mut self) {
        let now = Now::new(0, self.server_now().0);
        for (to, life, attempt, id, until) in std::mem::take(&mut self.waiting) {
            let lease = self.lease.as_ref();
            let at = LeaseAt { name: &self.name, lease, now, beaten_at: None, terms_from: Term(0) };
            let ask = Acquire {
                lease: self.name.clone(),
                id,
                kind: self.kind,
                ttl_ms: TTL_MS,
                metadata: String::new(),
                wait_ms: 0,
                priority: 0,
                slots: 1,
            };
            let event = match at.acquire(&ask, MemberSlot(to as u32 + 1)) {
                Ok(decision) => {
                    let term = decision.lease.term;
                    self.keep(decision.lease);
                    Event::Acquired { attempt, term }
                }
                Err(_) if until > now.boot => {
                    self.waiting.push((to, life, attempt, id, until));
                    continue;
                }
                Err(_) => Event::AcquireRefused { attempt, retry_after_ms: None },
            };
            self.send(Happening::ToMember { to, life, event });
        }
    }

    fn keep(&mut self, lease: Lease) {
        let before = self.lease.as_ref().map_or((Term(0), 0), |old| (old.term, old.version));
        assert!((lease.term, lease.version) >= before, "seed {}: a term went back", self.seed);
        self.lease = Some(lease);
    }

    fn server_now(&self) -> BootTime {
        self.server_clock.at(self.now)
    }
}
