//! One turn of the writer, and the flusher beside it.

use std::rc::Rc;

use bellwether_core::name::Ticket;

use super::{Flush, Server};
use crate::boundary::{Asked, Asker, Boundary, Release};
use crate::bus::{Bus, Event, Item, Packet, ServerEvent, Withdrawal};
use crate::history::What;

impl Server {
    /// One turn of the writer.
    pub(super) fn step(&mut self, bus: &mut Bus) {
        let now = self.now(bus);
        let Some(shard) = &mut self.shard else { return };
        if let Some(flusher) = shard.flusher().filter(|_| !self.is_broken) {
            shard.flushed(now, flusher.flushed());
        }
        if shard.next_deadline_ms(now) == Some(0) {
            shard.tick(now);
            self.boundary.look_at_leases(bus, now, shard.ledger(), false);
        }
        for item in std::mem::take(&mut self.inbox) {
            match item {
                Item::Call(packet) => self.apply(bus, packet),
                Item::Withdraw(withdrawal) => self.withdraw(bus, withdrawal),
            }
        }
        let Some(shard) = &mut self.shard else { return };
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

    fn apply(&mut self, bus: &mut Bus, packet: Rc<Packet>) {
        let now = self.now(bus);
        let Some(shard) = &mut self.shard else { return };
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let request = &packet.call.request;
        let queue = self.boundary.decided_in(shard.ledger(), request);
        self.boundary.applied(bus, &packet, queue);
        let as_of = bus.history.len();
        let stood = self.boundary.stood(now, shard.ledger(), request);
        let waiting = self.open.iter().filter(|(ticket, _)| shard.is_waiting(Ticket(**ticket)));
        let release = Release::of(request, &stood, waiting.map(|(_, (_, packet))| &**packet));
        let asker = Asker::Member(Rc::clone(&packet));
        let asked = Asked { asker, ticket, applied_ms: bus.now_ms(), as_of, queue, stood };
        shard.apply(now, Ticket(ticket), &packet.call, asked);
        self.boundary.look_at_queues(bus, shard.ledger(), false);
        self.boundary.look_at_leases(bus, now, shard.ledger(), false);
        if let Some(release) = release {
            self.boundary.released(bus, now, shard.ledger(), &release);
        }
        self.open.insert(ticket, (queue, packet));
        if bus.dice.percent(5) {
            shard.seal();
        }
    }

    fn withdraw(&mut self, bus: &mut Bus, withdrawal: Withdrawal) {
        let Some(shard) = &mut self.shard else { return };
        let open = self.open.iter().filter(|(_, (_, packet))| withdrawal.is_of(packet));
        let tickets: Vec<u64> = open.map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            // What is decided already is answered, wanted or not.
            if shard.withdraw(Ticket(ticket)).is_none() {
                continue;
            }
            let Some((_, packet)) = self.open.remove(&ticket) else { continue };
            bus.stats.withdrawn += 1;
            let open = self.open.values().map(|(_, packet)| packet);
            Boundary::withdrawn(bus, &packet.call.request, open);
        }
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
        // Bytes reach the disk early or late in a flush.
        let done = if bus.dice.percent(30) { shard.flusher().map(|f| f.flush()) } else { None };
        self.flush = Some(Flush { done });
        let us = bus.dice.around(bus.plan.disk.flush_us);
        bus.after(us, Event::Server(self.life, ServerEvent::FlushEnds));
    }

    pub(super) fn flush_ends(&mut self, bus: &mut Bus) {
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
                // The writer hears of it a little later and works on until then.
                let us = bus.dice.around(2_000);
                bus.after(us, Event::Server(self.life, ServerEvent::FaultTold(fault)));
                self.wake(bus, us / 2);
            }
            None => {}
        }
    }
}
