//! The transitions of a fleet's member.

use super::{
    Action, Claim, Event, Fleet, FleetId, Input, Obstacle, Output, Rules, Scene, State, View, Word,
};
use crate::time::BootTime;

/// Asking for support lasts so many silences: other promises run out within one, and a little.
const ASKING_SILENCES: u64 = 4;

impl Fleet {
    pub(super) fn end_trust(&mut self, now: BootTime) {
        if matches!(self.claim, Claim::Leading(_)) && now >= self.trusted_until {
            self.give_up();
        }
    }

    pub(super) fn take(&mut self, now: BootTime, event: Event) {
        match (self.state, event) {
            (State::Idle, Event::Start) => {
                self.state = State::Running;
                self.listening_until = now.plus_ms(self.config.promise_ms());
                self.beat_due = now;
            }
            (State::Running, Event::Heard { from, life, word }) => {
                self.hear(now, from, life, word);
            }
            (State::Running, Event::Leave) => {
                self.give_up();
                self.trusted_until = BootTime(0);
                self.state = State::Closed;
                self.actions.push(Action::SendAll(Word::Farewell));
                self.announce(View::default());
                self.actions.push(Action::Closed);
            }
            (State::Idle, Event::Leave) => {
                self.state = State::Closed;
                self.actions.push(Action::Closed);
            }
            _ => {}
        }
    }

    fn hear(&mut self, now: BootTime, from: FleetId, life: u64, word: Word) {
        if from == self.config.me {
            // Our own words come back where a member is told its own address.
            if life != self.config.life {
                self.duplicate_until = now.plus_ms(self.config.silence_ms);
                self.give_up();
            }
            return;
        }
        if word == Word::Farewell {
            self.roster.remove(from, life);
            self.support.release(from, life);
            return;
        }
        if !self.roster.heard(now, from, life) {
            return;
        }
        match word {
            Word::Beat { count, claim, seen } => {
                self.seen = self.seen.max(seen);
                self.hear_claim(from, claim);
                if claim != Claim::None {
                    self.support(now, from, life, count);
                }
            }
            Word::Support { life, count, seen } if life == self.config.life => {
                self.seen = self.seen.max(seen);
                self.support.given(from, count);
            }
            Word::Coordinator { reign } => self.hear_claim(from, Claim::Leading(reign)),
            Word::Elected { leader, reign, .. } if leader != self.config.me => {
                self.seen = self.seen.max(reign);
                self.roster.note(leader, Claim::Leading(reign));
            }
            _ => {}
        }
        // Beats and support are our affair alone; what they change the rules see when they are woken.
        if !matches!(word, Word::Beat { .. } | Word::Support { .. }) {
            self.look(now);
            self.ask_rules(now, Input::Heard { from, word });
        }
    }

    /// Of two claims the one that is outranked is given up.
    fn hear_claim(&mut self, from: FleetId, claim: Claim) {
        self.roster.note(from, claim);
        if let Claim::Leading(reign) = claim {
            self.seen = self.seen.max(reign);
        }
        let yields = match (self.claim, claim) {
            (Claim::None, _) | (_, Claim::None) => false,
            (Claim::Leading(_), Claim::Asking) => self.config.strategy.deposes(),
            _ => true,
        };
        if yields && self.config.strategy.outranks(from, self.config.me) {
            self.give_up();
        }
    }

    fn support(&mut self, now: BootTime, to: FleetId, life: u64, count: u64) {
        let is_ruled = self.support.majority().is_some();
        if !is_ruled || now < self.listening_until || self.has_too_many() {
            return;
        }
        if self.support.promise(now, to, life) {
            let word = Word::Support { life, count, seen: self.seen };
            self.actions.push(Action::Send { to, word });
        }
    }

    pub(super) fn do_due(&mut self, now: BootTime) {
        self.roster.forget(now);
        if self.claim == Claim::Asking && now >= self.asking_until {
            self.give_up();
        }
        if self.obstacle(now).is_some_and(|obstacle| obstacle != Obstacle::NoMajority) {
            self.give_up();
        }
        self.win(now);
        self.look(now);
        self.ask_rules(now, Input::Wake);
        self.look(now);
        // A beat may win or lose the claim, which is told with the next one.
        while now >= self.beat_due {
            self.beat(now);
            self.look(now);
        }
        let reign = match self.claim {
            Claim::Leading(reign) => Some((self.config.me, reign)),
            _ => self.best(now),
        };
        self.announce(View { leader: reign, obstacle: self.obstacle(now) });
    }

    /// Leads, or goes on leading, for as long as a majority is counted on.
    fn win(&mut self, now: BootTime) {
        if self.claim == Claim::None {
            return;
        }
        let until = self.support.trusted_until();
        if now >= until {
            return;
        }
        self.trusted_until = until;
        if self.claim == Claim::Asking {
            self.seen = self.seen.saturating_add(1);
            self.claim = Claim::Leading(self.seen);
            self.look(now);
            self.ask_rules(now, Input::Leads { reign: self.seen });
            self.beat_due = now;
        }
    }

    fn stand(&mut self, now: BootTime) {
        if self.claim != Claim::None {
            return;
        }
        self.claim = Claim::Asking;
        self.asking_until = now.plus_ms(ASKING_SILENCES * self.config.silence_ms);
        if self.support.majority().is_some() {
            self.beat(now);
        }
        self.win(now);
    }

    fn give_up(&mut self) {
        if self.claim == Claim::None {
            return;
        }
        self.claim = Claim::None;
        self.support.give_up();
        if self.support.majority().is_none() {
            self.trusted_until = BootTime(0);
        }
        // The others must not go on following us for longer than need be.
        self.beat_due = BootTime(0);
    }

    fn beat(&mut self, now: BootTime) {
        self.beats += 1;
        self.beat_due = now.plus_ms(self.config.beat_ms);
        if self.claim != Claim::None {
            self.support.ask(now, self.beats, self.config.me, self.config.life);
        }
        let word = Word::Beat { count: self.beats, claim: self.claim, seen: self.seen };
        self.actions.push(Action::SendAll(word));
        self.win(now);
    }

    fn ask_rules(&mut self, now: BootTime, input: Input) {
        let mut scene = self.scene(now);
        let is_quiet = self.rules_wake().is_none() && !scene.wants_to_lead(self.config.strategy);
        if input == Input::Wake && is_quiet {
            return;
        }
        scene.known = self.roster.known().collect();
        scene.present = self.roster.present(now).collect();
        let outputs = match &mut self.rules {
            Rules::Lowest(lowest) => lowest.step(&scene, input),
            Rules::Bully(bully) => bully.step(&scene, input),
            Rules::Ring(ring) => ring.step(&scene, input),
        };
        for output in outputs {
            match output {
                Output::Send { to, word } => self.actions.push(Action::Send { to, word }),
                Output::Stand => self.stand(now),
            }
        }
    }

    /// The scene without its members.
    fn scene(&self, now: BootTime) -> Scene {
        Scene {
            now,
            me: self.config.me,
            known: Vec::new(),
            present: Vec::new(),
            leader: self.leader,
            claim: self.claim,
            may_stand: self.obstacle(now).is_none(),
            answer_ms: self.config.answer_ms(),
            silence_ms: self.config.silence_ms,
            hold_ms: self.config.hold_ms,
        }
    }

    /// Looks again who leads, and remembers since when.
    fn look(&mut self, now: BootTime) {
        let leader = match self.claim {
            Claim::Leading(_) => Some(self.config.me),
            _ => self.best(now).map(|(id, _)| id),
        };
        if leader == self.leader.map(|(id, _)| id) {
            return;
        }
        self.leader = leader.map(|id| (id, now));
        // Whoever leads was not known when we began to ask: it is given its time.
        if leader.is_some() && self.claim == Claim::Asking {
            self.give_up();
        }
    }

    /// Of those who say that they lead, the one that outranks the others.
    fn best(&self, now: BootTime) -> Option<(FleetId, u64)> {
        let strategy = self.config.strategy;
        self.roster.leading(now).reduce(|a, b| if strategy.outranks(b.0, a.0) { b } else { a })
    }

    fn has_too_many(&self) -> bool {
        let ids = self.config.majority_of.map_or(usize::MAX, |ids| ids as usize);
        self.roster.known().count() + 1 > ids
    }

    fn obstacle(&self, now: BootTime) -> Option<Obstacle> {
        if now < self.duplicate_until {
            Some(Obstacle::DuplicateId)
        } else if now < self.listening_until {
            Some(Obstacle::Listening)
        } else if self.has_too_many() {
            Some(Obstacle::TooManyMembers)
        } else if self.support.majority().is_some_and(|n| self.roster.present(now).count() + 1 < n)
        {
            Some(Obstacle::NoMajority)
        } else {
            None
        }
    }

    fn announce(&mut self, view: View) {
        if view != self.view {
            self.view = view;
            self.actions.push(Action::Announce(view));
        }
    }

    fn rules_wake(&self) -> Option<BootTime> {
        match &self.rules {
            Rules::Lowest(_) => None,
            Rules::Bully(bully) => bully.next_wake(),
            Rules::Ring(ring) => ring.next_wake(),
        }
    }

    pub(super) fn wake_at(&self) -> BootTime {
        let claim = match self.claim {
            Claim::None => BootTime::NEVER,
            Claim::Asking => self.asking_until,
            Claim::Leading(_) => self.trusted_until,
        };
        let held = match self.leader {
            Some((_, since)) if self.config.strategy.deposes() => {
                since.plus_ms(self.config.hold_ms)
            }
            _ => BootTime::NEVER,
        };
        let to_come = [self.listening_until, self.duplicate_until, held];
        let to_come = to_come.into_iter().filter(|at| *at > self.stepped_at);
        let lapse = self.roster.next_lapse(self.stepped_at);
        let rules = self.rules_wake().unwrap_or(BootTime::NEVER);
        to_come.fold(self.beat_due, BootTime::min).min(claim).min(lapse).min(rules)
    }
}
