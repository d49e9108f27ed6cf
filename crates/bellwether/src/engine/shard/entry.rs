//! Before a call is applied: whether it is whole, what it means, and whether there is room for it.

use bellwether_core::command::{Command, NewContent, Settlement};
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::name::SessionId;

use super::{CHANGE_BYTES_MAX, Shard};
use crate::engine::Call;
use crate::error::Error;
use crate::journal::Pressure;
use crate::message::{check_message, check_overlay, merge_overlays};

impl<R> Shard<R> {
    /// A command's changes lie in one frame, so that a crash keeps all of them or none. What would
    /// not fit beside what is there begins a frame of its own.
    pub(super) fn make_room(&mut self, call: &Call) -> Result<(), Error> {
        let mut bytes: usize =
            call.contents.iter().map(|content| content.len() + CHANGE_BYTES_MAX).sum();
        // Every queue that a message is forwarded through writes its session down once more.
        let sessions_bytes: usize = match &call.request.command {
            Command::Send { messages, .. } | Command::Dispatch { messages, .. } => {
                messages.iter().filter_map(|m| m.session.as_ref()).map(session_bytes).sum()
            }
            Command::Import { messages, .. } => {
                messages.iter().filter_map(|m| m.session.as_ref()).map(session_bytes).sum()
            }
            _ => 0,
        };
        bytes += sessions_bytes * usize::from(limits::FORWARD_HOPS_MAX);
        let bytes_max = self.frame_bytes_max.saturating_sub(CHANGE_BYTES_MAX);
        if bytes > bytes_max {
            let (bytes, bytes_max) = (bytes as u64, bytes_max as u64);
            return Err(Refusal::TooLarge { what: "one request", bytes, bytes_max }.into());
        }
        if bytes > 0 && self.payload.len() + bytes > self.frame_bytes_target() {
            self.seal();
            if let Some(fault) = &self.broken {
                return Err(fault.clone().into());
            }
        }
        // Before the rules decide: what senders take of the reserve is missing for settling.
        let is_full = self.journal.as_ref().is_some_and(|j| j.pressure() != Pressure::None);
        self.ledger.set_disk_full(is_full);
        // A refusal says that nothing was stored: whoever asks again for what was accepted and
        // waits for room must wait with it.
        let request = &call.request;
        // Nor is anybody refused who gives back: a lease nobody holds would be held for good.
        let may_wait = request.command.writes_nothing() || request.command.gives_back();
        if self.stalled && !may_wait && !self.ledger.is_decided(request) {
            return Err(Refusal::DiskFull.into());
        }
        Ok(())
    }

    /// Changed properties are kept as one overlay: a settlement that changes some is merged with
    /// what earlier ones changed. `None` if there is nothing to merge.
    pub(super) fn merge_overlays(&mut self, call: &Call) -> Option<Call> {
        let Command::Settle { from, settlements } = &call.request.command else { return None };
        let mut merged_call: Option<Call> = None;
        for (nth, Settlement { token, overlay, .. }) in settlements.iter().enumerate() {
            let Some(new) = overlay else { continue };
            let old = self.ledger.overlay(&from.queue, from.part, token.sequence);
            let Some((id, place)) = old else { continue };
            let journal = self.journal.as_deref();
            let Ok(old) = self.bodies.get(id, place, journal).read_one() else { continue };
            let new = call.contents.get(new.index as usize);
            let Some(merged) = new.and_then(|new| merge_overlays(&old, new)) else { continue };
            let Call { request, contents } = merged_call.get_or_insert_with(|| call.clone());
            let Command::Settle { settlements, .. } = &mut request.command else { continue };
            // A content of its own: another settlement may point to the same one.
            let (index, bytes) = (contents.len() as u32, merged.len() as u32);
            settlements[nth].overlay = Some(NewContent { index, bytes });
            contents.push(merged);
        }
        merged_call
    }
}

fn session_bytes(session: &SessionId) -> usize {
    session.as_str().len()
}

/// A command names the contents beside it by index and length: both must be true. And none has more
/// properties than a message may have.
pub(super) fn check_contents(call: &Call) -> Result<(), Refusal> {
    let content = |index: usize, bytes: u32| {
        let content = call.contents.get(index).filter(|content| content.len() == bytes as usize);
        content.ok_or_else(|| {
            let why = "the command names a content that does not travel with it".into();
            Refusal::InvalidValue { what: "contents", why }
        })
    };
    let message = |index: usize, bytes: u32| check_message(content(index, bytes)?);
    let overlay = |new: NewContent| check_overlay(content(new.index as usize, new.bytes)?);
    match &call.request.command {
        Command::Send { messages, .. } | Command::Dispatch { messages, .. } => messages
            .iter()
            .enumerate()
            .try_for_each(|(index, new)| message(index, new.content_bytes)),
        Command::Settle { settlements, .. } => {
            settlements.iter().filter_map(|settlement| settlement.overlay).try_for_each(overlay)
        }
        Command::Import { messages, .. } => messages.iter().try_for_each(|imported| {
            message(imported.content.index as usize, imported.content.bytes)?;
            imported.overlay.map_or(Ok(()), overlay)
        }),
        Command::SetSessionState { state: Some(new), .. }
        | Command::CompleteItem { result: Some(new), .. } => {
            content(new.index as usize, new.bytes).map(|_| ())
        }
        Command::CreateJob { gather: Some(new), .. }
        | Command::CreateSchedule { content: new, .. } => message(new.index as usize, new.bytes),
        _ => Ok(()),
    }
}
