//! Importing: messages that lived in another store go on here.
//!
//! They get new numbers, because numbers are this queue's; everything else is as it was: times,
//! counts, state, reason. A queue's status does not forbid it: a paused queue is imported paused.

use crate::change::Change;
use crate::command::{Imported, NewContent, Resting};
use crate::error::Refusal;
use crate::limits;
use crate::message::{Message, Reason, Standing, State};
use crate::name::{At, Part, QueueId, QueuePath};
use crate::outcome::{Outcome, Sequences};
use crate::queue::Queue;
use crate::time::Now;

use super::send::check_keys;
use super::{Effects, Ledger, check_count};

impl Ledger {
    pub(super) fn import(
        &mut self,
        now: Now,
        to: &QueuePath,
        messages: &[Imported],
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(&to.queue)?;
        self.check_import(queue, to.part, messages)?;
        let (id, window) = (queue.id, queue.settings.duplicate_window_ms);
        let forwards = queue.settings.forward_to.is_some() && to.part == Part::Main;
        self.touch_queue(now, id);
        let mut numbers = Vec::with_capacity(messages.len());
        for imported in messages {
            if window.is_some() && imported.id_hash != 0 {
                let seen = Change::Seen { queue: id, id_hash: imported.id_hash, at: now.wall };
                self.emit(now, seen, fx);
            }
            let at = self.put_imported(now, id, to.part, imported, fx);
            numbers.push(at.sequence);
            if forwards && imported.state == Resting::Ready {
                self.forward(now, at, fx);
            }
        }
        Ok(Outcome::Sent(Sequences::List(numbers)))
    }

    fn check_import(
        &self,
        queue: &Queue,
        part: Part,
        messages: &[Imported],
    ) -> Result<(), Refusal> {
        check_count("messages in one send", messages.len())?;
        if self.disk_full {
            return Err(Refusal::DiskFull);
        }
        let wrong = |why: &str| Refusal::InvalidValue { what: "messages", why: why.into() };
        let mut bytes = 0;
        for imported in messages {
            let content_bytes = imported.content.bytes;
            bytes += u64::from(content_bytes);
            bytes += imported.overlay.map_or(0, |overlay| u64::from(overlay.bytes));
            if content_bytes > queue.settings.message_bytes_max {
                return Err(Refusal::TooLarge {
                    what: "a message, properties included,",
                    bytes: content_bytes.into(),
                    bytes_max: queue.settings.message_bytes_max.into(),
                });
            }
            if queue.has_lanes(part) && imported.session.is_none() {
                return Err(Refusal::SessionRequired(queue.name.clone()));
            }
            if part == Part::Dead && matches!(imported.state, Resting::Scheduled { .. }) {
                return Err(wrong("a dead letter is not scheduled"));
            }
            if part == Part::Dead && imported.reason == Reason::None {
                return Err(wrong("a dead letter has a reason"));
            }
            imported.rank.check()?;
        }
        check_keys(queue, messages.iter().map(|imported| &imported.rank))?;
        let named = messages.iter().filter_map(|imported| imported.session.as_ref());
        self.check_sessions(queue, named, 0)?;
        if bytes > limits::COMMAND_BYTES_MAX {
            let bytes_max = limits::COMMAND_BYTES_MAX;
            return Err(Refusal::TooLarge { what: "one send", bytes, bytes_max });
        }
        if queue.size_bytes + bytes > queue.settings.size_bytes_max {
            let (queue, size_bytes_max) = (queue.name.clone(), queue.settings.size_bytes_max);
            return Err(Refusal::QueueFull { queue, size_bytes_max });
        }
        let added = messages.len() as u64 * limits::MESSAGE_MEMORY_BYTES;
        if self.memory_bytes() + added > self.memory_bytes_max {
            return Err(Refusal::Busy { retry_after_ms: 100 });
        }
        Ok(())
    }

    fn put_imported(
        &mut self,
        now: Now,
        id: QueueId,
        part: Part,
        imported: &Imported,
        fx: &mut Effects,
    ) -> At {
        let NewContent { index, bytes: len } = imported.content;
        let content = self.contents.next_id();
        self.emit(now, Change::Content { id: content, index, len }, fx);
        let overlay = imported.overlay.map(|new| self.add_content(now, new, fx));
        let sequence = self.queues[&id].next_sequence();
        let message = Message {
            content,
            enqueued_at: imported.enqueued_at,
            expires_at: imported.expires_at,
            origin: sequence,
            mark: 0,
            source: if part == Part::Dead { id } else { QueueId(0) },
            standing: Standing {
                deliveries: imported.deliveries,
                failures: imported.failures,
                crashes: imported.crashes,
                releases: imported.releases,
                reason: imported.reason,
                overlay: overlay.unwrap_or_default(),
                ..Standing::new(imported.state.into())
            },
        };
        let at = At { queue: id, part, sequence };
        let (session, rank) = (imported.session.clone(), imported.rank.clone());
        self.emit(now, Change::Message { at, message, session, rank, arrived: true }, fx);
        at
    }
}

impl From<Resting> for State {
    fn from(resting: Resting) -> Self {
        match resting {
            Resting::Ready => Self::Ready,
            Resting::Scheduled { due } => Self::Scheduled { due },
            Resting::Delayed { due } => Self::Delayed { due },
            Resting::Deferred => Self::Deferred,
        }
    }
}
