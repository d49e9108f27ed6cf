//! What becomes due, and when.

use std::collections::BTreeSet;

use crate::deadlines::Deadlines;
use crate::message::{Message, State};
use crate::name::{At, DeliveryNumber, JobId, MemberSlot, Part, QueueId, Ticket};
use crate::ready::LaneId;
use crate::time::{BootTime, Now, WallTime};

/// What becomes due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Before all others of the same moment: it sets the timers of leases that may be due then.
    Beat(MemberSlot),
    Lock(At),
    Due(At),
    Expiry(At),
    /// The number comes before the lane, which is another one after a restart: of holds that end
    /// together the oldest ends first.
    Hold(QueueId, DeliveryNumber, LaneId),
    Wait(Ticket),
    Idle(QueueId),
    Seen(QueueId),
    Member(MemberSlot),
    /// Which, and which of its slots.
    Lease(u32, u32),
    Job(JobId),
    Schedule(u32),
}

/// All timers, of both clocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    pub(super) boot: Deadlines<(BootTime, Timer)>,
    /// A tree, and not a row that must move when it grows: every message that waits may expire.
    pub(super) wall: BTreeSet<(WallTime, Timer)>,
}

impl Timers {
    /// How long until the first is due; `None` if there is none.
    pub(super) fn next_ms(&self, now: Now) -> Option<u64> {
        let boot = self.boot.first().map(|(at, _)| at.0.saturating_sub(now.boot.0));
        let wall = self.wall.first().map(|(at, _)| at.0.saturating_sub(now.wall.0));
        match (boot, wall) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// A message has entered a state: what ends it becomes due.
    pub(super) fn set(&mut self, at: At, message: &Message) {
        let state = &message.standing.state;
        // Set again whenever the message comes back: the clock on the wall may have been put back
        // since the timer fired for nothing.
        let can_expire = matches!(state, State::Ready | State::Delayed { .. });
        if can_expire && at.part == Part::Main && message.expires_at != WallTime::NEVER {
            self.wall.insert((message.expires_at, Timer::Expiry(at)));
        }
        match state {
            State::Ready | State::Deferred => {}
            State::Locked(lock) => {
                if lock.until != BootTime::NEVER {
                    self.boot.insert((lock.until, Timer::Lock(at)));
                }
            }
            State::Scheduled { due } | State::Delayed { due } => {
                self.wall.insert((*due, Timer::Due(at)));
            }
        }
    }

    /// A message leaves a state: nothing ends it any more. What expires the message stays.
    pub(super) fn unset(&mut self, at: At, state: &State) {
        match state {
            State::Ready | State::Deferred => {}
            State::Locked(lock) => {
                if lock.until != BootTime::NEVER {
                    self.boot.remove(&(lock.until, Timer::Lock(at)));
                }
            }
            State::Scheduled { due } | State::Delayed { due } => {
                self.wall.remove(&(*due, Timer::Due(at)));
            }
        }
    }

    /// A message is gone, and with it what would expire it.
    pub(super) fn unset_expiry(&mut self, at: At, message: &Message) {
        if at.part == Part::Main && message.expires_at != WallTime::NEVER {
            self.wall.remove(&(message.expires_at, Timer::Expiry(at)));
        }
    }

    /// A queue is gone, and with it everything in it.
    pub(super) fn forget_queue(&mut self, id: QueueId) {
        let is_of = |timer: &Timer| match timer {
            Timer::Lock(at) | Timer::Due(at) | Timer::Expiry(at) => at.queue == id,
            Timer::Hold(queue, ..) | Timer::Idle(queue) | Timer::Seen(queue) => *queue == id,
            _ => false,
        };
        self.boot.retain(|(_, timer)| !is_of(timer));
        self.wall.retain(|(_, timer)| !is_of(timer));
    }
}
