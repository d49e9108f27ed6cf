//! Results: asked for with a message, written with its completion, waited for.

use crate::change::Change;
use crate::command::{NewContent, Request};
use crate::content::ContentId;
use crate::error::Refusal;
use crate::limits;
use crate::name::{NoteKey, QueueName, Ticket};
use crate::note::{Note, NoteName, NoteState, Report, ResultInfo};
use crate::outcome::{Answer, Barrier, Outcome};
use crate::time::Now;

use super::notes::{Waiting, begun, check_ttl, result_name};
use super::{Effects, Ledger, Waits};

impl Ledger {
    /// A result is awaited for the message with this content.
    pub(super) fn expect_result(
        &mut self,
        now: Now,
        name: &NoteName,
        message: ContentId,
        ttl_ms: u64,
        fx: &mut Effects,
    ) {
        let note = Note { message, ..begun(now.wall, NoteState::Pending, ttl_ms) };
        self.emit(now, Change::Note { name: name.clone(), note: Box::new(note) }, fx);
    }

    /// Writes a result, with its content, in one change: nobody reads half of it. A final one stays
    /// as it is, and one that nobody asked for is not kept unless it says for how long.
    pub(super) fn write_result(
        &mut self,
        now: Now,
        name: &NoteName,
        report: Report,
        content: Option<NewContent>,
        ttl_ms: Option<u64>,
        fx: &mut Effects,
    ) {
        let old = self.note(now, name).cloned();
        let old = old.or_else(|| Some(begun(now.wall, NoteState::Pending, ttl_ms?)));
        #[cfg(not(planted_bug = "result_written_twice"))]
        let old = old.filter(|note| !note.state.is_final());
        let Some(old) = old else { return };
        let state = match report {
            Report::Running { percent } => NoteState::Running { percent },
            Report::Succeeded => NoteState::Succeeded,
            Report::Failed => NoteState::Failed,
        };
        let content = content.map_or(ContentId(0), |new| self.add_content(now, new, fx));
        let note = Note { state, content, updated_at: now.wall, ..old };
        // One whose time is over may still be there: it is another one.
        let id = self.notes.id(name);
        match id {
            Some(id) => self.put_result(now, id, name.clone(), note, fx),
            None => self.emit(now, Change::Note { name: name.clone(), note: Box::new(note) }, fx),
        }
    }

    /// Sets a result that is there, and tells those who wait for it.
    pub(super) fn put_result(
        &mut self,
        now: Now,
        id: u64,
        name: NoteName,
        note: Note,
        fx: &mut Effects,
    ) {
        let is_over = note.state.is_over();
        self.emit(now, Change::Note { name, note: Box::new(note) }, fx);
        if is_over {
            let outcome = self.result_info(id);
            self.tell(id, &outcome, fx);
        }
    }

    fn result_info(&self, id: u64) -> Outcome {
        let info = self.notes.get(id).map(|(_, note)| {
            Box::new(ResultInfo {
                state: note.state,
                created_at: note.created_at,
                updated_at: note.updated_at,
                expires_at: note.expires_at(),
                content: note.content,
                place: self.contents.place(note.content).unwrap_or_default(),
            })
        });
        Outcome::Result(info)
    }

    fn tell(&mut self, id: u64, outcome: &Outcome, fx: &mut Effects) {
        for ticket in self.notes.waiting_for(id) {
            self.withdraw(ticket);
            let (result, barrier) = (Ok(outcome.clone()), Barrier::Durable);
            fx.answers.push(Answer { ticket, result, barrier });
        }
    }

    /// Those who wait hear that there is none any more.
    pub(super) fn tell_none(&mut self, id: u64, fx: &mut Effects) {
        self.tell(id, &Outcome::Result(None), fx);
    }

    pub(super) fn get_result(
        &mut self,
        now: Now,
        ticket: Ticket,
        request: &Request,
        queue: &QueueName,
        key: &NoteKey,
        wait_ms: u64,
    ) -> Option<Outcome> {
        let name = result_name(queue, key);
        let Some(note) = self.note(now, &name) else { return Some(Outcome::Result(None)) };
        let is_over = note.state.is_over();
        let id = self.notes.id(&name)?;
        if is_over || wait_ms == 0 {
            return Some(self.result_info(id));
        }
        let until = now.boot.plus_ms(wait_ms.min(limits::WAIT_MS_MAX));
        let (member, number) = (request.member, request.number);
        self.notes.wait(ticket, Waiting { note: id, member, number, until });
        self.wait(ticket, request, until, Waits::Result(id));
        None
    }

    /// The wait is over, the result is not.
    pub(super) fn result_so_far(&self, now: Now, id: u64) -> Outcome {
        let is_kept = self.notes.get(id).is_some_and(|(_, note)| note.expires_at() > now.wall);
        if is_kept { self.result_info(id) } else { Outcome::Result(None) }
    }
}

/// Whether a content is not too large.
pub(super) fn check_content(
    what: &'static str,
    content: Option<NewContent>,
) -> Result<(), Refusal> {
    let bytes_max = limits::CONTENT_BYTES_MAX;
    match content {
        Some(new) if new.bytes > bytes_max => {
            let (bytes, bytes_max) = (new.bytes.into(), bytes_max.into());
            Err(Refusal::TooLarge { what, bytes, bytes_max })
        }
        _ => Ok(()),
    }
}

/// Whether a result can be written so. How long it is kept is said of one that is not there.
pub(super) fn check_report(
    report: Report,
    content: Option<NewContent>,
    ttl_ms: Option<u64>,
) -> Result<(), Refusal> {
    if let Report::Running { percent: Some(percent) } = report
        && percent > 100
    {
        let why = format!("there are 100 in a hundred, not {percent}");
        return Err(Refusal::InvalidValue { what: "percent", why });
    }
    check_content("a result", content)?;
    ttl_ms.map_or(Ok(()), check_ttl)
}
