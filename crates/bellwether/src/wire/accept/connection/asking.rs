//! Taking asks in: whole, allowed, and as long as there is room.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bellwether_core::codec::Reader;
use bellwether_core::command::Command;
use bellwether_core::error::Refusal;
use bellwether_core::name::Ticket;
use bellwether_core::outcome::Outcome;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Admitted, Asked, Connection};
use crate::engine::ask::Ask;
use crate::engine::content::Unread;
use crate::engine::local::shared::Entered;
use crate::error::Error;
use crate::wire::accept::goodbye;
use crate::wire::call::{get_call, put_answer};
use crate::wire::parts::put_whole;
use crate::wire::{Frame, Goodbye, Kind, Why, WireError};

/// To whoever asks when all together ask too much.
const BUSY: Refusal = Refusal::Busy { retry_after_ms: 100 };

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<'_, S> {
    /// Takes a part of an ask, or all of it. True if there is enough in the inbox for a turn.
    pub(super) fn take_part(&mut self, frame: Frame) -> Result<bool, Goodbye> {
        let number = Reader::new(&frame.body).number().map_err(WireError::of("a part"))?;
        let is_last = frame.kind == Kind::Ask;
        // Whether it belongs to an ask that was refused.
        let is_thrown_away = if is_last {
            self.thrown_away.remove(&number)
        } else {
            self.thrown_away.contains(&number)
        };
        if is_thrown_away {
            return Ok(false);
        }
        match self.parts.take(frame)? {
            Some((number, whole)) => self.ask(number, &whole),
            None => self.make_room(number),
        }
    }

    /// A part of an ask has come. If there is no room for more, the ask is refused.
    fn make_room(&mut self, number: u64) -> Result<bool, Goodbye> {
        if self.share.hold(self.bytes + self.parts.bytes()) {
            return Ok(false);
        }
        self.parts.forget(number);
        self.thrown_away.insert(number);
        if self.thrown_away.len() > self.limits.asks_max as usize {
            return Err(self.too_many_asks());
        }
        self.refuse(number, BUSY);
        Ok(false)
    }

    fn too_many_asks(&self) -> Goodbye {
        goodbye(Why::Limit, format!("more than {} asks without an answer", self.limits.asks_max))
    }

    fn ask(&mut self, number: u64, whole: &[u8]) -> Result<bool, Goodbye> {
        if self.is_over.load(Ordering::Acquire) {
            return Err(goodbye(Why::Done, "the member speaks on another connection by now"));
        }
        let mut call = match get_call(whole) {
            Ok(call) => call,
            // The next frame begins where it should: nobody else is to suffer.
            Err(e) => {
                self.refuse(number, Refusal::InvalidValue { what: "call", why: e.to_string() });
                return Ok(false);
            }
        };
        if matches!(call.request.command, Command::Tick) {
            return Err(goodbye(Why::Protocol, "time is the server's own affair"));
        }
        if matches!(call.request.command, Command::Lost { .. }) {
            return Err(goodbye(Why::Protocol, "the server sees for itself who is lost"));
        }
        if let Some(Admitted { pass, owners, .. }) = &self.admitted
            && let Err(refusal) = pass.admit(owners, &mut call.request, self.shared.now())
        {
            self.refuse(number, refusal);
            return Ok(false);
        }
        let bytes = self.bytes + whole.len();
        if bytes > self.limits.bytes_max as usize {
            let max = self.limits.bytes_max;
            let text = format!("asks of more than {max} bytes together without an answer");
            return Err(goodbye(Why::Limit, text));
        }
        if self.asked.len() >= self.limits.asks_max as usize {
            return Err(self.too_many_asks());
        }
        if !self.share.hold(bytes + self.parts.bytes()) {
            self.refuse(number, BUSY);
            return Ok(false);
        }
        self.bytes = bytes;
        let ask = Ask::posted(call, Arc::clone(&self.outbox), number);
        let (ticket, is_turn_due) = match self.shared.enter(Arc::clone(&ask)) {
            Entered::Turn(ticket) => (ticket, true),
            Entered::Promise(ticket) => {
                self.is_promised = true;
                (ticket, false)
            }
            Entered::Wait(ticket) => (ticket, false),
            Entered::Answered => (Ticket(0), false),
        };
        let asked = Asked { ticket, ask, bytes: whole.len(), is_withdrawn: false };
        if self.asked.insert(number, asked).is_some() {
            let text = format!("two asks under the number {number} at a time");
            return Err(goodbye(Why::Protocol, text));
        }
        Ok(is_turn_due)
    }

    /// Keeps in mind what became of an ask, where somebody is to know.
    pub(super) fn note(&self, ask: &Ask, answer: Option<&Result<Unread, Error>>) {
        let Some(Admitted { pass, owners, .. }) = &self.admitted else { return };
        let command = &ask.call().request.command;
        if let Command::Join { id, .. } = command {
            match answer {
                Some(Ok(Unread { outcome: Outcome::Joined(slot), .. })) => {
                    owners.joined(*id, *slot);
                }
                Some(Err(_)) => owners.refused(*id),
                _ => {}
            }
        }
        pass.note(command, answer.map(Result::as_ref));
    }

    /// Answers an ask that does not reach the writer.
    fn refuse(&mut self, number: u64, refusal: Refusal) {
        let (refused, now) = (Err(refusal.into()), self.shared.now());
        put_whole(Kind::Answer, number, self.pipe.out(), |out| put_answer(&refused, now, out));
    }

    /// The answer is not wanted any more. One that is on its way already is not stopped by that.
    pub(super) fn withdraw(&mut self, number: u64, gives_back: bool) {
        let Some(asked) = self.asked.get_mut(&number) else { return };
        let Asked { ticket, ask, is_withdrawn, .. } = asked;
        *is_withdrawn = true;
        if gives_back {
            // Nobody waits for an answer there: it comes by the outbox.
            let _ = ask.leave();
        }
        self.shared.withdraw(*ticket);
    }
}
