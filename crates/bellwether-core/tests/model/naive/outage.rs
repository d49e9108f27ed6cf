//! Suspects and outages.

use bellwether_core::command::{Receive, ReceiveMode};
use bellwether_core::error::Refusal;
use bellwether_core::message::State;
use bellwether_core::name::{Part, QueueName, SequenceNumber, SessionId};
use bellwether_core::outcome::{OutageInfo, Outcome};
use bellwether_core::time::{BootTime, WallTime};

use super::settle::Return;
use super::{ForWhat, Naive};

/// Who is kept free for a suspect, and where that waits.
pub struct KeptFree {
    pub member: u32,
    pub queue: u32,
    pub session: Option<SessionId>,
}

#[derive(Default)]
pub struct Outage {
    /// Messages that failed since one was completed, and who crashed with them.
    pub row: Vec<(u64, Option<u32>)>,
    pub pause: Option<Pause>,
}

pub struct Pause {
    since: WallTime,
    failures: u32,
    last: u64,
    tries: u32,
    /// When one may be tried.
    pub from: BootTime,
    /// That was.
    pub heard: bool,
    /// The delivery that is tried.
    out: Option<(u64, u32)>,
}

pub enum Turn {
    Nothing,
    Suspect(u64),
    /// At most so many.
    Others(usize),
}

impl Naive {
    pub fn is_suspect(&self, q: usize, m: usize) -> bool {
        let message = &self.queues[q].messages[m];
        !message.dead && message.crashes > 0 && self.queues[q].settings.failures.crashes_max > 0
    }

    /// The suspect outside of sessions that comes first.
    fn first_suspect(&self, q: usize) -> Option<usize> {
        let queue = &self.queues[q];
        let waits =
            |m: &usize| queue.messages[*m].state == State::Ready && queue.messages[*m].visible;
        queue.by_number(false).into_iter().filter(waits).find(|m| self.is_suspect(q, *m))
    }

    fn unsettled(&self, member: u32) -> usize {
        let messages = self.queues.iter().flat_map(|queue| &queue.messages);
        let is_its = |state: State| matches!(state, State::Locked(lock) if lock.member.0 == member);
        messages.filter(|message| is_its(message.state)).count()
    }

    fn has_suspect(&self, member: u32) -> bool {
        (0..self.queues.len()).any(|q| {
            (0..self.queues[q].messages.len()).any(|m| {
                let state = self.queues[q].messages[m].state;
                let is_its = matches!(state, State::Locked(lock)
                    if lock.member.0 == member && !lock.deferred);
                is_its && self.is_suspect(q, m)
            })
        })
    }

    /// Whether what a member is kept free for is still to be had.
    fn still_waits(&self, kept: &KeptFree) -> bool {
        let Some(q) = self.queue_by_id(kept.queue) else { return false };
        let is_open =
            self.queues[q].settings.status.can_receive() && self.queues[q].outage.pause.is_none();
        let asks = self.waits.iter().any(|wait| match &wait.for_what {
            ForWhat::Messages { queue, receive, .. } => {
                let session = receive.session.as_ref().map(|token| &token.session);
                wait.member == kept.member
                    && *queue == kept.queue
                    && receive.from.part == Part::Main
                    && session == kept.session.as_ref()
            }
            _ => false,
        });
        let suspect = match &kept.session {
            None => self.first_suspect(q),
            Some(session) => {
                let next = self.next_of(q, session).and_then(|n| self.queues[q].find(false, n));
                next.filter(|m| self.is_suspect(q, *m))
            }
        };
        is_open && asks && suspect.is_some()
    }

    /// What one who asks may have now. `waits`: it will wait if that is nothing.
    pub fn turn(&mut self, q: usize, receive: &Receive, member: u32, waits: bool) -> Turn {
        let deletes = receive.mode == ReceiveMode::ReceiveAndDelete;
        let is_main = receive.from.part == Part::Main;
        let mut max = receive.max.max(1) as usize;
        if let Some(pause) = self.queues[q].outage.pause.as_ref().filter(|_| is_main && !deletes) {
            if pause.out.is_some() || !pause.heard {
                return Turn::Nothing;
            }
            max = 1;
        }
        let in_outage = self.queues[q].outage.pause.is_some();
        let mut kept_free = std::mem::take(&mut self.kept_free);
        // Who asks just now is not in line yet.
        kept_free.retain(|kept| self.still_waits(kept));
        self.kept_free = kept_free;
        let id = self.queues[q].id;
        let session = receive.session.as_ref().map(|token| token.session.clone());
        let is_busy = self.unsettled(member) > 0;
        let kept = self.kept_free.iter().find(|kept| kept.member == member);
        let is_for_this = kept
            .is_none_or(|kept| !is_busy && kept.queue == id && is_main && kept.session == session);
        if !deletes && (!is_for_this || self.has_suspect(member)) {
            return Turn::Nothing;
        }
        if !is_main {
            return Turn::Others(max);
        }
        let suspect = match &session {
            Some(session) => self
                .next_of(q, session)
                .and_then(|number| self.queues[q].find(false, number))
                .filter(|m| self.is_suspect(q, *m)),
            None => self.first_suspect(q),
        };
        let Some(m) = suspect else { return Turn::Others(max) };
        if deletes || !is_busy {
            return Turn::Suspect(self.queues[q].messages[m].sequence);
        }
        let others = self.kept_free.iter().any(|kept| kept.queue == id && kept.session.is_none());
        let is_wanted = waits && !in_outage;
        if is_wanted && (session.is_some() || !others) {
            self.kept_free.retain(|kept| kept.member != member);
            self.kept_free.push(KeptFree { member, queue: id, session });
            return Turn::Nothing;
        }
        if session.is_some() { Turn::Nothing } else { Turn::Others(max) }
    }

    /// A message was handed out: in an outage that is a try.
    pub fn tries(&mut self, q: usize, receive: &Receive, sequence: u64, number: u32) {
        let is_try =
            receive.from.part == Part::Main && receive.mode != ReceiveMode::ReceiveAndDelete;
        if let Some(pause) = self.queues[q].outage.pause.as_mut().filter(|_| is_try) {
            pause.out = Some((sequence, number));
        }
    }

    /// How a return counts, and how long the message stays away at least.
    pub fn judge(&mut self, q: usize, m: usize, how: Return) -> (Return, u64) {
        let (now, queue) = (self.now, &mut self.queues[q]);
        let message = &queue.messages[m];
        let Some(policy) = queue.settings.failures.outage.filter(|_| !message.dead) else {
            return (how, 0);
        };
        let seed = u64::from(queue.id);
        let delivery = (message.sequence, message.number);
        if let Some(pause) = &mut queue.outage.pause {
            let is_tried = pause.out == Some(delivery);
            if how == Return::Release {
                if is_tried {
                    (pause.out, pause.from, pause.heard) = (None, now.boot, true);
                }
                return (how, 0);
            }
            if !is_tried {
                return (Return::Release, 0);
            }
            pause.tries += 1;
            pause.last = delivery.0;
            let ms = policy.pause_ms(pause.tries, seed);
            (pause.out, pause.from, pause.heard) = (None, now.boot.plus_ms(ms), false);
            return (Return::Release, 2 * ms);
        }
        let lost_by = match (how, message.state) {
            (Return::Release, _) => return (how, 0),
            (Return::Crash, State::Locked(lock)) => Some(lock.member.0),
            _ => None,
        };
        let row = &mut queue.outage.row;
        if !row.iter().any(|(n, by)| *n == delivery.0 || (by.is_some() && *by == lost_by)) {
            row.push((delivery.0, lost_by));
        }
        if row.len() < policy.failures as usize {
            return (how, 0);
        }
        let failures = row.len() as u32;
        row.clear();
        queue.outage.pause = Some(Pause {
            since: now.wall,
            failures,
            last: delivery.0,
            tries: 0,
            from: now.boot.plus_ms(policy.pause_ms(0, seed)),
            heard: false,
            out: None,
        });
        (Return::Release, 0)
    }

    /// A delivery of the queue itself ended: completed, or in a way that says nothing.
    pub fn ends(&mut self, q: usize, m: usize, well: bool) {
        let queue = &mut self.queues[q];
        let message = &queue.messages[m];
        if message.dead {
            return;
        }
        let delivery = (message.sequence, message.number);
        match &mut queue.outage.pause {
            Some(pause) if pause.out == Some(delivery) => {
                if well {
                    queue.outage = Outage::default();
                } else {
                    (pause.out, pause.from, pause.heard) = (None, self.now.boot, true);
                }
            }
            _ if well => queue.outage.row.clear(),
            _ => {}
        }
    }

    pub fn describe_outage(&self, name: &QueueName) -> Result<Outcome, Refusal> {
        let queue = &self.queues[self.queue_named(name)?];
        Ok(Outcome::Outage(queue.outage.pause.as_ref().map(|pause| OutageInfo {
            since: pause.since,
            failures: pause.failures,
            last_failed: SequenceNumber(pause.last),
            tries: pause.tries,
            try_in_ms: match pause.out {
                Some(_) => 0,
                None => self.now.boot.ms_until(pause.from),
            },
            trying: pause.out.map(|(sequence, _)| SequenceNumber(sequence)),
        })))
    }

    pub fn end_outage(&mut self, name: &QueueName) -> Result<Outcome, Refusal> {
        let was = self.describe_outage(name)?;
        let q = self.queue_named(name)?;
        self.queues[q].used_at = self.now.boot;
        self.queues[q].outage = Outage::default();
        Ok(was)
    }

    /// A member is dead: what it has locked runs out now, and so do the sessions it holds.
    pub fn end_locks(&mut self, member: u32) {
        let now = self.now.boot;
        for queue in &mut self.queues {
            for message in &mut queue.messages {
                if let State::Locked(lock) = &mut message.state
                    && lock.member.0 == member
                    && lock.until != BootTime::NEVER
                {
                    lock.until = lock.until.min(now);
                }
            }
            for hold in queue.sessions.iter_mut().filter_map(|session| session.hold.as_mut()) {
                if hold.member == member {
                    hold.until = hold.until.min(now);
                }
            }
        }
    }
}
