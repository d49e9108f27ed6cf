//! Ring (Chang and Roberts): the highest id that comes round leads.
//!
//! Members stand in a ring in the order of their ids; each speaks only to the next one that is here.
//!
//! ```text
//!   a token arrives:  a higher id ─► pass it on             our own id ─► it came round: stand
//!                     a lower id, we take no part ─► pass on our own instead
//!                     a lower id, we take part already ─► drop it
//! ```
//!
//! Whoever leads sends `Elected` round once. With one starter at most 3N − 1 words are said, beside
//! one `Received` for each. What the textbook leaves out:
//!
//! 1. *A word is acknowledged.* Without `Received` it is said once more, and then to the next one.
//! 2. *Nothing goes round for ever.* A word whose sender has died is dropped after one round.
//! 3. *Taking part ends.* If no leader comes of it, the member starts again after a pause by chance.
//! 4. *A leader stays.* It drops tokens and says again that it leads; a higher id that returns
//!    follows it.

use crate::chance::Chance;
use crate::fleet::{Claim, FleetId, Input, Output, Scene, Strategy, Word};
use crate::time::BootTime;

const STRATEGY: Strategy = Strategy::Ring;
/// How often a word is said to one member before the next one is tried.
const TRIES: u32 = 2;
/// Words that wait for `Received`; beyond it the oldest is forgotten.
const SENT_MAX: usize = 64;
/// Members may differ in who they think is here: a word may take so many steps more than a round.
const HOPS_SPARE: usize = 4;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    chance: Chance,
    number: u64,
    /// Taking part in an election, until then at most.
    part_until: Option<BootTime>,
    /// When to start one.
    start_at: Option<BootTime>,
    sent: Vec<Sent>,
}

/// A word on its way to the next member.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    number: u64,
    what: Round,
    to: FleetId,
    tries: u32,
    until: BootTime,
    /// Members that did not take it.
    skipped: Vec<FleetId>,
}

/// What goes round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    Token { candidate: FleetId, hops: u32 },
    Elected { leader: FleetId, reign: u64, hops: u32 },
}

impl Round {
    fn word(self, number: u64) -> Word {
        match self {
            Self::Token { candidate, hops } => Word::Token { number, candidate, hops },
            Self::Elected { leader, reign, hops } => Word::Elected { number, leader, reign, hops },
        }
    }
}

impl Ring {
    /// A member that takes no part in an election yet.
    pub fn new(mut chance: Chance) -> Self {
        let number = chance.bits() >> 1;
        Self { chance, number, part_until: None, start_at: None, sent: Vec::new() }
    }

    /// Takes note of what happened and says what to do.
    pub fn step(&mut self, scene: &Scene, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::Wake => {}
            Input::Heard { from, word } => self.hear(scene, from, word, &mut out),
            Input::Leads { reign } => {
                self.part_until = None;
                self.pass(scene, Round::Elected { leader: scene.me, reign, hops: 0 }, &mut out);
            }
        }
        self.try_again(scene, &mut out);
        self.start(scene, &mut out);
        out
    }

    /// When to be woken, if nothing else happens before.
    pub fn next_wake(&self) -> Option<BootTime> {
        let sent = self.sent.iter().map(|sent| sent.until);
        sent.chain(self.part_until).chain(self.start_at).min()
    }

    fn hear(&mut self, scene: &Scene, from: FleetId, word: Word, out: &mut Vec<Output>) {
        match word {
            Word::Token { number, candidate, hops } => {
                out.push(Output::Send { to: from, word: Word::Received { number } });
                self.take(scene, candidate, hops, out);
            }
            Word::Elected { number, leader, reign, hops } => {
                out.push(Output::Send { to: from, word: Word::Received { number } });
                self.part_until = None;
                if leader != scene.me && has_way_to_go(scene, hops) {
                    self.pass(scene, Round::Elected { leader, reign, hops: hops + 1 }, out);
                }
            }
            Word::Received { number } => {
                self.sent.retain(|sent| (sent.number, sent.to) != (number, from));
            }
            _ => {}
        }
    }

    fn take(&mut self, scene: &Scene, candidate: FleetId, hops: u32, out: &mut Vec<Output>) {
        if let Claim::Leading(reign) = scene.claim {
            return self.pass(scene, Round::Elected { leader: scene.me, reign, hops: 0 }, out);
        }
        if candidate == scene.me {
            if scene.wants_to_lead(STRATEGY) {
                out.push(Output::Stand);
            }
            return;
        }
        let takes_part = self.part_until.is_some() || scene.claim == Claim::Asking;
        if STRATEGY.outranks(scene.me, candidate) {
            if takes_part {
                return;
            }
            if scene.wants_to_lead(STRATEGY) {
                return self.begin(scene, out);
            }
        }
        if has_way_to_go(scene, hops) {
            self.take_part(scene);
            self.pass(scene, Round::Token { candidate, hops: hops + 1 }, out);
        }
    }

    fn begin(&mut self, scene: &Scene, out: &mut Vec<Output>) {
        self.take_part(scene);
        self.pass(scene, Round::Token { candidate: scene.me, hops: 0 }, out);
    }

    fn take_part(&mut self, scene: &Scene) {
        let pause_ms = scene.silence_ms + self.chance.jitter_ms(scene.silence_ms);
        self.part_until = Some(scene.now.plus_ms(pause_ms));
        self.start_at = None;
    }

    fn start(&mut self, scene: &Scene, out: &mut Vec<Output>) {
        if !scene.wants_to_lead(STRATEGY) {
            self.start_at = None;
            if scene.leader.is_some() {
                self.part_until = None;
            }
        }
        self.part_until.take_if(|until| scene.now >= *until);
        if self.part_until.is_some() || !scene.wants_to_lead(STRATEGY) {
            return;
        }
        // By chance one starts before the others, and its token saves them theirs.
        let pause_ms = self.chance.below(scene.answer_ms);
        if scene.now >= *self.start_at.get_or_insert(scene.now.plus_ms(pause_ms)) {
            self.begin(scene, out);
        }
    }

    fn try_again(&mut self, scene: &Scene, out: &mut Vec<Output>) {
        for mut sent in self.sent.extract_if(.., |sent| scene.now >= sent.until).collect::<Vec<_>>()
        {
            if sent.tries >= TRIES {
                sent.skipped.push(sent.to);
                sent.tries = 0;
                let Some(to) = next(scene, &sent.skipped) else {
                    came_back(scene, sent.what, out);
                    continue;
                };
                sent.to = to;
            }
            self.say(scene, sent, out);
        }
    }

    fn pass(&mut self, scene: &Scene, what: Round, out: &mut Vec<Output>) {
        let Some(to) = next(scene, &[]) else { return came_back(scene, what, out) };
        self.number += 1;
        let (number, until) = (self.number, scene.now);
        self.say(scene, Sent { number, what, to, tries: 0, until, skipped: Vec::new() }, out);
    }

    fn say(&mut self, scene: &Scene, mut sent: Sent, out: &mut Vec<Output>) {
        sent.tries += 1;
        sent.until = scene.now.plus_ms(scene.answer_ms);
        out.push(Output::Send { to: sent.to, word: sent.what.word(sent.number) });
        if self.sent.len() >= SENT_MAX {
            self.sent.remove(0);
        }
        self.sent.push(sent);
    }
}

/// The next member of the ring, but for those who do not answer.
fn next(scene: &Scene, skipped: &[FleetId]) -> Option<FleetId> {
    let (after, before): (Vec<FleetId>, Vec<FleetId>) =
        scene.present.iter().partition(|id| **id > scene.me);
    after.into_iter().chain(before).find(|id| !skipped.contains(id))
}

/// Nobody else takes it: the ring is this member alone, and its own token has come round.
fn came_back(scene: &Scene, what: Round, out: &mut Vec<Output>) {
    let is_ours = matches!(what, Round::Token { candidate, .. } if candidate == scene.me);
    if is_ours && scene.wants_to_lead(STRATEGY) {
        out.push(Output::Stand);
    }
}

fn has_way_to_go(scene: &Scene, hops: u32) -> bool {
    (hops as usize) < scene.present.len() + 1 + HOPS_SPARE
}
