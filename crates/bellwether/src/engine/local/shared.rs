//! One writer at a time, and no thread of its own for it.
//!
//! The shard lies under a lock; whoever holds the lock is the writer. A caller leaves its call in
//! the inbox and promises a turn, unless somebody has already; it lets the other tasks of its
//! runtime go first, so that they can leave theirs, and then does everything that lies in the
//! inbox as one batch. Once there is enough for a batch nobody waits for more. So nobody is woken
//! to do a microsecond of work, the busier the callers the larger the batches, and the ledger stays
//! with the core that the callers are on.
//!
//! The flusher only flushes. When something has become durable it wakes one of those who wait for
//! it, and that one takes a turn, in which all others are answered.
//!
//! Nothing stays in the inbox: whoever held the lock looks again after its turn, and whoever finds
//! it held has left its call before. A promise counts only while the flusher is awake, because a
//! task may never be polled again: when it is late the flusher takes the turn itself, or the keeper
//! if the flusher is over a long flush.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use bellwether_core::name::Ticket;
#[cfg(feature = "listen")]
use bellwether_core::time::BootTime;
use bellwether_core::time::Now;

use super::flusher::{Backlog, FlusherBell};
use super::keeper::KeeperBell;
use super::stir::{Condition, Stir};
use crate::clock::Clock;
use crate::engine::Call;
use crate::engine::ask::{Ask, Asker};
use crate::engine::inbox::{Inbox, Item};
use crate::engine::shard::{Answered, Shard};
use crate::journal::{Flush, JournalFault};

/// Turns that a caller takes for others before it hands on to the keeper. Many: with four, the
/// keeper took a fifth of all turns of 512 callers, and each time the ledger moved to its core.
const TURNS_MAX: usize = 16;
/// So many messages in the inbox are worth a turn, however few there were before.
const COMPANY_MIN: usize = 32;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) inbox: Inbox,
    pub(super) clock: Clock,
    pub(super) keeper: KeeperBell,
    pub(super) flusher: FlusherBell,
    pub(super) stir: Stir,
    has_flusher: bool,
    writer: Mutex<Writer>,
    /// How many wait for the writer with the right of way.
    claims: AtomicUsize,
    /// Somebody who waits for the next flush.
    herald: Mutex<Option<Arc<Ask>>>,
    /// So much in the inbox is worth a turn, without waiting for more.
    company: AtomicUsize,
    /// A flush was done that the writer has not heard of.
    is_more_durable: AtomicBool,
    /// Somebody takes a turn. For the flusher's guess only.
    is_turning: AtomicBool,
}

/// What whoever left a call has to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entered {
    /// There is enough for a batch: takes a turn at once.
    Turn(Ticket),
    /// Lets others go first, then takes a turn for all of them.
    Promise(Ticket),
    /// Somebody else takes it.
    Wait(Ticket),
    /// It was not taken in, and is answered.
    Answered,
}

/// What the lock protects.
pub(super) struct Writer {
    /// `None` when it was closed.
    shard: Option<Shard<Asker>>,
    flush: Option<Arc<dyn Flush>>,
    items: VecDeque<Item>,
    /// How the store was after the last turn.
    condition: Condition,
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
        let (items, condition) = <_>::default();
        let writer = Writer { shard: Some(shard), flush, items, condition };
        Self {
            inbox: Inbox::default(),
            clock,
            keeper: KeeperBell::default(),
            flusher: FlusherBell::default(),
            stir: Stir::default(),
            has_flusher,
            writer: Mutex::new(writer),
            claims: AtomicUsize::new(0),
            herald: Mutex::new(None),
            company: AtomicUsize::new(COMPANY_MIN),
            is_more_durable: AtomicBool::new(false),
            is_turning: AtomicBool::new(false),
        }
    }

    /// Does what was asked, unless somebody is at it.
    pub(crate) fn work(&self) {
        for _ in 0..TURNS_MAX {
            // Whoever finds the writer held has left its call before, and whoever held it looks
            // after it let go: one of the two sees what the other did.
            if !self.is_work_left() {
                return;
            }
            let Some(writer) = self.try_writer() else { return };
            self.turn(writer);
        }
        if self.is_work_left() {
            self.keeper.ring();
        }
    }

    /// Whether something was asked, or has become durable, that nobody has looked at.
    pub(super) fn is_work_left(&self) -> bool {
        self.is_more_durable.load(Ordering::SeqCst) || !self.inbox.is_empty()
    }

    /// Whether callers are served, or ask for it, at this moment.
    pub(super) fn are_callers_at_work(&self) -> bool {
        self.is_turning.load(Ordering::Relaxed) || self.inbox.is_promised()
    }

    /// The writer, if nobody has it and nobody claims it.
    fn try_writer(&self) -> Option<MutexGuard<'_, Writer>> {
        if self.claims.load(Ordering::SeqCst) > 0 {
            return None;
        }
        match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(writer)) => Some(writer.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// What time it is for locks.
    #[cfg(feature = "listen")]
    pub(crate) fn now(&self) -> BootTime {
        self.clock.boot()
    }

    /// Leaves a call in the inbox.
    pub(crate) fn enter(&self, ask: Arc<Ask>) -> Entered {
        let Some(left) = self.inbox.push_call(ask) else { return Entered::Answered };
        if left.weight >= self.company.load(Ordering::Relaxed) {
            return Entered::Turn(left.ticket);
        }
        if left.is_promised && self.has_flusher && !self.flusher.is_asleep() {
            return Entered::Wait(left.ticket);
        }
        Entered::Promise(left.ticket)
    }

    /// Something has become durable: has it handed out by one of those who wait for it. False if
    /// nobody is there to do it.
    pub(super) fn announce(&self) -> bool {
        self.is_more_durable.store(true, Ordering::SeqCst);
        if self.inbox.is_promised() {
            return true;
        }
        let herald = self.lock_herald().take();
        herald.is_some_and(|ask| ask.nudge())
    }

    /// Hands out what has become durable, unless somebody is at it.
    pub(crate) fn hand_out(&self) {
        if self.is_more_durable.load(Ordering::SeqCst) {
            self.work();
        }
    }

    fn lock_herald(&self) -> MutexGuard<'_, Option<Arc<Ask>>> {
        self.herald.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer, before any caller gets it.
    pub(super) fn claim(&self) -> MutexGuard<'_, Writer> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.claims.fetch_sub(1, Ordering::SeqCst);
        writer
    }

    /// Does something with the shard, then a turn, before any caller does.
    pub(super) fn take_turn(&self, step: impl FnOnce(&mut Shard<Asker>)) {
        let mut writer = self.claim();
        writer.guarded(step);
        self.turn(writer);
        self.work();
    }

    /// One batch: what has become durable, what is due, what was asked. Then lets go of the writer
    /// and hands out the answers.
    pub(super) fn turn(&self, mut writer: MutexGuard<'_, Writer>) {
        self.is_turning.store(true, Ordering::Relaxed);
        let now = self.clock.now();
        // Taken, not stored: then what the flusher did before it said so is seen.
        self.is_more_durable.swap(false, Ordering::SeqCst);
        writer.turn(now, &self.inbox);
        let Writer { shard: Some(shard), condition, .. } = &mut *writer else { return };
        let now_is = Condition::of(shard);
        let is_stirred = std::mem::replace(condition, now_is) != now_is;
        let answers = shard.take_free();
        // The more wait for a flush, the less a turn brings that comes before it is done.
        self.company.store((4 * shard.waiting()).max(COMPANY_MIN), Ordering::Relaxed);
        *self.lock_herald() = shard.first_waiting().and_then(Asker::ask).cloned();
        // Receivers, too, may wait for what is about to be durable.
        let waiting = if shard.awaits_flush() { shard.waiting().max(1) } else { 0 };
        self.flusher.tell(Backlog { is_dirty: shard.needs_flush(), waiting });
        let is_keeper_wanted = self.keeper.is_wanted(shard, &self.clock, now);
        drop(writer);
        self.deliver(answers);
        self.is_turning.store(false, Ordering::Relaxed);
        if is_stirred {
            self.stir.ring();
        }
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

    /// Hands in several calls at once whose answers nobody waits for.
    #[cfg(feature = "listen")]
    pub(crate) fn tell_all(&self, calls: impl IntoIterator<Item = Call>) {
        calls.into_iter().for_each(|call| self.leave(call));
        self.work();
    }

    /// Nobody waits for this answer any more.
    pub(crate) fn withdraw(&self, ticket: Ticket) {
        self.inbox.push_withdraw(ticket);
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
    pub(super) fn turn(&mut self, now: Now, inbox: &Inbox) {
        let durable = self.flush.as_ref().map(|flush| flush.flushed());
        self.guarded(|shard| {
            if let Some(frame) = durable {
                shard.flushed(now, frame);
            }
            if shard.next_deadline_ms(now) == Some(0) {
                shard.tick(now);
            }
        });
        inbox.take(&mut self.items);
        let mut items = std::mem::take(&mut self.items);
        // What is left when one of them breaks an invariant is answered with the fault.
        while !items.is_empty() {
            self.guarded(|shard| {
                while let Some(item) = items.pop_front() {
                    match item {
                        Item::Call(ticket, ask) => {
                            // From here on, so that it is told if the rules break off over it.
                            let asker = Asker::new(ask);
                            let decided = shard.decide(now, ticket, asker.call());
                            shard.answer(now, ticket, decided, asker);
                        }
                        Item::Withdraw(ticket) => drop(shard.withdraw(ticket)),
                    }
                }
            });
        }
        self.items = items;
        self.guarded(Shard::seal);
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
