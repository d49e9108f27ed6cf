//! One writer at a time, and no thread of its own for it.
//!
//! The shard lies under a lock; whoever holds the lock is the writer. A caller leaves its call in
//! the inbox and tries the lock: if it is free, the caller does everything that lies in the inbox,
//! its own call and all others, as one batch; if not, whoever has it finds the call there. So
//! nobody is woken to do a microsecond of work, and the busier the callers, the larger the batches.
//!
//! Nothing stays in the inbox: whoever held the lock looks again, the flusher before it sleeps or
//! flushes, the others after their turn; and whoever leaves a call while the lock is held leaves it
//! before that look. What takes long is never the flusher's: it rings for the keeper.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use bellwether_core::time::Now;

use super::flusher::{Backlog, FlusherBell};
use super::keeper::KeeperBell;
use crate::clock::Clock;
use crate::engine::Call;
use crate::engine::ask::{Ask, Asker};
use crate::engine::inbox::{Inbox, Item};
use crate::engine::shard::{Answered, Shard};
use crate::journal::{Flush, JournalFault};

/// Turns that a caller takes for others before it hands on to the keeper.
const TURNS_MAX: usize = 4;
/// So much may be left to the flusher; more is better done beside it, or by whoever writes.
const LEAVE_MAX: usize = 8;
/// So much the flusher does itself; more would keep it from flushing.
pub(super) const LIGHT_MAX: usize = 256;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) inbox: Inbox,
    pub(super) clock: Clock,
    pub(super) keeper: KeeperBell,
    pub(super) flusher: FlusherBell,
    has_flusher: bool,
    writer: Mutex<Writer>,
    /// Whoever has the writer looks at the inbox once more after this turn.
    is_in_turn: AtomicBool,
    /// How many wait for the writer with the right of way.
    claims: AtomicUsize,
    /// Somebody found the writer taken and went on.
    was_passed_by: AtomicBool,
    /// A flush was done that the writer has not heard of.
    is_more_durable: AtomicBool,
}

/// What becomes of the frame that a turn fills.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seal {
    /// It is appended.
    Now,
    /// It is appended if somebody is answered as soon as it is; otherwise it may grow until the
    /// next flush.
    IfAwaited,
}

/// What the lock protects.
pub(super) struct Writer {
    /// `None` when it was closed.
    shard: Option<Shard<Asker>>,
    flush: Option<Arc<dyn Flush>>,
    items: VecDeque<Item>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(shard: Shard<Asker>, clock: Clock) -> Self {
        let flush = shard.flusher();
        let has_flusher = flush.is_some();
        let writer = Writer { shard: Some(shard), flush, items: VecDeque::new() };
        Self {
            inbox: Inbox::default(),
            clock,
            keeper: KeeperBell::default(),
            flusher: FlusherBell::default(),
            has_flusher,
            writer: Mutex::new(writer),
            is_in_turn: AtomicBool::new(false),
            claims: AtomicUsize::new(0),
            was_passed_by: AtomicBool::new(false),
            is_more_durable: AtomicBool::new(false),
        }
    }

    /// Does what was asked, unless somebody is at it.
    pub(crate) fn work(&self) {
        for _ in 0..TURNS_MAX {
            if !self.is_work_left() {
                return;
            }
            let Some(writer) = self.try_writer() else { return };
            self.turn(writer, Seal::IfAwaited);
        }
        if self.is_work_left() {
            self.keeper.ring();
        }
    }

    fn is_work_left(&self) -> bool {
        self.inbox.weight() > 0 || self.is_more_durable.load(Ordering::SeqCst)
    }

    /// The writer, if nobody has it and nobody claims it.
    fn try_writer(&self) -> Option<MutexGuard<'_, Writer>> {
        if self.claims.load(Ordering::SeqCst) == 0
            && let Some(writer) = self.try_lock()
        {
            return Some(writer);
        }
        self.was_passed_by.store(true, Ordering::SeqCst);
        // Once more: whoever has it may have looked just before.
        self.try_lock()
    }

    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Writer>> {
        match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(writer)) => Some(writer.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Leaves a call to whoever is in its turn, where many do so. False if it had better be done
    /// at once.
    pub(crate) fn leave_to_writer(&self) -> bool {
        if self.inbox.weight() <= LEAVE_MAX || !self.is_in_turn.load(Ordering::SeqCst) {
            return false;
        }
        self.was_passed_by.store(true, Ordering::SeqCst);
        // Once more: whoever is still in its turn looks again after it.
        self.is_in_turn.load(Ordering::SeqCst)
    }

    /// Whether somebody left a call that should be done at once, since the inbox was last emptied.
    pub(super) fn was_passed_by(&self) -> bool {
        self.was_passed_by.swap(false, Ordering::SeqCst)
    }

    /// Leaves a call whose answer waits for a flush to the next flush. False if it had better be
    /// done at once: there is no flusher, or so much to do that two should share it.
    pub(crate) fn leave_to_flusher(&self) -> bool {
        if !self.has_flusher || self.inbox.weight() > LEAVE_MAX {
            return false;
        }
        self.flusher.look();
        true
    }

    /// The writer, before any caller gets it.
    pub(super) fn claim(&self) -> MutexGuard<'_, Writer> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.claims.fetch_sub(1, Ordering::SeqCst);
        writer
    }

    /// The writer, if nobody has it. Whoever has it looks, before it goes, at what has become
    /// durable.
    pub(super) fn claim_or_tell(&self) -> Option<MutexGuard<'_, Writer>> {
        self.is_more_durable.store(true, Ordering::SeqCst);
        self.try_lock()
    }

    /// One batch: what has become durable, what is due, what was asked. Then lets go of the writer
    /// and hands out the answers.
    pub(super) fn turn(&self, writer: MutexGuard<'_, Writer>, seal: Seal) {
        self.turn_with(writer, Some(&self.inbox), seal);
    }

    /// The flusher's turn: it does what takes no time and leaves the rest to others.
    pub(super) fn flusher_turn(&self, writer: MutexGuard<'_, Writer>, seal: Seal) {
        // The keeper, who would do the rest, waits for the flusher when the store is closed.
        let is_light = |inbox: &&Inbox| inbox.weight() <= LIGHT_MAX || inbox.is_closed();
        let inbox = Some(&self.inbox).filter(is_light);
        self.turn_with(writer, inbox, seal);
        // Whoever asked may have found the writer taken, and gone.
        if self.inbox.weight() > LIGHT_MAX && self.writer.try_lock().is_ok() {
            self.keeper.ring();
        }
    }

    fn turn_with(&self, mut writer: MutexGuard<'_, Writer>, inbox: Option<&Inbox>, seal: Seal) {
        let now = self.clock.now();
        self.is_in_turn.store(true, Ordering::SeqCst);
        self.is_more_durable.store(false, Ordering::SeqCst);
        if inbox.is_some() {
            self.was_passed_by.store(false, Ordering::SeqCst);
        }
        writer.turn(now, inbox, seal);
        self.is_in_turn.store(false, Ordering::SeqCst);
        let Some(shard) = writer.shard.as_mut() else { return };
        let answers: Vec<Answered<Asker>> = shard.take_free().collect();
        self.flusher.tell(Backlog {
            is_dirty: shard.needs_flush() || shard.needs_seal(),
            is_awaited: shard.awaits_flush(),
        });
        let is_keeper_wanted = self.keeper.is_wanted(shard, &self.clock, now);
        drop(writer);
        self.deliver(answers);
        if is_keeper_wanted {
            self.keeper.ring();
        }
    }

    pub(super) fn deliver(&self, answers: Vec<Answered<Asker>>) {
        for (asker, answer) in answers {
            if let Some(call) = asker.answer(answer) {
                // Whoever hands out answers looks at the inbox once more.
                self.leave(call);
            }
        }
    }

    /// Hands in a call whose answer nobody waits for.
    pub(crate) fn tell(&self, call: Call) {
        self.leave(call);
        self.work();
    }

    fn leave(&self, call: Call) {
        // A closed engine has nobody left to tell.
        let _ = self.inbox.push_call(Ask::told(call));
    }

    /// A clock that is moved by hand was moved. False if nobody is interested any more.
    pub(super) fn time_moved(&self) -> bool {
        self.keeper.ring();
        !self.inbox.is_closed()
    }
}

impl Writer {
    pub(super) fn turn(&mut self, now: Now, inbox: Option<&Inbox>, seal: Seal) {
        let durable = self.flush.as_ref().map(|flush| flush.flushed());
        self.guarded(|shard| {
            if let Some(frame) = durable {
                shard.flushed(now, frame);
            }
            if shard.next_deadline_ms(now) == Some(0) {
                shard.tick(now);
            }
        });
        if let Some(inbox) = inbox {
            inbox.take(&mut self.items);
        }
        let mut items = std::mem::take(&mut self.items);
        // What is left when one of them breaks an invariant is answered with the fault.
        while !items.is_empty() {
            self.guarded(|shard| {
                while let Some(item) = items.pop_front() {
                    match item {
                        Item::Call(ticket, ask) => {
                            shard.apply(now, ticket, ask.call(), Asker::new(Arc::clone(&ask)));
                        }
                        Item::Withdraw(ticket) => drop(shard.withdraw(ticket)),
                    }
                }
            });
        }
        self.items = items;
        self.guarded(match seal {
            Seal::Now => Shard::seal,
            Seal::IfAwaited => Shard::seal_if_awaited,
        });
    }

    /// Does something with the shard. A panic there is a broken invariant of the rules: nothing
    /// more is answered in this life but the fault. Nothing at all happens when it was closed.
    pub(super) fn guarded<T>(&mut self, step: impl FnOnce(&mut Shard<Asker>) -> T) -> Option<T> {
        let shard = self.shard.as_mut()?;
        let done = std::panic::catch_unwind(AssertUnwindSafe(|| step(shard)));
        if done.is_err() {
            shard.fail(JournalFault::Broken {
                what: "the writer".into(),
                cause: "an invariant of the rules was broken; see the panic message".into(),
            });
        }
        done.ok()
    }

    /// Takes the shard out, for ever.
    pub(super) fn take(&mut self) -> Option<Shard<Asker>> {
        self.flush = None;
        self.shard.take()
    }
}
