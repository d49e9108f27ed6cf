//! The local engine: one writer thread per shard, a flusher, and a hand for long work.
//!
//! While one batch is being flushed the next is applied. A caller who is alone is not handed
//! around: the writer flushes for it itself.

mod jobs;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bellwether_core::time::BootTime;
use tokio::sync::oneshot;

use super::Call;
use super::inbox::{Answer, Asker, Inbox, Item, Pending, Undo, give_back};
use super::shard::{Answered, Shard, ShardOptions};
use crate::clock::Clock;
use crate::error::Error;
use crate::journal::file::{FileJournal, FileOptions, RealDisk};
use crate::journal::{Flush, Journal, JournalFault};
use jobs::Jobs;

/// How long a flush waits for those who were in the last one: about half a flush.
const COMPANY_WAIT: Duration = Duration::from_micros(100);
/// An idle writer marks its journal after this long.
const MARK_AFTER: Duration = Duration::from_millis(50);
/// How often a full disk is tried again.
const FULL_RETRY_MS: u64 = 100;

/// A running local engine. The last handle to go closes it.
#[derive(Debug)]
pub struct Local {
    inbox: Arc<Inbox>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Local {
    /// An engine that keeps nothing.
    pub fn in_memory(clock: Clock, options: &ShardOptions) -> Self {
        let shard = Shard::in_memory(clock.now(), options);
        Self::start(shard, clock)
    }

    /// An engine kept in a folder.
    pub fn file(
        path: &Path,
        clock: Clock,
        options: &ShardOptions,
        file: FileOptions,
    ) -> Result<Self, JournalFault> {
        let shard = Shard::open(clock.now(), options, |replay| {
            let journal = FileJournal::open(Arc::new(RealDisk), path, file, replay)?;
            Ok(Box::new(journal) as Box<dyn Journal>)
        })?;
        Ok(Self::start(shard, clock))
    }

    /// Puts threads around a shard.
    pub(crate) fn start(shard: Shard<Asker>, clock: Clock) -> Self {
        let inbox = Arc::new(Inbox::default());
        if let Clock::Virtual(clock) = &clock {
            let inbox = Arc::downgrade(&inbox);
            clock.on_move(move || inbox.upgrade().is_some_and(|inbox| inbox.nudge()));
        }
        let writer_inbox = Arc::clone(&inbox);
        let writer = std::thread::Builder::new()
            .name("bellwether-writer".into())
            .spawn(move || Writer::new(shard, clock, writer_inbox).run())
            .expect("a thread for the writer");
        Self { inbox, writer: Mutex::new(Some(writer)) }
    }

    /// Hands in a call.
    pub(crate) fn submit(&self, call: Call) -> Pending {
        self.inbox.submit(call)
    }

    /// Hands in a call whose outcome stands even if nobody takes its answer.
    pub(crate) fn submit_for_good(&self, call: Call) -> Pending {
        self.inbox.submit_with(call, Undo::Nothing)
    }

    /// Hands in a call whose answer nobody waits for.
    pub(crate) fn tell(&self, call: Call) {
        self.inbox.submit(call).forget();
    }

    /// Finishes what is in flight, flushes and lets go of the store.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.inbox.push(Item::Close(done));
        // An error means that the writer has ended already.
        let _ = closed.await;
        self.join();
    }

    fn join(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // The writer catches its own panics.
            let _ = writer.join();
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.inbox.push(Item::Close(oneshot::channel().0));
        self.join();
    }
}

struct Writer {
    shard: Shard<Asker>,
    clock: Clock,
    inbox: Arc<Inbox>,
    flusher: Option<Flusher>,
    jobs: Jobs,
    /// Calls in the last batch.
    company: usize,
    next_full_retry: BootTime,
}

impl Writer {
    fn new(shard: Shard<Asker>, clock: Clock, inbox: Arc<Inbox>) -> Self {
        let flusher = shard.flusher().map(|flush| Flusher::start(flush, Arc::clone(&inbox)));
        let jobs = Jobs::start(Arc::clone(&inbox));
        Self { shard, clock, inbox, flusher, jobs, company: 0, next_full_retry: BootTime(0) }
    }

    fn run(mut self) {
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| self.serve()));
        let (error, closed) = if let Ok(closed) = outcome {
            (Error::Closed, Some(closed))
        } else {
            // A panic in the rules is a broken invariant: nothing more is answered in this life.
            let fault = JournalFault::Broken {
                what: "the writer".into(),
                cause: "an invariant of the rules was broken; see the panic message".into(),
            };
            self.shard.fail(fault.clone());
            (Error::Fault(fault), None)
        };
        for item in self.inbox.close(error.clone()) {
            if let Item::Call(_, _, asker) = item {
                // Whoever left before the answer needs none.
                let _ = asker.reply.send(Err(error.clone()));
            }
        }
        self.deliver();
        if let Some(flusher) = self.flusher.take() {
            flusher.stop();
        }
        // Before the journal is let go of: from then on the folder may be somebody else's.
        self.jobs.stop();
        if let Some(closed) = closed {
            self.shard.close(self.clock.now());
            self.deliver();
            let _ = closed.send(());
        }
    }

    fn serve(&mut self) -> oneshot::Sender<()> {
        let mut items = Vec::new();
        let mut busy = false;
        loop {
            let woken = self.inbox.take(&mut items, self.patience(busy));
            let now = self.clock.now();
            if let Some(flusher) = &self.flusher {
                self.shard.flushed(now, flusher.flush.flushed());
            }
            if self.shard.next_deadline_ms(now) == Some(0) {
                self.shard.tick(now);
            }
            let mut calls = 0;
            for item in items.drain(..) {
                match item {
                    Item::Call(ticket, call, asker) => {
                        calls += 1;
                        self.shard.apply(now, ticket, call, asker);
                    }
                    Item::Withdraw(ticket) => drop(self.shard.withdraw(ticket)),
                    Item::JobDone(result) => self.shard.job_done(result),
                    Item::Fault(fault) => self.shard.fail(fault),
                    Item::Close(done) => {
                        self.shard.seal();
                        return done;
                    }
                }
            }
            self.shard.seal();
            self.deliver();
            self.flush(calls, !woken && !busy);
            busy = self.shard.upkeep(now);
            self.hand_out_jobs();
            self.company = calls;
        }
    }

    /// How long the writer may sleep.
    fn patience(&self, busy: bool) -> Option<Duration> {
        if busy {
            return Some(Duration::ZERO);
        }
        let now = self.clock.now();
        let deadline = match (&self.clock, self.shard.next_deadline_ms(now)) {
            (_, Some(0)) => Some(0),
            (Clock::System, deadline) => deadline,
            // Virtual time does not pass by waiting; its clock rings the bell.
            (Clock::Virtual(_), _) => None,
        };
        let deadline = deadline.map(Duration::from_millis);
        let upkeep = if self.shard.is_short_of_space() {
            Some(Duration::from_millis(FULL_RETRY_MS))
        } else {
            self.shard.wants_mark().then_some(MARK_AFTER)
        };
        match (deadline, upkeep) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Makes durable what was appended: here if the caller is alone, else beside the next batch.
    fn flush(&mut self, calls: usize, idle: bool) {
        let Some(flusher) = &self.flusher else { return };
        if idle && flusher.is_idle() {
            self.shard.mark();
        }
        if !self.shard.needs_flush() {
            return;
        }
        let alone = calls <= 1 && self.company <= 1 && flusher.is_idle();
        if alone {
            match flusher.flush.flush() {
                Ok(frame) => self.shard.flushed(self.clock.now(), frame),
                Err(fault) => self.shard.fail(fault),
            }
            self.shard.seal();
            self.deliver();
            if self.shard.needs_flush() {
                self.inbox.nudge();
            }
        } else {
            flusher.request(self.shard.take_waiting());
        }
    }

    fn hand_out_jobs(&mut self) {
        if self.shard.is_short_of_space() {
            // The disk is real, also where time is not.
            let now = Clock::System.now().boot;
            if now < self.next_full_retry {
                return;
            }
            self.next_full_retry = now.plus_ms(FULL_RETRY_MS);
            if let Some(job) = self.shard.next_job() {
                self.jobs.give(job);
            }
            return;
        }
        while let Some(job) = self.shard.next_job() {
            self.jobs.give(job);
        }
    }

    fn deliver(&mut self) {
        let answers: Vec<Answered<Asker>> = self.shard.take_free().collect();
        for (asker, answer) in answers {
            deliver(&self.inbox, asker, answer);
        }
    }
}

fn deliver(inbox: &Arc<Inbox>, asker: Asker, answer: Answer) {
    if let Err(answer) = asker.reply.send(answer) {
        give_back(inbox, asker.undo, &answer);
    }
}

/// Flushes beside the writer and lets the answers go that waited for it.
struct Flusher {
    flush: Arc<dyn Flush>,
    shared: Arc<FlusherShared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct FlusherShared {
    state: Mutex<FlusherState>,
    bell: Condvar,
    /// A flush runs, or is asked for.
    busy: AtomicBool,
}

#[derive(Default)]
struct FlusherState {
    waiting: VecDeque<(u64, Answered<Asker>)>,
    requested: bool,
    stopped: bool,
    fault: Option<JournalFault>,
}

impl Flusher {
    fn start(flush: Arc<dyn Flush>, inbox: Arc<Inbox>) -> Self {
        let shared = Arc::new(FlusherShared::default());
        let (of_thread, flusher) = (Arc::clone(&shared), Arc::clone(&flush));
        let thread = std::thread::Builder::new()
            .name("bellwether-flusher".into())
            .spawn(move || of_thread.run(&*flusher, &inbox))
            .expect("a thread for the flusher");
        Self { flush, shared, thread }
    }

    fn is_idle(&self) -> bool {
        !self.shared.busy.load(Ordering::Acquire)
    }

    fn request(&self, waiting: impl Iterator<Item = (u64, Answered<Asker>)>) {
        let mut state = self.shared.lock();
        state.waiting.extend(waiting);
        state.requested = true;
        self.shared.busy.store(true, Ordering::Release);
        drop(state);
        self.shared.bell.notify_one();
    }

    fn stop(self) {
        self.shared.lock().stopped = true;
        self.shared.bell.notify_one();
        // It has no invariants of its own to break.
        let _ = self.thread.join();
    }
}

impl FlusherShared {
    fn lock(&self) -> MutexGuard<'_, FlusherState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, flush: &dyn Flush, inbox: &Arc<Inbox>) {
        let mut company = 0;
        loop {
            let mut state = self.lock();
            while !state.requested && !state.stopped {
                self.busy.store(false, Ordering::Release);
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !state.requested {
                return;
            }
            // Those who were answered by the last flush are about to ask again: one flush for
            // all of them is worth a short wait.
            let started = stopwatch();
            while state.waiting.len() < company && !state.stopped {
                let Some(left) = COMPANY_WAIT.checked_sub(started.elapsed()) else { break };
                state =
                    self.bell.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            state.requested = false;
            drop(state);
            let result = flush.flush();
            let mut state = self.lock();
            let mut answers = Vec::new();
            match result {
                Ok(frame) => {
                    while state.waiting.front().is_some_and(|(number, _)| *number <= frame.0) {
                        answers.extend(state.waiting.pop_front().map(|(_, answered)| answered));
                    }
                }
                Err(fault) => {
                    let unknown = || Err(Error::Unknown(fault.to_string()));
                    let askers = state.waiting.drain(..).map(|(_, (asker, _))| asker);
                    answers.extend(askers.map(|asker| (asker, unknown())));
                    if state.fault.is_none() {
                        state.fault = Some(fault.clone());
                        inbox.push(Item::Fault(fault));
                    }
                }
            }
            company = answers.len() + state.waiting.len();
            drop(state);
            for (asker, answer) in answers {
                deliver(inbox, asker, answer);
            }
            inbox.nudge();
        }
    }
}

/// Measures a wait of microseconds; no rule depends on it, and virtual time does not pass here.
#[allow(clippy::disallowed_methods, reason = "a pause, not a rule")]
fn stopwatch() -> std::time::Instant {
    std::time::Instant::now()
}
