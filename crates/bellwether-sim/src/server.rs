//! The server: the real shard on the real file journal, on a simulated disk.
//!
//! One step is one turn of the local engine's writer. Flushes and long work end later, as they do
//! on other threads; a life ends by a kill, a power cut or a failed log, and the next one begins
//! with what the disk has.

use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bellwether::Error;
use bellwether::engine::Call;
use bellwether::engine::shard::{Answered, Shard, ShardOptions};
use bellwether::journal::file::{self, CrashChoice, FileJournal, FileOptions, SimDisk};
use bellwether::journal::{FrameNumber, Journal, JournalFault};
use bellwether_core::command::{Command, Request};
use bellwether_core::message::NewMessage;
use bellwether_core::name::{MemberSlot, Part, QueuePath, RequestNumber, SequenceNumber, Ticket};
use bellwether_core::time::Now;

use crate::bodies::Bodies;
use crate::boundary::{Asked, Asker, Boundary, lease_name, queue_name, session_name};
use crate::bus::{Answer, Bus, Event, Packet, ServerEvent};
use crate::history::What;

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
    inbox: Vec<Rc<Packet>>,
    last_ticket: u64,
    /// When the next step is due.
    step_at_us: u64,
    paused_until_us: u64,
    flush: Option<Flush>,
    /// Answers in the flusher's hands.
    in_hands: VecDeque<(u64, Answered<Asked>)>,
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
            last_ticket: 0,
            step_at_us: u64::MAX,
            paused_until_us: 0,
            flush: None,
            in_hands: VecDeque::new(),
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
            holder: "the server".into(),
            salt: bus.plan.seed as u32,
        };
        let shard_options =
            ShardOptions { memory_bytes_max: 1 << 30, body_cache_bytes_max: disk.body_cache_bytes };
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
                self.shard = Some(shard);
                bus.record(What::Opened { incarnation });
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
    pub(crate) fn receive(&mut self, bus: &mut Bus, packet: Rc<Packet>) {
        if self.shard.is_none() {
            return;
        }
        self.inbox.push(packet);
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
        self.in_hands.clear();
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

    /// One turn of the writer.
    fn step(&mut self, bus: &mut Bus) {
        let now = self.now(bus);
        let Some(shard) = &mut self.shard else { return };
        if let Some(flusher) = shard.flusher().filter(|_| !self.is_broken) {
            shard.flushed(now, flusher.flushed());
        }
        if shard.next_deadline_ms(now) == Some(0) {
            shard.tick(now);
        }
        for packet in std::mem::take(&mut self.inbox) {
            self.last_ticket += 1;
            let call = packet.call.clone();
            self.boundary.applied(bus, &packet);
            let as_of = bus.history.len();
            let asker = Asker::Member(packet);
            let asked = Asked { asker, applied_ms: bus.now_ms(), as_of };
            shard.apply(now, Ticket(self.last_ticket), call, asked);
            if bus.dice.percent(5) {
                shard.seal();
            }
        }
        let sealed = bus.dice.percent(90);
        if sealed {
            shard.seal();
        }
        self.speak(bus);
        self.begin_flush(bus);
        let Some(shard) = &mut self.shard else { return };
        let busy = bus.dice.percent(70) && shard.upkeep(now);
        if shard.is_short_of_space() {
            bus.stats.full += 1;
        }
        let full = shard.is_short_of_space();
        let jobs = if full { 1 } else { 3 };
        for _ in 0..jobs {
            let Some(job) = shard.next_job() else { break };
            bus.stats.jobs += 1;
            let us = bus.dice.around(1_500);
            bus.after(us, Event::Server(self.life, ServerEvent::JobRuns(job)));
        }
        let wants_mark = shard.wants_mark();
        let deadline_us = shard.next_deadline_ms(now).map_or(u64::MAX, |ms| ms * 1000);
        if busy || !sealed {
            let us = bus.dice.around(100);
            self.wake(bus, us);
        } else if wants_mark || full {
            self.wake(bus, 50_000);
        }
        // A timer is late now and then.
        let late_us = bus.dice.around(500);
        self.wake(bus, deadline_us.saturating_add(late_us).min(3_600_000_000));
    }

    fn begin_flush(&mut self, bus: &mut Bus) {
        let Some(shard) = self.shard.as_mut().filter(|_| self.flush.is_none()) else { return };
        if shard.wants_mark() && bus.dice.percent(30) {
            shard.mark();
        }
        if !shard.needs_flush() {
            return;
        }
        bus.record(What::Flushing);
        if bus.dice.percent(50) {
            self.in_hands.extend(shard.take_waiting());
        }
        // Bytes reach the disk early or late in a flush.
        let done = if bus.dice.percent(30) { shard.flusher().map(|f| f.flush()) } else { None };
        self.flush = Some(Flush { done });
        let us = bus.dice.around(bus.plan.disk.flush_us);
        bus.after(us, Event::Server(self.life, ServerEvent::FlushEnds));
    }

    fn flush_ends(&mut self, bus: &mut Bus) {
        let now = self.now(bus);
        let (Some(flush), Some(shard)) = (self.flush.take(), &mut self.shard) else { return };
        // A flusher looks for a fault of the writer before it reports, however early it was done.
        let done = flush.done.filter(|_| !self.is_broken);
        let result = done.or_else(|| shard.flusher().map(|flusher| flusher.flush()));
        match result {
            Some(Ok(frame)) => {
                if !self.is_broken {
                    bus.record(What::Flushed);
                }
                let due = self.in_hands.iter().take_while(|(number, _)| *number <= frame.0).count();
                let due: Vec<_> =
                    self.in_hands.drain(..due).map(|(_, answered)| answered).collect();
                for answered in due {
                    self.say(bus, answered);
                }
                let Some(shard) = &mut self.shard else { return };
                if bus.dice.percent(60) {
                    shard.flushed(now, frame);
                    if bus.dice.percent(50) {
                        shard.seal();
                    }
                    self.speak(bus);
                }
                self.wake(bus, 0);
            }
            Some(Err(fault)) => {
                self.report_fault(bus, &fault);
                for (_, (asked, _)) in std::mem::take(&mut self.in_hands) {
                    self.say(bus, (asked, Err(Error::Unknown(fault.to_string()))));
                }
                // The writer hears of it a little later and works on until then.
                let us = bus.dice.around(2_000);
                bus.after(us, Event::Server(self.life, ServerEvent::FaultTold(fault)));
                self.wake(bus, us / 2);
            }
            None => {}
        }
    }

    fn speak(&mut self, bus: &mut Bus) {
        let Some(shard) = &mut self.shard else { return };
        let answers: Vec<_> = shard.take_free().collect();
        for answered in answers {
            self.say(bus, answered);
        }
    }

    fn say(&mut self, bus: &mut Bus, (asked, result): Answered<Asked>) {
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

    /// Somebody sends a message, to see whether those who wait for it get it.
    pub(crate) fn probe(&mut self, bus: &mut Bus, queue: u8) {
        bus.last_id += 1;
        let id = bus.last_id;
        let body = Bodies { usual_bytes: bus.plan.body_bytes }.of(id);
        let sessions = bus.plan.queues[usize::from(queue)].settings.sessions;
        let session = sessions.then_some(0);
        let messages = vec![NewMessage {
            content_bytes: body.len() as u32,
            session: session.map(session_name),
            ..NewMessage::default()
        }];
        let command = Command::Send { queue: queue_name(queue), messages };
        let (number, answered_below) = (RequestNumber(id), RequestNumber(0));
        let request = Request { member: MemberSlot(0), number, answered_below, command };
        let call = Call { request, contents: vec![body] };
        bus.probes.insert(id, (queue, session));
        self.receive(bus, Rc::new(Packet { member: 0, process: 0, tag: 0, call }));
    }

    /// The auditor looks at everything, in one moment.
    pub(crate) fn audit(&mut self, bus: &mut Bus) -> Option<u64> {
        if self.shard.is_none() || bus.now_us < self.paused_until_us || self.is_broken {
            return None;
        }
        self.audits += 1;
        let audit = self.audits;
        let queues = bus.plan.queues.len() as u8;
        self.boundary.begin_audit(bus, audit, 3 * usize::from(queues));
        for queue in 0..queues {
            for part in [Some(Part::Main), Some(Part::Dead), None] {
                let command = match part {
                    Some(part) => Command::Peek {
                        from: QueuePath { queue: queue_name(queue), part },
                        sequence: SequenceNumber(0),
                        max: 10_000,
                        session: None,
                    },
                    None => Command::DescribeQueue { queue: queue_name(queue) },
                };
                self.ask(bus, audit, queue, part, command);
            }
        }
        self.speak(bus);
        self.wake(bus, 0);
        Some(audit)
    }

    /// Somebody asks the holder of a lease to step down.
    pub(crate) fn ask_step_down(&mut self, bus: &Bus, election: u8) {
        self.ask(bus, 0, 0, None, Command::AskStepDown { lease: lease_name(election) });
    }

    fn ask(&mut self, bus: &Bus, audit: u64, queue: u8, part: Option<Part>, command: Command) {
        let now = self.now(bus);
        let Some(shard) = &mut self.shard else { return };
        let none = RequestNumber(0);
        let request =
            Request { member: MemberSlot(0), number: none, answered_below: none, command };
        let asker = Asker::Audit { audit, queue, part };
        self.last_ticket += 1;
        let asked = Asked { asker, applied_ms: bus.now_ms(), as_of: bus.history.len() };
        let call = Call { request, contents: Vec::new() };
        shard.apply(now, Ticket(self.last_ticket), call, asked);
    }
}
