//! The auditor: looks at all messages of all queues in one moment.

use bellwether::engine::Reply;
use bellwether_core::message::{MessageView, Reason, State};
use bellwether_core::name::{LockToken, Part};
use bellwether_core::outcome::Outcome;

use super::Boundary;
use crate::bus::Bus;
use crate::history::{Body, Queue, Seen, Spot, Stands, Token, What};

/// One look of the auditor, under way.
#[derive(Debug)]
pub(super) struct Audit {
    as_of: u64,
    begun_ms: u64,
    parts_missing: usize,
    messages: Vec<Seen>,
    on_their_way: u64,
}

impl Boundary {
    /// The auditor begins a look that consists of so many parts.
    pub(crate) fn begin_audit(&mut self, bus: &Bus, audit: u64, parts: usize) {
        let as_of = bus.history.len();
        let begun_ms = bus.now_ms();
        let begun =
            Audit { as_of, begun_ms, parts_missing: parts, messages: Vec::new(), on_their_way: 0 };
        self.audits.insert(audit, begun);
    }

    /// The body of a message; what its receivers wrote beside it is only looked at.
    pub(super) fn body<'a>(
        &self,
        view: &MessageView,
        contents: &mut impl Iterator<Item = &'a Result<bytes::Bytes, String>>,
    ) -> Body {
        let mut mine = contents.by_ref().take(view.contents().count());
        let body = mine.next().map_or(Body::Wrong("none".into()), |c| self.bodies.tell(c));
        match mine.next() {
            Some(Err(why)) => Body::Unreadable(why.clone()),
            _ => body,
        }
    }

    pub(super) fn audited(
        &mut self,
        bus: &mut Bus,
        audit: u64,
        queue: Queue,
        part: Option<Part>,
        reply: Option<&Reply>,
    ) {
        let Some(under_way) = self.audits.get_mut(&audit) else { return };
        let as_of = under_way.as_of;
        under_way.parts_missing -= 1;
        let outcome = reply.map(|reply| &reply.outcome);
        if let Some(Outcome::Queue(info)) = outcome {
            let (counts, totals) = (info.counts, info.totals);
            under_way.on_their_way += counts.ready + counts.locked + counts.scheduled;
            bus.record(What::Counted { as_of, queue, counts, totals });
            Self::settings_seen(bus, queue, &info.settings, as_of);
        }
        if let (Some(Outcome::Peeked(views)), Some(part)) = (outcome, part) {
            let mut contents = reply.into_iter().flat_map(|reply| &reply.contents);
            let mut seen = Vec::with_capacity(views.len());
            for view in views {
                let standing = view.message.standing;
                let spot = Spot { queue, part, sequence: view.sequence.0 };
                let lock = |lock: LockToken| Token {
                    spot,
                    number: lock.number.0,
                    incarnation: lock.incarnation.0,
                };
                seen.push(Seen {
                    spot,
                    lock: view.token().map(lock),
                    body: self.body(view, &mut contents),
                    origin: view.message.origin.0,
                    stands: match standing.state {
                        State::Ready => Stands::Ready,
                        State::Locked(_) => Stands::Locked,
                        State::Scheduled { .. } | State::Delayed { .. } => Stands::Later,
                        State::Deferred => Stands::Deferred,
                    },
                    counted: standing.deliveries,
                    too_often: standing.reason == Reason::MaxDeliveryCountExceeded,
                    convicted: standing.reason == Reason::ConsumerCrashed,
                });
            }
            if let Some(under_way) = self.audits.get_mut(&audit) {
                under_way.messages.append(&mut seen);
            }
        }
        if self.audits.get(&audit).is_some_and(|under_way| under_way.parts_missing == 0) {
            let Some(done) = self.audits.remove(&audit) else { return };
            bus.backlog = done.on_their_way;
            bus.stats.audits += 1;
            let messages = done.messages;
            self.last_audit = Some((done.begun_ms, messages.clone()));
            bus.record(What::Audited { as_of, messages });
        }
    }
}
