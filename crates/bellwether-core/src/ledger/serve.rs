//! Serving those who wait for messages.

use std::collections::BTreeSet;

use crate::command::ReceiveMode;
use crate::name::{Part, QueueId, RequestNumber, Ticket};
use crate::outcome::{Answer, Barrier, Outcome};
use crate::ready::LaneId;
use crate::time::Now;

use super::keep::deliveries;
use super::receive::Take;
use super::{Effects, Ledger, refuse};

/// What became of one who waits.
enum Served {
    /// It waits no more.
    Something,
    /// It goes on waiting; there may be something for those behind it.
    NotThisOne,
    /// There is nothing for anybody.
    Nobody,
}

impl Ledger {
    /// Serves those who wait for a lane, first come first served.
    pub(super) fn serve(
        &mut self,
        now: Now,
        id: QueueId,
        part: Part,
        lane: LaneId,
        fx: &mut Effects,
    ) {
        let mut from = Ticket(0);
        while let Some(queue) = self.queues.get(&id) {
            let range = (lane, from)..=(lane, Ticket(u64::MAX));
            let Some((_, ticket)) = queue.shelf(part).demands.range(range).next().map(|d| *d.0)
            else {
                break;
            };
            from = match self.serve_one(now, id, part, lane, ticket, fx) {
                Served::Something => Ticket(0),
                Served::NotThisOne => Ticket(ticket.0 + 1),
                Served::Nobody => break,
            };
        }
        if lane != 0 {
            self.serve_accepts(now, id, fx);
        }
    }

    /// Serves several lanes. Where one member may have only one thing of all, whoever asked first is
    /// served first, of whatever lane.
    pub(super) fn serve_lanes(
        &mut self,
        now: Now,
        lanes: BTreeSet<(QueueId, Part, LaneId)>,
        fx: &mut Effects,
    ) {
        let is_tried = |(queue, ..): &(QueueId, Part, LaneId)| {
            self.queues.get(queue).is_some_and(|queue| queue.outage.is_on())
        };
        if lanes.len() > 1 && (!self.suspects.is_idle() || lanes.iter().any(is_tried)) {
            self.serve_by_age(now, &lanes, fx);
        }
        for (queue, part, lane) in lanes {
            self.serve(now, queue, part, lane, fx);
        }
    }

    fn serve_by_age(
        &mut self,
        now: Now,
        lanes: &BTreeSet<(QueueId, Part, LaneId)>,
        fx: &mut Effects,
    ) {
        let mut from = Ticket(0);
        loop {
            let first = |(queue, part, lane): &(QueueId, Part, LaneId)| {
                let demands = &self.queues.get(queue)?.shelf(*part).demands;
                let range = (*lane, from)..=(*lane, Ticket(u64::MAX));
                let ((_, ticket), _) = demands.range(range).next()?;
                Some((*ticket, *queue, *part, *lane))
            };
            let Some((ticket, queue, part, lane)) = lanes.iter().filter_map(first).min() else {
                return;
            };
            from = match self.serve_one(now, queue, part, lane, ticket, fx) {
                Served::Something => Ticket(0),
                Served::NotThisOne | Served::Nobody => Ticket(ticket.0 + 1),
            };
        }
    }

    /// Serves one who waits for a lane, if there is something for it.
    fn serve_one(
        &mut self,
        now: Now,
        id: QueueId,
        part: Part,
        lane: LaneId,
        ticket: Ticket,
        fx: &mut Effects,
    ) -> Served {
        let Some(queue) = self.queues.get(&id) else { return Served::Nobody };
        if !queue.settings.status.can_receive() {
            return Served::Nobody;
        }
        let Some(demand) = queue.shelf(part).demands.get(&(lane, ticket)).cloned() else {
            return Served::NotThisOne;
        };
        if let Err(refusal) = self.check_unsettled(demand.member, demand.mode, 1) {
            self.withdraw(ticket);
            refuse(ticket, refusal, fx);
            return Served::Something;
        }
        let take = Take {
            lane,
            member: demand.member,
            mode: demand.mode,
            max: demand.max,
            lock_ms: demand.lock_ms,
            waits: true,
        };
        let may = self.check_waiting(now, ticket);
        let taken = match self.take(now, id, part, take, may, fx) {
            Ok(taken) if taken.is_empty() => return self.nothing_for_one(id, part, lane),
            Ok(taken) => taken,
            Err(refusal) => {
                self.withdraw(ticket);
                refuse(ticket, refusal, fx);
                return Served::Something;
            }
        };
        self.withdraw(ticket);
        let barrier = match demand.mode {
            ReceiveMode::PeekLock => Barrier::Appended,
            ReceiveMode::ReceiveAndDelete => Barrier::Durable,
        };
        if let Some(kept) = deliveries(id, part, &taken) {
            self.keep(now, demand.member, demand.number, RequestNumber(0), kept, fx);
        }
        fx.answers.push(Answer { ticket, result: Ok(Outcome::Received(taken)), barrier });
        Served::Something
    }

    /// There was nothing for one who waits: whether there may be for the next.
    fn nothing_for_one(&self, id: QueueId, part: Part, lane: LaneId) -> Served {
        let Some(queue) = self.queues.get(&id) else { return Served::Nobody };
        let is_empty = queue.shelf(part).ready.first(lane).is_none() && !self.suspects.wait_in(id);
        if is_empty || (self.suspects.is_idle() && !queue.outage.is_on()) {
            Served::Nobody
        } else {
            Served::NotThisOne
        }
    }

    /// Serves everybody who waits for anything in a queue.
    pub(super) fn serve_all(&mut self, now: Now, id: QueueId, fx: &mut Effects) {
        for part in [Part::Main, Part::Dead] {
            let Some(queue) = self.queues.get(&id) else { return };
            let lanes: BTreeSet<(QueueId, Part, LaneId)> =
                queue.shelf(part).demands.keys().map(|(lane, _)| (id, part, *lane)).collect();
            self.serve_lanes(now, lanes, fx);
        }
        self.serve_accepts(now, id, fx);
    }
}
