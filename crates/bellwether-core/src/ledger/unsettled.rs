//! How many deliveries each member has and has not settled.

use std::collections::BTreeMap;

use crate::message::State;
use crate::name::MemberSlot;

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
