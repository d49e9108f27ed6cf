//! Results and claims.

use bellwether_core::command::{NewContent, Request};
use bellwether_core::content::{ContentId, Place};
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::message::NewMessage;
use bellwether_core::name::{DeliveryNumber, Incarnation, MemberSlot, NoteKey, QueueName, Ticket};
use bellwether_core::note::{
    ClaimHold, ClaimToken, Claimed, NoteKind, NoteName, NoteState, Report, ResultInfo,
};
use bellwether_core::outcome::{Outcome, Sequences};
use bellwether_core::time::WallTime;

use super::{ForWhat, Naive};

#[derive(Clone)]
pub struct Note {
    pub name: NoteName,
    pub state: NoteState,
    pub bytes: Option<u32>,
    /// The content of its message; zero for none.
    pub message: u64,
    pub hash: u128,
    pub created_at: WallTime,
    pub updated_at: WallTime,
    pub ttl_ms: u64,
}

impl Note {
    pub fn expires_at(&self) -> WallTime {
        self.updated_at.plus_ms(self.ttl_ms)
    }
}

fn named(kind: NoteKind, of: &QueueName, key: &NoteKey) -> NoteName {
    NoteName { kind, of: of.clone(), key: key.clone() }
}

pub fn check_ttl(ttl_ms: u64) -> Result<(), Refusal> {
    if ttl_ms == 0 || ttl_ms > limits::NOTE_TTL_MS_MAX {
        return Err(Refusal::InvalidValue { what: "ttl_ms", why: String::new() });
    }
    Ok(())
}

impl Naive {
    /// Where the note is, if its time is not over.
    fn note(&self, name: &NoteName) -> Option<usize> {
        let is_it = |note: &Note| note.name == *name && note.expires_at() > self.now.wall;
        self.notes.iter().position(is_it)
    }

    fn begin(&mut self, name: NoteName, state: NoteState, ttl_ms: u64) -> usize {
        let now = self.now.wall;
        self.notes.retain(|note| note.name != name);
        self.notes.push(Note {
            name,
            state,
            bytes: None,
            message: 0,
            hash: 0,
            created_at: now,
            updated_at: now,
            ttl_ms,
        });
        self.notes.len() - 1
    }

    pub fn note_bytes(&self) -> u64 {
        self.notes.iter().map(|note| u64::from(note.bytes.unwrap_or(0))).sum()
    }

    pub fn result_names(&self) -> Vec<NoteName> {
        let results = self.notes.iter().filter(|note| note.name.kind == NoteKind::Result);
        results.map(|note| note.name.clone()).collect()
    }

    pub fn all_claims(&self) -> Vec<(QueueName, NoteKey, ClaimToken)> {
        let held = self.notes.iter().filter_map(|note| match note.state {
            NoteState::Held(hold) => {
                Some((note.name.of.clone(), note.name.key.clone(), hold.token))
            }
            _ => None,
        });
        held.collect()
    }

    /// Results whose message left in this step without one.
    pub fn bereave(&mut self) {
        for (content, state) in std::mem::take(&mut self.left) {
            let now = self.now.wall;
            let awaited = |note: &&mut Note| note.message == content && content != 0;
            if let Some(note) = self.notes.iter_mut().find(awaited)
                && !note.state.is_over()
            {
                note.state = state;
                note.updated_at = now;
            }
        }
    }

    pub fn has_result(&self, q: usize, key: &NoteKey) -> bool {
        self.note(&named(NoteKind::Result, &self.queues[q].name, key)).is_some()
    }

    pub fn expect_result(&mut self, q: usize, key: &NoteKey, message: u64, ttl_ms: u64) {
        let name = named(NoteKind::Result, &self.queues[q].name, key);
        let at = self.begin(name, NoteState::Pending, ttl_ms);
        self.notes[at].message = message;
    }

    pub fn request(&mut self, q: usize, new: &NewMessage, key: &NoteKey, ttl_ms: u64) -> Sequences {
        if self.has_result(q, key) {
            return Sequences::List(vec![bellwether_core::name::SequenceNumber(0)]);
        }
        let numbers = self.put(q, std::slice::from_ref(new));
        let is_sent = numbers.iter().any(|number| number.0 != 0);
        let message = if is_sent { self.contents_ever } else { 0 };
        self.expect_result(q, key, message, ttl_ms);
        numbers
    }

    pub fn check_report(
        &self,
        queue: &QueueName,
        key: &NoteKey,
        report: Report,
        ttl_ms: Option<u64>,
    ) -> Result<(), Refusal> {
        if matches!(report, Report::Running { percent: Some(101..) }) {
            return Err(Refusal::InvalidValue { what: "percent", why: String::new() });
        }
        let is_there = self.note(&named(NoteKind::Result, queue, key)).is_some();
        ttl_ms.filter(|_| !is_there).map_or(Ok(()), check_ttl)
    }

    pub fn write_result(
        &mut self,
        queue: &QueueName,
        key: &NoteKey,
        report: Report,
        content: Option<NewContent>,
        ttl_ms: Option<u64>,
    ) {
        let name = named(NoteKind::Result, queue, key);
        let at = match (self.note(&name), ttl_ms) {
            (Some(at), _) => at,
            (None, Some(ttl_ms)) => self.begin(name, NoteState::Pending, ttl_ms),
            (None, None) => return,
        };
        let note = &mut self.notes[at];
        if matches!(note.state, NoteState::Succeeded | NoteState::Failed) {
            return;
        }
        note.state = match report {
            Report::Running { percent } => NoteState::Running { percent },
            Report::Succeeded => NoteState::Succeeded,
            Report::Failed => NoteState::Failed,
        };
        note.bytes = content.map(|new| new.bytes);
        note.updated_at = self.now.wall;
    }

    pub fn result(&self, name: &NoteName) -> Outcome {
        Outcome::Result(self.note(name).map(|at| {
            let note = &self.notes[at];
            Box::new(ResultInfo {
                state: note.state,
                created_at: note.created_at,
                updated_at: note.updated_at,
                expires_at: note.expires_at(),
                content: ContentId(u64::from(note.bytes.is_some())),
                place: Place::default(),
            })
        }))
    }

    pub fn get_result(
        &mut self,
        ticket: Ticket,
        request: &Request,
        queue: &QueueName,
        key: &NoteKey,
        wait_ms: u64,
    ) -> Option<Outcome> {
        let name = named(NoteKind::Result, queue, key);
        let is_over = self.note(&name).is_none_or(|at| self.notes[at].state.is_over());
        if is_over || wait_ms == 0 {
            return Some(self.result(&name));
        }
        self.wait(ticket, request, wait_ms, ForWhat::Result(name));
        None
    }

    /// Somebody waits for a result: is it over, or forgotten?
    pub fn serve_result(&mut self, ticket: Ticket, name: &NoteName) -> bool {
        // Whoever waits is told when it is forgotten, not when it could be.
        let note = self.notes.iter().find(|note| note.name == *name);
        let is_over = note.is_none_or(|note| note.state.is_over());
        if is_over {
            let outcome = self.result(name);
            self.answer_wait(ticket, Ok(outcome));
        }
        is_over
    }

    pub fn claim(
        &mut self,
        member: u32,
        scope: &QueueName,
        key: &NoteKey,
        hash: u128,
        lock_ms: u32,
        ttl_ms: u64,
    ) -> Result<Outcome, Refusal> {
        if member == 0 {
            return Err(Refusal::MemberGone);
        }
        if !(limits::LOCK_MS_MIN..=limits::LOCK_MS_MAX).contains(&lock_ms) {
            return Err(Refusal::InvalidValue { what: "lock_ms", why: String::new() });
        }
        check_ttl(ttl_ms)?;
        let name = named(NoteKind::Claim, scope, key);
        let found = self.note(&name);
        if let Some(note) = found.map(|at| &self.notes[at]) {
            if hash != 0 && note.hash != 0 && hash != note.hash {
                return Ok(Outcome::Claimed(Claimed::Conflict));
            }
            match note.state {
                NoteState::Held(hold) if hold.until > self.now.boot => {
                    let by = self.members.iter().find(|m| m.slot == hold.member.0).map(|m| m.id);
                    let remaining_ms = self.now.boot.ms_until(hold.until);
                    return Ok(Outcome::Claimed(Claimed::InProgress { by, remaining_ms }));
                }
                NoteState::Held(_) => {}
                _ => {
                    let content = ContentId(u64::from(note.bytes.is_some()));
                    let (at, place) = (note.updated_at, Place::default());
                    return Ok(Outcome::Claimed(Claimed::Done { at, content, place }));
                }
            }
        }
        self.claims += 1;
        let token = ClaimToken {
            number: DeliveryNumber(self.claims),
            incarnation: Incarnation(self.incarnation),
        };
        let until = self.now.boot.plus_ms(lock_ms.into());
        let hold = ClaimHold { token, member: MemberSlot(member), lock_ms, until };
        let state = NoteState::Held(hold);
        let at = found.unwrap_or_else(|| self.begin(name, state, ttl_ms));
        let now = self.now.wall;
        let note = &mut self.notes[at];
        (note.state, note.updated_at, note.ttl_ms) = (state, now, ttl_ms);
        note.hash = if hash == 0 { note.hash } else { hash };
        Ok(Outcome::Claimed(Claimed::Granted { token, taken_over: found.is_some() }))
    }

    pub fn check_claim(
        &self,
        scope: &QueueName,
        key: &NoteKey,
        token: ClaimToken,
    ) -> Result<(), Refusal> {
        let found = self.note(&named(NoteKind::Claim, scope, key));
        match found.map(|at| self.notes[at].state) {
            Some(NoteState::Held(hold)) if hold.token == token => Ok(()),
            _ => Err(Refusal::ClaimLost { scope: scope.clone(), key: key.clone() }),
        }
    }

    pub fn finish(&mut self, scope: &QueueName, key: &NoteKey, content: Option<NewContent>) {
        let at = self.note(&named(NoteKind::Claim, scope, key)).unwrap();
        let note = &mut self.notes[at];
        note.state = NoteState::Done;
        note.bytes = content.map(|new| new.bytes);
        note.updated_at = self.now.wall;
    }

    pub fn give_up(&mut self, scope: &QueueName, key: &NoteKey) {
        let at = self.note(&named(NoteKind::Claim, scope, key)).unwrap();
        self.notes.remove(at);
    }
}
