//! Time: what is due becomes so, a bounded amount at a time.

use crate::change::{Change, Departure};
use crate::limits;
use crate::message::{Message, Standing, State};
use crate::name::{At, Part};
use crate::time::{BootTime, Now};

use super::{Effects, Ledger, Timer};

impl Ledger {
    pub(super) fn tick(&mut self, now: Now, fx: &mut Effects) {
        for _ in 0..limits::TICK_WORK_MAX {
            let Some((at, timer)) = self.timers.boot.first().copied() else { break };
            if at > now.boot {
                break;
            }
            self.timers.boot.remove(&(at, timer));
            self.fire(now, at, timer, fx);
            self.serve_stirred(now, fx);
        }
        for _ in 0..limits::TICK_WORK_MAX {
            let Some((at, timer)) = self.timers.wall.first().copied() else { break };
            if at > now.wall {
                break;
            }
            self.timers.wall.pop_first();
            self.fire(now, now.boot, timer, fx);
            self.serve_stirred(now, fx);
        }
        self.sweep_jobs(now, fx);
        let forwarding: Vec<_> = self.forwarding.iter().copied().take(1).collect();
        for queue in forwarding {
            self.forward_some(now, queue, fx);
        }
    }

    /// What is due at `due` happens, at `now`. A timer may be early, because what it measures was
    /// prolonged since: then it is set again, and keeps its place among the others that are due.
    fn fire(&mut self, now: Now, due: BootTime, timer: Timer, fx: &mut Effects) {
        match timer {
            Timer::Beat(slot) => self.beat_fired(now, due, slot),
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
            Timer::Hold(queue, _, lane) => self.hold_fired(now, queue, lane, fx),
            Timer::Wait(ticket) => self.wait_fired(now, ticket, fx),
            Timer::Idle(queue) => self.idle_fired(now, due, queue, fx),
            Timer::Seen(queue) => self.seen_fired(now, queue),
            Timer::Member(slot) => self.member_fired(now, due, slot, fx),
            Timer::Job(id) => self.job_fired(now, id, fx),
            Timer::Schedule(index) => self.schedule_fired(now, index, fx),
            Timer::Lease(index, slot) => self.lease_fired(now, due, (index, slot), fx),
        }
    }

    /// A scheduled message becomes active under a new number; a delayed one returns to
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
                // It is appended as new, and that is use.
                self.touch_queue(now, at.queue);
                self.forward(now, active, fx);
            }
            State::Delayed { .. } => {
                let standing = Standing { state: State::Ready, ..message.standing };
                self.emit(now, Change::Standing { at, standing }, fx);
                if at.part == Part::Main {
                    self.forward(now, at, fx);
                }
            }
            _ => {}
        }
    }
}
