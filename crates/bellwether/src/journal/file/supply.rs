//! Where the next unit comes from: made ahead, from recycled units or from free space.
//!
//! Blank units are the stock; the last one is the reserve, used only when the disk is full. One
//! lock covers the stock, and making a unit happens under it: an owner who needs the next unit while a
//! job is still making it waits for that job instead of making a second one.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::disk::{Access, DiskFile, is_full, write_all};
use super::flusher::lock;
use super::names;
use super::options::{SYNC_EVERY_BYTES, UNIT_BYTES_MIN};
use super::segment::{KeptUnit, Position, Unit, UnitHeader};
use super::store::Store;
use super::survey::Blank;
use crate::journal::Pressure;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

#[derive(Debug)]
pub(super) struct Supply {
    store: Arc<Store>,
    incarnation: u64,
    stock: Mutex<Stock>,
    full: AtomicBool,
    low: AtomicBool,
}

#[derive(Debug)]
struct Stock {
    /// Number of the unit to be made next.
    number: u64,
    next: Option<Arc<Unit>>,
    blanks: Vec<Blank>,
    /// So many are kept.
    blanks_max: usize,
    zero_id: u64,
    /// Room wanted for the next snapshot.
    room_bytes: Option<u64>,
}

impl Supply {
    /// `number` is above every unit in the folder, `zero_max` the highest blank's.
    pub(super) fn new(
        store: Arc<Store>,
        incarnation: u64,
        number: u64,
        blanks: Vec<Blank>,
        zero_max: u64,
    ) -> Self {
        let stock = Stock {
            number,
            next: None,
            blanks,
            blanks_max: usize::MAX,
            zero_id: zero_max + 1,
            room_bytes: None,
        };
        let (stock, full, low) =
            (Mutex::new(stock), AtomicBool::new(false), AtomicBool::new(false));
        Self { store, incarnation, stock, full, low }
    }

    pub(super) fn pressure(&self) -> Pressure {
        if self.is_full() {
            Pressure::Full
        } else if self.low.load(Ordering::Acquire) {
            Pressure::Low
        } else {
            Pressure::None
        }
    }

    fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// The first unit of a life. Small where space allows it, since opening waits for it; the
    /// reserve, and at last the smallest unit there can be, where it does not.
    pub(super) fn first_unit(&self, after: Position) -> io::Result<Arc<Unit>> {
        let mut stock = lock(&self.stock);
        let small = self.store.options.segment_bytes_first;
        let (blank, bytes) = if stock.blanks.len() > 1 {
            (stock.blanks.pop(), self.store.options.segment_bytes_max)
        } else {
            (None, small)
        };
        let (blank, bytes) = match blank.map_or_else(|| self.make_blank(&mut stock, small), Ok) {
            Ok(blank) => (blank, bytes),
            Err(e) if is_full(&e) => match stock.blanks.pop() {
                Some(reserve) => (reserve, self.store.options.segment_bytes_max),
                None => (self.make_blank(&mut stock, UNIT_BYTES_MIN)?, UNIT_BYTES_MIN),
            },
            Err(e) => return Err(e),
        };
        self.name_unit(&mut stock, &blank, bytes, Some(after))
    }

    /// Makes sure that there is a reserve, if there is space for it.
    pub(super) fn ensure_reserve(&self) -> io::Result<bool> {
        let mut stock = lock(&self.stock);
        if stock.blanks.is_empty() {
            match self.make_blank(&mut stock, self.store.options.segment_bytes_max) {
                Ok(blank) => stock.blanks.push(blank),
                Err(e) if is_full(&e) => return Ok(self.note_full(true)),
                Err(e) => return Err(e),
            }
        }
        Ok(self.note_full(false))
    }

    /// Makes what is missing: the next unit, the reserve, room for a snapshot. True if nothing is
    /// missing any more.
    pub(super) fn replenish(&self) -> io::Result<bool> {
        let is_low = self.look();
        if !self.ensure_next()? || !self.ensure_reserve()? {
            return Ok(false);
        }
        let mut stock = lock(&self.stock);
        if let Some(bytes) = stock.room_bytes {
            match self.make_room(bytes) {
                Ok(()) => stock.room_bytes = None,
                // Only a snapshot on a full disk needs it; the next roll-over tries again.
                Err(e) if is_full(&e) => {}
                Err(e) => return Err(e),
            }
        }
        // What becomes free on a disk is not told: somebody has to look again.
        Ok(!is_low)
    }

    /// Looks whether less space is free than is to be kept. Blank units are, for us.
    pub(super) fn look(&self) -> bool {
        let Store { disk, dir, options } = &*self.store;
        if options.free_bytes_min == 0 {
            return false;
        }
        // A disk that does not say is not short for that: it says so when it is full.
        if let Ok(free) = disk.free_bytes(dir) {
            let blanks = lock(&self.stock).blanks.len() as u64;
            let free = free.saturating_add(blanks * u64::from(options.segment_bytes_max));
            self.low.store(free < options.free_bytes_min, Ordering::Release);
        }
        self.low.load(Ordering::Acquire)
    }

    fn ensure_next(&self) -> io::Result<bool> {
        let mut stock = lock(&self.stock);
        if stock.next.is_some() {
            return Ok(true);
        }
        let bytes = self.store.options.segment_bytes_max;
        let blank = if stock.blanks.len() > 1 {
            stock.blanks.pop()
        } else {
            match self.make_blank(&mut stock, bytes) {
                Ok(blank) => Some(blank),
                Err(e) if is_full(&e) => None,
                Err(e) => return Err(e),
            }
        };
        let Some(blank) = blank else {
            return Ok(self.note_full(true));
        };
        stock.next = Some(self.name_unit(&mut stock, &blank, bytes, None)?);
        Ok(true)
    }

    /// The next unit, made now if no job has made it yet, out of the reserve if there is no other
    /// way. `None` if the disk is full and the reserve is used up.
    pub(super) fn take(&self) -> io::Result<Option<Arc<Unit>>> {
        // On a full disk only jobs look for space: the owner must not wait for it at every frame.
        if !self.is_full() {
            self.ensure_next()?;
        }
        let mut stock = lock(&self.stock);
        if let Some(unit) = stock.next.take() {
            return Ok(Some(unit));
        }
        let Some(reserve) = stock.blanks.pop() else {
            return Ok(None);
        };
        let bytes = self.store.options.segment_bytes_max;
        self.name_unit(&mut stock, &reserve, bytes, None).map(Some)
    }

    /// Takes units out of use: into stock as long as that is short, else back to the file system.
    /// A unit that somebody still reads must not be written again, so it is only unlinked.
    pub(super) fn recycle(&self, units: &[KeptUnit]) -> io::Result<()> {
        let (room, surplus) = {
            let mut stock = lock(&self.stock);
            let kept = stock.blanks.len().min(stock.blanks_max);
            (stock.blanks_max - kept, stock.blanks.split_off(kept))
        };
        for blank in surplus {
            self.store.disk.remove(&self.store.path(&blank.name))?;
        }
        let mut spares = Vec::new();
        for unit in units {
            let number = unit.header.number;
            let path = self.store.path(&names::unit(number));
            let fits = unit.header.file_bytes == self.store.options.segment_bytes_max;
            if fits && spares.len() < room && !unit.is_held() {
                let name = names::spare(number);
                self.store.disk.rename(&path, &self.store.path(&name))?;
                spares.push(Blank { name, zero_filled: false });
            } else {
                self.store.disk.remove(&path)?;
            }
        }
        if !spares.is_empty() {
            // Before a spare is written: else a power cut could bring the old name back with new
            // bytes.
            self.store.sync_names()?;
            lock(&self.stock).blanks.append(&mut spares);
        }
        Ok(())
    }

    /// Keeps what is given out before the next snapshot gives units back: many become free at
    /// once, and to make them anew, filled with zeros, costs as much as to write them.
    pub(super) fn keep_for(&self, bytes: u64) {
        let each = u64::from(self.store.options.segment_bytes_max);
        // One is the reserve.
        lock(&self.stock).blanks_max = bytes.div_ceil(each).max(1) as usize;
    }

    pub(super) fn want_room(&self, bytes: Option<u64>) {
        lock(&self.stock).room_bytes = bytes;
    }

    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let path = self.store.path(names::ROOM);
        let file = match self.store.disk.open(&path, Access::Write) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.store.disk.create(&path)?,
            other => other?,
        };
        if file.len()? < bytes { file.allocate(bytes) } else { Ok(()) }
    }

    /// A file of zeros, flushed. Zeros and not only allocated space: a flush then has no
    /// metadata to write, and a full disk cannot get in the way.
    fn make_blank(&self, stock: &mut Stock, bytes: u32) -> io::Result<Blank> {
        let name = names::zero(stock.zero_id);
        stock.zero_id += 1;
        let temporary = self.store.path(&names::temporary(&name));
        let file = self.store.disk.create(&temporary)?;
        if let Err(e) = fill(&*file, u64::from(bytes)) {
            // What stays behind is swept at the next open.
            let _ = self.store.disk.remove(&temporary);
            return Err(e);
        }
        self.store.disk.rename(&temporary, &self.store.path(&name))?;
        Ok(Blank { name, zero_filled: true })
    }

    fn name_unit(
        &self,
        stock: &mut Stock,
        blank: &Blank,
        bytes: u32,
        first_after: Option<Position>,
    ) -> io::Result<Arc<Unit>> {
        let header = UnitHeader {
            number: stock.number,
            incarnation: self.incarnation,
            file_bytes: bytes,
            salt: self.store.options.salt,
            zero_filled: blank.zero_filled,
            first_after,
        };
        let from = self.store.path(&blank.name);
        let to = self.store.path(&names::unit(header.number));
        let disk = &self.store.disk;
        let named = disk.open(&from, Access::Write).and_then(|file| {
            write_all(&*file, &header.encode(), 0)?;
            file.sync_data()?;
            disk.rename(&from, &to)?;
            self.store.sync_names()?;
            Ok(Arc::new(Unit { header, file }))
        });
        stock.number += 1;
        // The space is already ours, so want of it is as strange here as any other failure.
        named.map_err(|e| if is_full(&e) { io::Error::other(e) } else { e })
    }

    fn note_full(&self, full: bool) -> bool {
        self.full.store(full, Ordering::Release);
        !full
    }
}

fn fill(file: &dyn DiskFile, bytes: u64) -> io::Result<()> {
    file.allocate(bytes)?;
    let mut offset = 0;
    while offset < bytes {
        let n = (bytes - offset).min(ZEROS.len() as u64);
        write_all(file, &ZEROS[..n as usize], offset)?;
        offset += n;
        if offset % SYNC_EVERY_BYTES == 0 {
            file.sync_data()?;
        }
    }
    file.sync_all()
}
