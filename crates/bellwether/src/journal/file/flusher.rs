//! Makes frames durable, on another thread than the one that appends.
//!
//! The order that makes it right: a unit enters the list before a frame is written to it; a frame
//! is written before `appended` names it; the flush reads `appended` before it flushes the list.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::names;
use super::segment::Unit;
use super::store::Store;
use crate::journal::{Flush, FrameNumber, JournalFault};

#[derive(Debug)]
pub(super) struct Flusher {
    store: Arc<Store>,
    appended: AtomicU64,
    flushed: AtomicU64,
    /// Units with unflushed frames, in order; the last is the current one.
    dirty: Mutex<Vec<Arc<Unit>>>,
    /// One flush at a time: two would report out of order.
    flushing: Mutex<()>,
    is_broken: AtomicBool,
    fault: Mutex<Option<JournalFault>>,
}

impl Flusher {
    pub(super) fn new(store: Arc<Store>, current: Arc<Unit>, flushed: u64) -> Self {
        Self {
            store,
            appended: AtomicU64::new(flushed),
            flushed: AtomicU64::new(flushed),
            dirty: Mutex::new(vec![current]),
            flushing: Mutex::new(()),
            is_broken: AtomicBool::new(false),
            fault: Mutex::new(None),
        }
    }

    pub(super) fn roll_to(&self, unit: Arc<Unit>) {
        lock(&self.dirty).push(unit);
    }

    pub(super) fn note_appended(&self, number: u64) {
        self.appended.store(number, Ordering::Release);
    }

    pub(super) fn flushed_number(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// Fails once something has failed.
    pub(super) fn check(&self) -> Result<(), JournalFault> {
        if self.is_broken.load(Ordering::Acquire) {
            return lock(&self.fault).clone().map_or(Ok(()), Err);
        }
        Ok(())
    }

    /// The end of this journal's life: the first fault is kept and given to everybody after.
    pub(super) fn poison(&self, fault: JournalFault) -> JournalFault {
        let mut kept = lock(&self.fault);
        let fault = kept.get_or_insert(fault).clone();
        self.is_broken.store(true, Ordering::Release);
        fault
    }

    fn sync(&self, unit: &Unit) -> Result<(), JournalFault> {
        if cfg!(planted_bug = "skip_flush") {
            return Ok(());
        }
        unit.file.sync_data().map_err(|e| {
            let fault = self.store.broken("flush", &names::unit(unit.header.number), &e);
            if cfg!(planted_bug = "poison_forgotten") { fault } else { self.poison(fault) }
        })
    }
}

impl Flush for Flusher {
    fn flush(&self) -> Result<FrameNumber, JournalFault> {
        let _one_at_a_time = lock(&self.flushing);
        self.check()?;
        let (units, appended) = {
            let dirty = lock(&self.dirty);
            (dirty.clone(), self.appended.load(Ordering::Acquire))
        };
        if appended == self.flushed_number() {
            return Ok(FrameNumber(appended));
        }
        for unit in &units {
            self.sync(unit)?;
        }
        lock(&self.dirty).drain(..units.len() - 1);
        // An append may have failed while we flushed: nothing is reported after the first failure.
        self.check()?;
        self.flushed.store(appended, Ordering::Release);
        Ok(FrameNumber(appended))
    }

    fn flushed(&self) -> FrameNumber {
        FrameNumber(self.flushed_number())
    }

    fn is_wanted(&self) -> bool {
        self.appended.load(Ordering::Acquire) != self.flushed_number()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
