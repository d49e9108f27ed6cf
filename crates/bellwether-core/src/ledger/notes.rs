//! The table of notes: what results and claims have in common ([`crate::note`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::change::{Change, Departure};
use crate::content::ContentId;
use crate::error::Refusal;
use crate::limits;
use crate::message::{Message, State};
use crate::name::{MemberSlot, Part, RequestNumber, Ticket};
use crate::note::{Note, NoteKind, NoteName, NoteState};
use crate::time::{BootTime, Now, WallTime};

use super::{Effects, Ledger, Timer};

/// All notes. Their numbers are of this life.
#[derive(Debug, Default)]
pub(super) struct Notes {
    ids: BTreeMap<NoteName, u64>,
    by_id: BTreeMap<u64, (NoteName, Note)>,
    last: u64,
    /// Results that may still change, by the content of their message.
    awaited: BTreeMap<ContentId, u64>,
    /// Of these, those whose message has left in this step, and how they stand for it.
    bereft: Vec<(u64, NoteState)>,
    /// Who waits for which result.
    pub(super) waits: BTreeMap<Ticket, Waiting>,
    waits_for: BTreeSet<(u64, Ticket)>,
}

/// One who waits for a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) note: u64,
    pub(super) member: MemberSlot,
    pub(super) number: RequestNumber,
    pub(super) until: BootTime,
}

impl Notes {
    pub(super) fn len(&self) -> u64 {
        self.by_id.len() as u64
    }

    pub(super) fn id(&self, name: &NoteName) -> Option<u64> {
        self.ids.get(name).copied()
    }

    pub(super) fn get(&self, id: u64) -> Option<&(NoteName, Note)> {
        self.by_id.get(&id)
    }

    /// From a number on.
    pub(super) fn from(&self, id: u64) -> impl Iterator<Item = (u64, &(NoteName, Note))> {
        self.by_id.range(id..).map(|(id, entry)| (*id, entry))
    }

    pub(super) fn wait(&mut self, ticket: Ticket, waiting: Waiting) {
        self.waits_for.insert((waiting.note, ticket));
        self.waits.insert(ticket, waiting);
    }

    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Waiting> {
        let waiting = self.waits.remove(&ticket)?;
        self.waits_for.remove(&(waiting.note, ticket));
        Some(waiting)
    }

    pub(super) fn waiting_for(&self, id: u64) -> Vec<Ticket> {
        let range = (id, Ticket(0))..=(id, Ticket(u64::MAX));
        self.waits_for.range(range).map(|(_, ticket)| *ticket).collect()
    }

    fn await_message(&mut self, id: u64, note: &Note) {
        if note.message.0 == 0 {
            return;
        }
        if note.state.is_final() {
            self.awaited.remove(&note.message);
        } else {
            self.awaited.insert(note.message, id);
        }
    }
}

impl Ledger {
    /// The note of that name, unless its time is over.
    pub(super) fn note(&self, now: Now, name: &NoteName) -> Option<&Note> {
        let (_, note) = self.notes.get(self.notes.id(name)?)?;
        (note.expires_at() > now.wall).then_some(note)
    }

    /// Whether there is room for so many more.
    pub(super) fn check_note_room(&self, more: u64) -> Result<(), Refusal> {
        if self.notes.len() + more > limits::NOTES_MAX {
            return Err(Refusal::TooMany { what: "results and claims", max: limits::NOTES_MAX });
        }
        if self.memory_bytes() + more * limits::NOTE_MEMORY_BYTES > self.memory_bytes_max {
            return Err(Refusal::Busy { retry_after_ms: 100 });
        }
        Ok(())
    }

    pub(super) fn set_note(&mut self, name: &NoteName, note: &Note, fx: &mut Effects) {
        let notes = &mut self.notes;
        let id = notes.id(name).unwrap_or_else(|| {
            notes.last += 1;
            notes.ids.insert(name.clone(), notes.last);
            notes.last
        });
        let old = notes.by_id.insert(id, (name.clone(), note.clone())).map(|(_, old)| old);
        if !self.live {
            return;
        }
        self.contents.hold(note.content);
        if let Some(old) = old {
            self.contents.let_go(old.content, &mut fx.dropped);
            self.timers.wall.remove(&(old.expires_at(), Timer::Note(id)));
            self.notes.awaited.remove(&old.message);
        }
        self.timers.wall.insert((note.expires_at(), Timer::Note(id)));
        self.notes.await_message(id, note);
    }

    pub(super) fn set_note_gone(&mut self, name: &NoteName, fx: &mut Effects) {
        let Some(id) = self.notes.ids.remove(name) else { return };
        let Some((_, note)) = self.notes.by_id.remove(&id) else { return };
        if !self.live {
            return;
        }
        self.contents.let_go(note.content, &mut fx.dropped);
        self.timers.wall.remove(&(note.expires_at(), Timer::Note(id)));
        self.notes.awaited.remove(&note.message);
    }

    /// Derives what is not journaled, and gives every holder a full lock.
    pub(super) fn start_notes(&mut self, now: Now) {
        let ids: Vec<u64> = self.notes.by_id.keys().copied().collect();
        for id in ids {
            let Some((_, note)) = self.notes.by_id.get_mut(&id) else { continue };
            if let NoteState::Held(hold) = &mut note.state {
                hold.until = now.boot.plus_ms(hold.lock_ms.into());
            }
            let note = note.clone();
            self.contents.hold(note.content);
            self.timers.wall.insert((note.expires_at(), Timer::Note(id)));
            self.notes.await_message(id, &note);
        }
    }

    /// Its time is over: whoever waits for it hears that there is none.
    pub(super) fn note_fired(&mut self, now: Now, id: u64, fx: &mut Effects) {
        let Some((name, _)) = self.notes.get(id).cloned() else { return };
        self.tell_none(id, fx);
        self.emit(now, Change::NoteGone { name }, fx);
    }

    /// A message has left: if somebody waits for its result, that stands otherwise from here on,
    /// unless this very step says what came of it.
    pub(super) fn message_left(&mut self, part: Part, message: &Message, why: Departure) {
        if self.notes.awaited.is_empty() {
            return;
        }
        let Some(id) = self.notes.awaited.get(&message.content).copied() else { return };
        let is_locked = matches!(message.standing.state, State::Locked(_));
        let state = match why {
            // Received and deleted: whoever has it may still say.
            Departure::Completed if !is_locked || part == Part::Dead => return,
            Departure::Completed => NoteState::Succeeded,
            Departure::Expired
            | Departure::Purged
            | Departure::Cancelled
            | Departure::Shed
            | Departure::DeadLettered => NoteState::Gone,
            Departure::Forwarded | Departure::Moved => return,
        };
        self.notes.bereft.push((id, state));
    }

    /// The step is over: results whose message left without one say so.
    pub(super) fn settle_notes(&mut self, now: Now, fx: &mut Effects) {
        if self.notes.bereft.is_empty() {
            return;
        }
        for (id, state) in std::mem::take(&mut self.notes.bereft) {
            let Some((name, note)) = self.notes.get(id).cloned() else { continue };
            if !note.state.is_over() {
                let note = Note { state, updated_at: now.wall, ..note };
                self.put_result(now, id, name, note, fx);
            }
        }
    }
}

/// How long a note may be kept.
pub(super) fn check_ttl(ttl_ms: u64) -> Result<(), Refusal> {
    if (1..=limits::NOTE_TTL_MS_MAX).contains(&ttl_ms) {
        return Ok(());
    }
    let why = format!("it is kept for 1 to {} ms, not {ttl_ms}", limits::NOTE_TTL_MS_MAX);
    Err(Refusal::InvalidValue { what: "ttl_ms", why })
}

/// A note that is just begun.
pub(super) fn begun(now: WallTime, state: NoteState, ttl_ms: u64) -> Note {
    Note {
        state,
        content: ContentId(0),
        message: ContentId(0),
        hash: 0,
        created_at: now,
        updated_at: now,
        ttl_ms,
    }
}

/// What the result of a message is called.
pub(super) fn result_name(of: &crate::name::QueueName, key: &crate::name::NoteKey) -> NoteName {
    NoteName { kind: NoteKind::Result, of: of.clone(), key: key.clone() }
}

/// What a claim is called.
pub(super) fn claim_name(of: &crate::name::QueueName, key: &crate::name::NoteKey) -> NoteName {
    NoteName { kind: NoteKind::Claim, of: of.clone(), key: key.clone() }
}
