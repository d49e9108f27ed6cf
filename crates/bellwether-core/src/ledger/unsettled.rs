//! How many deliveries each member has and has not settled, and how they end with it.

use std::collections::BTreeMap;

use crate::change::Change;
use crate::message::{Lock, Standing, State};
use crate::name::MemberSlot;
use crate::time::Now;

use super::{Effects, Ledger, Timer};

/// See the module. Members without any are not in it.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    by_member: BTreeMap<MemberSlot, u32>,
}

impl Unsettled {
    /// A message's state becomes another one; `None` is that of a message that is not there.
    pub(super) fn change(&mut self, old: Option<&State>, new: Option<&State>) {
        let (old, new) = (old.and_then(receiver), new.and_then(receiver));
        if old == new {
            return;
        }
        if let Some(member) = new {
            *self.by_member.entry(member).or_default() += 1;
        }
        if let Some(member) = old
            && let Some(count) = self.by_member.get_mut(&member)
        {
            *count -= 1;
            if *count == 0 {
                self.by_member.remove(&member);
            }
        }
    }

    pub(super) fn of(&self, member: MemberSlot) -> u32 {
        self.by_member.get(&member).copied().unwrap_or(0)
    }
}

fn receiver(state: &State) -> Option<MemberSlot> {
    match state {
        State::Locked(lock) => Some(lock.member),
        State::Ready | State::Scheduled { .. } | State::Delayed { .. } | State::Deferred => None,
    }
}

impl Ledger {
    /// A member is dead: what it has locked, and the sessions it holds, run out now. They are looked
    /// for among what is due some day, which is all that is locked: deaths are rare. Not journaled:
    /// after a restart they run out like others.
    pub(super) fn end_locks(&mut self, now: Now, member: MemberSlot) {
        let mut locks = Vec::new();
        let mut holds = Vec::new();
        for (until, timer) in self.timers.boot.iter().filter(|(until, _)| *until > now.boot) {
            match timer {
                Timer::Lock(at) => {
                    let standing = self.message(*at).map(|message| message.standing);
                    let is_its = |standing: &Standing| receiver(&standing.state) == Some(member);
                    locks.extend(standing.filter(is_its).map(|standing| (*at, standing)));
                }
                Timer::Hold(queue, number, lane) => {
                    holds.push((*until, *queue, *number, *lane));
                }
                _ => {}
            }
        }
        for (at, standing) in locks {
            let State::Locked(lock) = standing.state else { continue };
            let state = State::Locked(Lock { until: now.boot, ..lock });
            let change = Change::Standing { at, standing: Standing { state, ..standing } };
            self.set(now, &change, &mut Effects::default());
        }
        for (until, queue, number, lane) in holds {
            let session = self.queues.get_mut(&queue).and_then(|q| q.sessions.get_mut(lane));
            if let Some((hold, end)) = session.and_then(|session| session.hold.as_mut())
                && hold.member == member
            {
                *end = now.boot;
                self.timers.boot.remove(&(until, Timer::Hold(queue, number, lane)));
                self.timers.boot.insert((now.boot, Timer::Hold(queue, number, lane)));
            }
        }
    }
}
