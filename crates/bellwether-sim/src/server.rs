//! The server: the real shard on the real file journal, on a simulated disk.
//!
//! One step is one turn of the local engine's writer. Flushes and long work end later, as they do
//! on other threads; a life ends by a kill, a power cut or a failed log, and the next one begins
//! with what the disk has.

mod asks;
mod turn;

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bellwether::engine::content::Unread;
use bellwether::engine::shard::{Answered, Shard, ShardOptions};
use bellwether::journal::file::{self, CrashChoice, FileJournal, FileOptions, SimDisk};
use bellwether::journal::{FrameNumber, Journal, JournalFault};
use bellwether_core::time::Now;

use crate::boundary::{Asked, Asker, Boundary};
use crate::bus::{Answer, Bus, Event, Item, Packet, ServerEvent};
use crate::history::{Queue, What};

const DIR: &str = "/store";
/// What a boot clock shows when the machine has started its programs.
const BOOTED_MS: u64 = 5_000;

/// A flush under way.
#[derive(Debug)]
struct Flush {
    /// It was done at its beginning and only its end is late; else it is done at its end.
    done: Option<Result<FrameNumber, JournalFault>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Server {
    disk: SimDisk,
    shard: Option<Shard<Asked>>,
    /// Number of its life.
    life: u32,
    /// True time at which its boot clock showed zero.
    boot_zero_ms: u64,
    inbox: Vec<Item>,
    /// Members' requests that were applied and have no answer yet, by ticket.
    open: BTreeMap<u64, (Queue, Rc<Packet>)>,
    last_ticket: u64,
    /// When the next step is due.
    step_at_us: u64,
    paused_until_us: u64,
    flush: Option<Flush>,
    /// The log failed and was reported.
    is_broken: bool,
    /// A fault was put into this life.
    is_planted: bool,
    audits: u64,
    /// What is applied and said.
    pub boundary: Boundary,
}

impl Server {
    /// A server that was never started, on an empty disk.
    pub(crate) fn new(bus: &Bus, boundary: Boundary) -> Self {
        let disk = SimDisk::new();
        disk.set_capacity(bus.plan.disk.capacity_bytes);
        Self {
            disk,
            shard: None,
            life: 0,
            boot_zero_ms: 0,
            inbox: Vec::new(),
            open: BTreeMap::new(),
            last_ticket: 0,
            step_at_us: u64::MAX,
            paused_until_us: 0,
            flush: None,
            is_broken: false,
            is_planted: false,
            audits: 0,
            boundary,
        }
    }

    fn now(&self, bus: &Bus) -> Now {
        Now::new(bus.wall_ms(), bus.now_ms() + BOOTED_MS - self.boot_zero_ms)
    }

    /// Starts the process: replays what the disk has.
    pub(crate) fn start(&mut self, bus: &mut Bus) {
        if self.shard.is_some() {
            return;
        }
        let disk = bus.plan.disk;
        let options = FileOptions {
            segment_bytes_max: disk.segment_bytes,
            segment_bytes_first: disk.segment_bytes / 2,
            snapshot_after_bytes: disk.snapshot_after_bytes,
            snapshot_room_bytes: 4 << 10,
            free_bytes_min: 0,
            holder: "the server".into(),
            salt: bus.plan.seed as u32,
        };
        let shard_options = ShardOptions {
            memory_bytes_max: 1 << 30,
            body_cache_bytes_max: disk.body_cache_bytes,
            ..ShardOptions::default()
        };
        if !bus.healed && bus.plan.faults.disk_ms.is_some() && bus.dice.percent(15) {
            let k = bus.dice.below(100);
            let fault = bus.dice.pick(&[file::Fault::Eio, file::Fault::Enospc]);
            self.fail_disk_call(bus, k, fault);
        }
        let mut report = file::RecoveryReport::default();
        let disk = Arc::new(self.disk.clone());
        let opened = Shard::open(self.now(bus), &shard_options, |replay| {
            let journal = FileJournal::open(disk, Path::new(DIR), options, replay)?;
            report = journal.report().clone();
            Ok(Box::new(journal) as Box<dyn Journal>)
        });
        match opened {
            Ok(shard) => {
                self.life += 1;
                bus.stats.recoveries += u64::from(self.life > 1);
                bus.stats.torn_tails += u64::from(!report.cut.is_empty());
                bus.stats.from_snapshot += u64::from(report.snapshot.is_some());
                let incarnation = shard.ledger().incarnation().0;
                bus.record(What::Opened { incarnation });
                self.boundary.look_at_queues(bus, shard.ledger(), true);
                self.boundary.look_at_leases(bus, self.now(bus), shard.ledger(), true);
                self.shard = Some(shard);
                self.wake(bus, 0);
                if !bus.healed && bus.dice.percent(15) {
                    let us = bus.dice.around(60_000);
                    let power = bus.plan.faults.power_ms.is_some() && bus.dice.percent(70);
                    bus.after(us, Event::Relapse { power });
                }
                if bus.dice.percent(70) {
                    let us = bus.dice.around(20_000);
                    bus.after(us, Event::Audit { regular: false });
                }
            }
            Err(fault) => {
                let full = matches!(fault, JournalFault::Full { .. });
                let unusable = matches!(
                    fault,
                    JournalFault::Unusable { .. } | JournalFault::Unreadable { .. }
                );
                let planted =
                    (full && Self::is_limited(bus)) || (self.is_planted && (unusable || full));
                bus.record(What::NotOpened { planted, fault: fault.to_string() });
                // Recovery stopped half way: by a death of the process, or of the machine.
                if bus.plan.faults.power_ms.is_some() && bus.dice.percent(50) {
                    self.cut_power(bus);
                } else {
                    self.disk = self.disk.kill();
                }
                self.is_planted = false;
                let us = bus.dice.around(500_000);
                bus.after(us, Event::ServerStarts);
            }
        }
    }

    fn is_limited(bus: &Bus) -> bool {
        !bus.healed && bus.plan.disk.capacity_bytes.is_some()
    }

    /// A packet arrives; without a process it is lost.
    pub(crate) fn receive(&mut self, bus: &mut Bus, item: Item) {
        if self.shard.is_none() {
            return;
        }
        self.inbox.push(item);
        let us = bus.dice.around(100);
        self.wake(bus, us);
    }

    fn wake(&mut self, bus: &mut Bus, us: u64) {
        if self.shard.is_none() {
            return;
        }
        let at_us = (bus.now_us + us).max(self.paused_until_us);
        if at_us < self.step_at_us {
            self.step_at_us = at_us;
            bus.at(at_us, Event::Server(self.life, ServerEvent::Step));
        }
    }

    /// The server stands still.
    pub(crate) fn pause(&mut self, until_us: u64) {
        self.paused_until_us = self.paused_until_us.max(until_us);
    }

    /// The `k`-th call to the disk from now fails.
    pub(crate) fn fail_disk_call(&mut self, bus: &mut Bus, k: u64, fault: file::Fault) {
        self.is_planted = true;
        self.disk.fail_at(k, fault);
        bus.record(What::DiskCallFails);
    }

    /// Nothing goes wrong with it any more.
    pub(crate) fn heal(&mut self, bus: &mut Bus) {
        self.disk.set_capacity(None);
        // A call that was still to fail does not.
        self.disk.fail_at(u64::MAX / 2, file::Fault::Eio);
        self.paused_until_us = bus.now_us;
        self.wake(bus, 0);
    }

    fn end_life(&mut self) {
        self.shard = None;
        self.inbox.clear();
        self.open.clear();
        self.flush = None;
        self.step_at_us = u64::MAX;
        self.is_broken = false;
        self.is_planted = false;
        self.boundary.life_ended();
    }

    /// The process is killed: what the kernel has is kept.
    pub(crate) fn kill(&mut self, bus: &mut Bus) {
        if self.shard.is_none() {
            return;
        }
        bus.record(What::Killed);
        self.end_life();
        self.disk = self.disk.kill();
    }

    /// The machine loses power: what was not flushed is lost, torn or kept, sector by sector.
    pub(crate) fn cut_power(&mut self, bus: &mut Bus) {
        bus.record(What::PowerCut);
        self.end_life();
        let choice = match bus.dice.below(10) {
            0..3 => CrashChoice::LoseAll,
            3 => CrashChoice::KeepAll,
            4 => CrashChoice::LoseOne(bus.dice.below(1 + self.disk.pending_len() as u64) as usize),
            _ => CrashChoice::Seed(bus.dice.bits()),
        };
        let names_kept = bus.dice.below(1 + self.disk.pending_names() as u64) as usize;
        self.disk = self.disk.crash(choice, names_kept);
        self.boot_zero_ms = bus.now_ms();
    }

    /// Something of the current life happens.
    pub(crate) fn happen(&mut self, bus: &mut Bus, life: u32, event: ServerEvent) {
        if life != self.life || self.shard.is_none() {
            return;
        }
        // Everything in a process stands still together.
        if bus.now_us < self.paused_until_us {
            bus.at(self.paused_until_us, Event::Server(life, event));
            return;
        }
        match event {
            ServerEvent::Step => {
                if bus.now_us >= self.step_at_us {
                    self.step_at_us = u64::MAX;
                    self.step(bus);
                }
            }
            ServerEvent::FlushEnds => self.flush_ends(bus),
            ServerEvent::JobRuns(job) => {
                let done = job.run();
                let us = bus.dice.around(300);
                bus.after(us, Event::Server(life, ServerEvent::JobDone(done)));
                // What long work gave up must not be needed by anybody whom a power cut sends back.
                let share = if self.flush.is_some() { 100 } else { 3 };
                if !bus.healed && bus.plan.faults.power_ms.is_some() && bus.dice.per_mille(share) {
                    let us = bus.dice.around(200);
                    bus.after(us, Event::Relapse { power: true });
                }
            }
            ServerEvent::JobDone(done) => {
                if let Some(shard) = &mut self.shard {
                    shard.job_done(done);
                }
                self.wake(bus, 0);
            }
            ServerEvent::FaultTold(fault) => {
                if let Some(shard) = &mut self.shard {
                    shard.fail(fault);
                }
                self.speak(bus);
            }
            ServerEvent::Exit => {
                self.kill(bus);
                let us = bus.dice.around(200_000);
                bus.after(us, Event::ServerStarts);
            }
        }
        self.look_for_fault(bus);
    }

    fn speak(&mut self, bus: &mut Bus) {
        let Some(shard) = &mut self.shard else { return };
        for answered in shard.take_free() {
            self.say(bus, answered);
        }
    }

    fn say(&mut self, bus: &mut Bus, (asked, result): Answered<Asked>) {
        let result = result.map(Unread::read);
        self.open.remove(&asked.ticket);
        if result.is_ok() {
            let before = self.open.range(..asked.ticket);
            Boundary::deleted(bus, &asked, before.map(|(_, open)| open));
        }
        self.boundary.said(bus, &asked, &result, self.boot_zero_ms.wrapping_sub(BOOTED_MS));
        if let Asker::Member(packet) = &asked.asker {
            let answer = Answer { process: packet.process, tag: packet.tag, result };
            bus.send_answer(packet.member, answer);
        }
    }

    fn report_fault(&mut self, bus: &mut Bus, fault: &JournalFault) {
        if self.is_broken {
            return;
        }
        self.is_broken = true;
        bus.stats.broken += 1;
        let planted = self.is_planted
            && matches!(fault, JournalFault::Broken { .. } | JournalFault::Unreadable { .. });
        bus.record(What::Broken { planted, fault: fault.to_string() });
        let us = bus.dice.between(5_000, 50_000);
        bus.after(us, Event::Server(self.life, ServerEvent::Exit));
    }

    fn look_for_fault(&mut self, bus: &mut Bus) {
        let fault = self.shard.as_ref().and_then(|shard| shard.fault().cloned());
        if let Some(fault) = fault {
            self.speak(bus);
            self.report_fault(bus, &fault);
        }
    }
}
