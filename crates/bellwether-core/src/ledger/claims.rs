//! Claims: of all who want to do a piece of work, one does it, and the others hear what came of it.

use crate::change::Change;
use crate::command::NewContent;
use crate::content::ContentId;
use crate::error::Refusal;
use crate::limits;
use crate::name::{DeliveryNumber, MemberSlot, NoteKey, QueueName};
use crate::note::{ClaimHold, ClaimToken, Claimed, Note, NoteName, NoteState};
use crate::outcome::Outcome;
use crate::time::Now;

use super::notes::{begun, check_ttl, claim_name};
use super::results::check_content;
use super::{Effects, Ledger};

/// What is to be done, as whoever claims it says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) hash: u128,
    pub(super) lock_ms: u32,
    pub(super) ttl_ms: u64,
}

impl Ledger {
    pub(super) fn claim(
        &mut self,
        now: Now,
        member: MemberSlot,
        scope: &QueueName,
        key: &NoteKey,
        terms: Terms,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let Terms { hash, lock_ms, ttl_ms } = terms;
        if member.0 == 0 {
            return Err(Refusal::MemberGone);
        }
        if !(limits::LOCK_MS_MIN..=limits::LOCK_MS_MAX).contains(&lock_ms) {
            let (min, max) = (limits::LOCK_MS_MIN, limits::LOCK_MS_MAX);
            let why = format!("a claim is held for {min} to {max} ms, not {lock_ms}");
            return Err(Refusal::InvalidValue { what: "lock_ms", why });
        }
        check_ttl(ttl_ms)?;
        let name = claim_name(scope, key);
        let old = self.note(now, &name).cloned();
        if let Some(old) = &old
            && let Some(answer) = self.taken(now, old, hash)
        {
            return Ok(Outcome::Claimed(answer));
        }
        if self.disk_full {
            return Err(Refusal::DiskFull);
        }
        if old.is_none() {
            self.check_note_room(1)?;
        }
        self.claims = self.claims.wrapping_add(1);
        let (number, incarnation) = (DeliveryNumber(self.claims), self.incarnation);
        let token = ClaimToken { number, incarnation };
        let until = now.boot.plus_ms(lock_ms.into());
        let state = NoteState::Held(ClaimHold { token, member, lock_ms, until });
        let taken_over = old.is_some();
        let old = old.unwrap_or_else(|| begun(now.wall, state, ttl_ms));
        let hash = if hash == 0 { old.hash } else { hash };
        let note = Note { state, hash, updated_at: now.wall, ttl_ms, ..old };
        self.emit(now, Change::Note { name, note: Box::new(note) }, fx);
        Ok(Outcome::Claimed(Claimed::Granted { token, taken_over }))
    }

    /// Why a claim cannot be had, if it cannot.
    fn taken(&self, now: Now, note: &Note, hash: u128) -> Option<Claimed> {
        if hash != 0 && note.hash != 0 && hash != note.hash {
            return Some(Claimed::Conflict);
        }
        let NoteState::Held(hold) = note.state else {
            let (at, content) = (note.updated_at, note.content);
            let place = self.contents.place(content).unwrap_or_default();
            return Some(Claimed::Done { at, content, place });
        };
        #[cfg(not(planted_bug = "claim_taken_from_the_living"))]
        let remaining_ms = now.boot.ms_until(hold.until);
        #[cfg(planted_bug = "claim_taken_from_the_living")]
        let remaining_ms = now.boot.ms_until(hold.until).saturating_sub(50);
        let by = self.member_id(hold.member);
        (remaining_ms > 0).then_some(Claimed::InProgress { by, remaining_ms })
    }

    /// Whether the token's claim stands. It may be late: as long as nobody took it over.
    pub(super) fn check_claim(
        &self,
        now: Now,
        name: &NoteName,
        token: ClaimToken,
        content: Option<NewContent>,
    ) -> Result<(), Refusal> {
        let state = self.note(now, name).map(|note| note.state);
        if !matches!(state, Some(NoteState::Held(hold)) if hold.token == token) {
            return Err(claim_lost(name));
        }
        check_content("what came of a claim", content)
    }

    /// The work is done, and this came of it.
    pub(super) fn finish(
        &mut self,
        now: Now,
        name: &NoteName,
        content: Option<NewContent>,
        fx: &mut Effects,
    ) {
        let Some(old) = self.note(now, name).cloned() else { return };
        let content = content.map_or(ContentId(0), |new| self.add_content(now, new, fx));
        let note = Note { state: NoteState::Done, content, updated_at: now.wall, ..old };
        self.emit(now, Change::Note { name: name.clone(), note: Box::new(note) }, fx);
    }
}

pub(super) fn claim_lost(name: &NoteName) -> Refusal {
    Refusal::ClaimLost { scope: name.of.clone(), key: name.key.clone() }
}
