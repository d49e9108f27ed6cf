//! The scaler: how many workers a queue should have, and why.
//!
//! A worker is a pump, or a process that runs some. Think of a shop with tills. People who stand in
//! line are a reason to open one; that the line is short for a moment is none to close one, and a till
//! with somebody at it is never closed.
//!
//! ```text
//!   Reading ──► pace: arrivals, completions, busy time, over a window ──► each rule wants a number
//!                                                                              │
//!     any wants more than there are ──────────► out, a few at a time ◄─────────┤
//!     all want fewer, with room to spare,                                      │
//!     and have for a while ───────────────────► in                  ◄──────────┤
//!     else ───────────────────────────────────► keep                ◄──────────┘
//! ```
//!
//! What always holds:
//!
//! 1. What is wanted lies between `min` and `max`; what somebody else made of it is pulled back there.
//! 2. Out if any rule says so, in only if all agree; the largest increase, the smallest decrease.
//! 3. In only to a number at which no rule would say out, not even nearly, never below those that are
//!    busy, and only after it was so for all of `in_pause_ms`.
//! 4. Nothing is decided while workers start, and out follows out after `out_pause_ms` at the earliest.
//! 5. A queue that is paused keeps what it has: more workers would have nothing to take.
//!
//! Whoever cannot read the queue does not step: workers go on as they are.

mod decision;
mod pace;
mod policy;
mod spread;

pub use decision::{Decision, Rule, Why, Wish};
pub use pace::Pace;
pub use policy::{Policy, WORKERS_MAX};
pub use spread::{Candidate, Host, choose_victims, spread};

use crate::time::BootTime;

/// Scaling in must leave so much of every target unused, or it would be followed by scaling out.
const IN_PERCENT: u64 = 75;
/// So much of their time may workers be busy after scaling in.
const BUSY_PERCENT: u64 = 80;

/// What is seen of a queue and its workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Messages that wait for a receiver.
    pub ready: u64,
    /// Messages that receivers have.
    pub locked: u64,
    /// How many ever came in.
    pub arrived: u64,
    /// How many were ever dealt with: completed, or made dead letters.
    pub completed: u64,
    /// How long the oldest of those that wait has waited.
    pub oldest_ms: Option<u64>,
    /// Nobody may receive.
    pub is_paused: bool,
    /// Workers that take messages.
    pub running: u32,
    /// Workers that were asked for and do not take messages yet.
    pub starting: u32,
    /// Of those that run, those that have a message.
    pub busy: u32,
}

impl Reading {
    /// All that is to be done.
    fn backlog(&self) -> u64 {
        self.ready.saturating_add(self.locked)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Scaler {
    policy: Policy,
    pace: Pace,
    /// When it last decided on more.
    out_at: Option<BootTime>,
    /// When it last decided on any other number.
    changed_at: Option<BootTime>,
    /// Since when all rules agree on fewer.
    calm_since: Option<BootTime>,
}

impl Scaler {
    /// A scaler that has seen nothing. The policy is one that [`Policy::check`] let pass.
    pub fn new(policy: Policy) -> Self {
        let pace = Pace::new(policy.window_ms);
        Self { policy, pace, out_at: None, changed_at: None, calm_since: None }
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How fast it goes, by what was seen so far.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// How many there should be now.
    pub fn step(&mut self, now: BootTime, reading: Reading) -> Decision {
        self.pace.add(now, &reading);
        let from = reading.running.saturating_add(reading.starting);
        let wishes = self.wishes(&reading, 100);
        let (wanted, why) = self.decide(now, &reading, from, &wishes);
        if wanted != from {
            self.changed_at = Some(now);
            self.calm_since = None;
        }
        if wanted > from {
            self.out_at = Some(now);
        }
        Decision { from, wanted, why, wishes }
    }

    fn decide(
        &mut self,
        now: BootTime,
        reading: &Reading,
        from: u32,
        wishes: &[Wish],
    ) -> (u32, Why) {
        let Policy { min, max, .. } = self.policy;
        if from > max {
            return (max, Why::AboveMaximum);
        }
        if reading.is_paused && !cfg!(planted_bug = "scale_for_a_paused_queue") {
            self.calm_since = None;
            return (from, Why::Paused);
        }
        if from < min {
            return (min, Why::BelowMinimum);
        }
        if reading.starting > 0 {
            self.calm_since = None;
            return (from, Why::Starting { starting: reading.starting });
        }
        if from == 0 && reading.ready <= self.policy.activate_above {
            return (0, Why::Dormant);
        }
        match wishes.iter().max_by_key(|wish| wish.wants) {
            Some(most) if most.wants > from => self.grow(now, from, most),
            _ => self.shrink(now, reading, from, wishes),
        }
    }

    fn grow(&mut self, now: BootTime, from: u32, most: &Wish) -> (u32, Why) {
        self.calm_since = None;
        let wants = most.wants;
        if from >= self.policy.max {
            return (from, Why::AtMaximum { wants });
        }
        let rested = self.out_at.map(|at| at.plus_ms(self.policy.out_pause_ms));
        if let Some(until) = rested.filter(|until| *until > now) {
            return (from, Why::CoolingDown { wants, remaining_ms: now.ms_until(until) });
        }
        let step = from.saturating_add(self.policy.step_out_max);
        (wants.min(step).min(self.policy.max), Why::Out(*most))
    }

    fn shrink(
        &mut self,
        now: BootTime,
        reading: &Reading,
        from: u32,
        wishes: &[Wish],
    ) -> (u32, Why) {
        let tight = self.wishes(reading, IN_PERCENT);
        let (floor, why) = self.floor(reading);
        let held = tight.iter().max_by_key(|wish| wish.wants);
        let to = held.map_or(0, |wish| wish.wants).max(floor).max(self.policy.min);
        if to >= from {
            self.calm_since = None;
            let would_go = wishes.iter().all(|wish| wish.wants < from);
            let why = match held {
                Some(wish) if would_go && wish.wants >= from => Why::WouldFlap(*wish),
                _ if would_go && floor >= from => why,
                _ => Why::Steady,
            };
            return (from, why);
        }
        let calm_since = *self.calm_since.get_or_insert(now);
        let calm_since = self.changed_at.map_or(calm_since, |at| at.max(calm_since));
        let until = calm_since.plus_ms(self.policy.in_pause_ms);
        if until > now && !cfg!(planted_bug = "scale_in_at_once") {
            return (from, Why::Calming { to, remaining_ms: now.ms_until(until) });
        }
        let step = from.saturating_sub(self.policy.step_in_max);
        (to.max(step), Why::In { calm_ms: calm_since.ms_until(now) })
    }

    /// How many must stay, whatever the rules say.
    fn floor(&self, reading: &Reading) -> (u32, Why) {
        let busy = self.pace.busy_workers(BUSY_PERCENT).max(reading.busy);
        #[cfg(planted_bug = "scale_in_the_busy")]
        let busy = 0;
        let awake = u32::from(reading.backlog() > 0 || self.pace.arrived() > 0);
        if busy >= awake { (busy, Why::Busy { busy }) } else { (awake, Why::Awake) }
    }

    /// What each rule wants if its target were only so many percent of what it is.
    fn wishes(&self, reading: &Reading, percent: u64) -> Vec<Wish> {
        let policy = &self.policy;
        let part = |target: u64| (u128::from(target) * u128::from(percent) / 100) as u64;
        let mut wishes = Vec::with_capacity(3);
        if let Some(per_worker) = policy.per_worker {
            // A target of one cannot be made smaller.
            let target = part(per_worker).max(1);
            let wants = at_most(reading.backlog().div_ceil(target));
            let seen = reading.backlog();
            wishes.push(Wish { rule: Rule::PerWorker, seen, target: per_worker, wants });
        }
        if let Some(target) = policy.drain_within_ms {
            let (wants, seen) = self.to_drain(reading, part(target));
            wishes.push(Wish { rule: Rule::DrainWithin, seen, target, wants });
        }
        if let Some(target) = policy.oldest_within_ms {
            let seen = reading.oldest_ms.unwrap_or(0);
            // Once it is too late the line has to be gone within as much time again: that the oldest
            // is still old while enough are at work is no reason for more.
            let wants =
                if seen > part(target) { self.to_drain(reading, part(target)).0 } else { 0 };
            wishes.push(Wish { rule: Rule::OldestWithin, seen, target, wants });
        }
        if reading.ready > 0 && wishes.iter().all(|wish| wish.wants == 0) {
            wishes.push(Wish { rule: Rule::Waiting, seen: reading.ready, target: 0, wants: 1 });
        }
        wishes
    }

    /// How many it takes until nothing waits after `within_ms`, and how long those who run need.
    fn to_drain(&self, reading: &Reading, within_ms: u64) -> (u32, u64) {
        if reading.ready == 0 && self.pace.arrived() == 0 {
            return (0, 0);
        }
        if let Some(wants) = self.pace.workers_to_drain(reading.ready, within_ms.max(1)) {
            return (at_most(wants), self.pace.drained_in_ms(reading.ready, reading.running));
        }
        // How fast they are is not known: one more if all have something to do.
        let more = u32::from(reading.ready > 0 && reading.busy >= reading.running);
        (reading.running.saturating_add(more), u64::MAX)
    }
}

fn at_most(workers: u64) -> u32 {
    u32::try_from(workers).unwrap_or(u32::MAX)
}
