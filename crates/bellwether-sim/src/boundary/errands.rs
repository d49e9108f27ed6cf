//! What operators and odd clients do, as history: removing, changing settings, session states.

use bellwether::engine::Reply;
use bellwether_core::command::{Command, ReceiveMode, Request};
use bellwether_core::name::SessionToken;
use bellwether_core::outcome::Outcome;
use bellwether_core::settings::{QueueSettings, SettingsPatch};

use super::words::{index, is_relaxed, key, spot};
use super::{Asked, Boundary};
use crate::bus::{Bus, Packet};
use crate::history::{Body, Cell, Queue, What};
use crate::plan::Mood;

fn state(queue: Queue, token: &SessionToken) -> Cell {
    Cell::State { queue, session: index(token.session.as_str()) }
}

/// The value that a change of settings brings; the world changes all of a mood or nothing.
fn mood(patch: &SettingsPatch) -> Option<u64> {
    Some(Mood { lock_ms: patch.lock_ms?, status: patch.status? }.value())
}

impl Boundary {
    pub(super) fn errand_applied(bus: &mut Bus, packet: &Packet, queue: Queue) {
        let request = &packet.call.request;
        let key = key(request);
        match &request.command {
            Command::Receive(receive) if receive.mode == ReceiveMode::ReceiveAndDelete => {
                let max = receive.max.into();
                bus.record(What::RemoveApplied { key, max, remembered: false });
            }
            Command::Purge { max, .. } => {
                let max = (*max).into();
                bus.record(What::RemoveApplied { key, max, remembered: true });
            }
            Command::DeleteQueue { .. } => {
                // Whoever waits in it waits for another one.
                bus.probes.retain(|_, (of, _)| *of != queue.index);
                bus.record(What::DeleteApplied { queue });
            }
            Command::UpdateQueue { patch, .. } => {
                let cell = Cell::Mood { queue };
                if let Some(value) = mood(patch) {
                    bus.record(What::CellApplied { cell, key, value });
                }
            }
            Command::SetSessionState { token, state: new, .. } => {
                let bytes = new.and(packet.call.contents.first());
                let id = bytes.and_then(|bytes| bytes.first_chunk()).copied();
                let value = id.map_or(0, u64::from_le_bytes);
                bus.record(What::CellApplied { cell: state(queue, token), key, value });
            }
            Command::BreakLease { lease, .. } => {
                bus.record(What::BreakApplied { election: index(lease.as_str()) });
            }
            Command::Leave => bus.record(What::LeaveApplied { slot: request.member.0 }),
            _ => {}
        }
    }

    pub(super) fn errand_said(
        &self,
        bus: &mut Bus,
        request: &Request,
        asked: &Asked,
        reply: &Reply,
    ) {
        let (key, queue) = (key(request), asked.queue);
        match (&request.command, &reply.outcome) {
            (Command::Receive(receive), Outcome::Received(views))
                if receive.mode == ReceiveMode::ReceiveAndDelete =>
            {
                let mut contents = reply.contents.iter();
                let known = views.iter().map(|view| {
                    (spot(queue, receive.from.part, view.sequence), self.body(view, &mut contents))
                });
                let known = known.collect();
                let (max, count) = (receive.max.into(), views.len() as u64);
                bus.stats.removed += count;
                let volatile = is_relaxed(&bus.plan, queue);
                bus.record(What::Removed { key, max, count, known, volatile });
            }
            (Command::Purge { max, .. }, Outcome::Count(count)) => {
                bus.stats.removed += count;
                let (max, count) = ((*max).into(), *count);
                let (known, volatile) = (Vec::new(), false);
                bus.record(What::Removed { key, max, count, known, volatile });
            }
            (Command::Redrive { .. }, Outcome::Count(count)) => bus.stats.redriven += count,
            (Command::UpdateQueue { .. }, Outcome::Queue(_)) => {
                bus.record(What::CellSet { cell: Cell::Mood { queue }, key });
            }
            (Command::SetSessionState { token, .. }, Outcome::Done) => {
                bus.record(What::CellSet { cell: state(queue, token), key });
            }
            (Command::GetSessionState { token, .. }, Outcome::SessionState(content, _)) => {
                let value = match reply.contents.first().map(|content| self.bodies.tell(content)) {
                    _ if content.0 == 0 => Some(0),
                    Some(Body::Of(id)) => Some(id),
                    // A call to the disk may have been made to fail just then.
                    Some(Body::Unreadable(_)) => None,
                    Some(Body::Wrong(_)) | None => Some(u64::MAX),
                };
                let (cell, as_of) = (state(queue, token), asked.as_of);
                if let Some(value) = value {
                    bus.record(What::CellRead { cell, value, as_of });
                }
            }
            (Command::Leave, Outcome::Done) => bus.record(What::Left { slot: request.member.0 }),
            _ => {}
        }
    }

    /// The auditor looked at a queue's settings.
    pub(super) fn settings_seen(bus: &mut Bus, queue: Queue, settings: &QueueSettings, as_of: u64) {
        let value = Mood::of(settings).value();
        bus.record(What::CellRead { cell: Cell::Mood { queue }, value, as_of });
    }
}
