//! Time: what is due becomes so, a bounded amount at a time.

use crate::change::{Change, Departure};
use crate::limits;
use crate::message::{Message, Standing, State};
use crate::name::At;
use crate::time::Now;

use super::{Effects, Ledger, Timer};

impl Ledger {
    pub(super) fn tick(&mut self, now: Now, fx: &mut Effects) {
        for _ in 0..limits::TICK_WORK_MAX {
            let Some((at, timer)) = self.boot_timers.first().copied() else { break };
            if at > now.boot {
                break;
            }
            self.boot_timers.pop_first();
            self.fire(now, timer, fx);
        }
        for _ in 0..limits::TICK_WORK_MAX {
            let Some((at, timer)) = self.wall_timers.first().copied() else { break };
            if at > now.wall {
                break;
            }
            self.wall_timers.pop_first();
            self.fire(now, timer, fx);
        }
        let forwarding: Vec<_> = self.forwarding.iter().copied().take(1).collect();
        for queue in forwarding {
            self.forward_some(now, queue, fx);
        }
    }

    fn fire(&mut self, now: Now, timer: Timer, fx: &mut Effects) {
        match timer {
            Timer::Lock(at) => self.lock_fired(now, at, fx),
            Timer::Due(at) => self.due_fired(now, at, fx),
            Timer::Expiry(at) => {
                let waits = self.message(at).is_some_and(|message| {
                    matches!(message.standing.state, State::Ready | State::Delayed { .. })
                });
                // Locked: it expires if it comes back. Deferred: it does not expire.
                if waits {
                    self.expire(now, at, fx);
                }
            }
            Timer::Hold(queue, lane) => self.hold_fired(now, queue, lane, fx),
            Timer::Wait(ticket) => self.wait_fired(ticket, fx),
            Timer::Idle(queue) => self.idle_fired(now, queue, fx),
            Timer::Seen(queue) => self.seen_fired(now, queue),
            Timer::Member(slot) => self.member_fired(now, slot, fx),
            Timer::Lease(index) => self.lease_fired(now, index, fx),
        }
    }

    /// A scheduled message becomes active under a new number (CC-20); a delayed one returns to
    /// its place.
    fn due_fired(&mut self, now: Now, at: At, fx: &mut Effects) {
        let Some(message) = self.message(at).copied() else { return };
        match message.standing.state {
            State::Scheduled { .. } => {
                let session = self.session_of(at);
                let sequence = self.queues[&at.queue].next_sequence();
                let active = At { sequence, ..at };
                let standing = Standing { state: State::Ready, ..message.standing };
                let message = Message { session: 0, standing, ..message };
                self.emit(
                    now,
                    Change::Message { at: active, message, session, arrived: false },
                    fx,
                );
                self.emit(now, Change::Gone { at, why: Departure::Moved }, fx);
                self.forward(now, active, fx);
            }
            State::Delayed { .. } => {
                let standing = Standing { state: State::Ready, ..message.standing };
                self.emit(now, Change::Standing { at, standing }, fx);
            }
            _ => {}
        }
    }
}
