//! Before a call is applied: whether it is whole, what it means, and whether there is room for it.

use bellwether_core::command::{Command, NewContent, Settlement};
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::message::NewMessage;
use bellwether_core::name::{QueuePath, SessionId};
use bellwether_core::rank::Rank;
use bellwether_core::transaction::Step;

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
        // Every queue that a message is forwarded through writes its session and its key down once
        // more.
        let names: usize = match &call.request.command {
            Command::Send { messages, .. } | Command::Dispatch { messages, .. } => {
                names_of(messages)
            }
            Command::Transact { steps } => steps.iter().map(step_names_bytes).sum(),
            Command::Import { messages, .. } => {
                messages.iter().map(|m| names_bytes(m.session.as_ref(), &m.rank)).sum()
            }
            _ => 0,
        };
        bytes += names * usize::from(limits::FORWARD_HOPS_MAX);
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
        let mut merged_call: Option<Call> = None;
        for (nth, (from, Settlement { token, overlay, .. })) in
            settlements(&call.request.command).enumerate()
        {
            let Some(new) = overlay else { continue };
            let old = self.ledger.overlay(&from.queue, from.part, token.sequence);
            let Some((id, place)) = old else { continue };
            let journal = self.journal.as_deref();
            let Ok(old) = self.bodies.get(id, place, journal).read_one() else { continue };
            let new = call.contents.get(new.index as usize);
            let Some(merged) = new.and_then(|new| merge_overlays(&old, new)) else { continue };
            let Call { request, contents } = merged_call.get_or_insert_with(|| call.clone());
            let settlement = settlements_mut(&mut request.command).nth(nth);
            let Some(settlement) = settlement else { continue };
            // A content of its own: another settlement may point to the same one.
            let (index, bytes) = (contents.len() as u32, merged.len() as u32);
            settlement.overlay = Some(NewContent { index, bytes });
            contents.push(merged);
        }
        merged_call
    }
}

/// Every settlement in a command, and where it settles.
fn settlements(command: &Command) -> impl Iterator<Item = (&QueuePath, &Settlement)> {
    let (from, all, steps) = match command {
        Command::Settle { from, settlements } => (Some(from), &settlements[..], [].as_slice()),
        Command::Transact { steps } => (None, [].as_slice(), steps.as_slice()),
        _ => (None, [].as_slice(), [].as_slice()),
    };
    let of_steps = steps.iter().filter_map(|step| match step {
        Step::Settle { from, settlement } => Some((from, settlement)),
        _ => None,
    });
    let all = from.into_iter().flat_map(move |from| all.iter().map(move |one| (from, one)));
    all.chain(of_steps)
}

/// The same, in the same order.
fn settlements_mut(command: &mut Command) -> impl Iterator<Item = &mut Settlement> {
    let (all, steps) = match command {
        Command::Settle { settlements, .. } => (&mut settlements[..], [].as_mut_slice()),
        Command::Transact { steps } => ([].as_mut_slice(), steps.as_mut_slice()),
        _ => ([].as_mut_slice(), [].as_mut_slice()),
    };
    let of_steps = steps.iter_mut().filter_map(|step| match step {
        Step::Settle { settlement, .. } => Some(settlement),
        _ => None,
    });
    all.iter_mut().chain(of_steps)
}

fn names_of(messages: &[NewMessage]) -> usize {
    messages.iter().map(|m| names_bytes(m.session.as_ref(), &m.rank)).sum()
}

fn step_names_bytes(step: &Step) -> usize {
    match step {
        Step::Send { messages, .. } => names_of(messages),
        Step::Request { message, .. } => names_of(std::slice::from_ref(message)),
        _ => 0,
    }
}

fn names_bytes(session: Option<&SessionId>, rank: &Rank) -> usize {
    session.map_or(0, |session| session.as_str().len())
        + rank.key.as_ref().map_or(0, |key| key.as_str().len())
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
        Command::CreateJob { gather: Some(new), .. } => message(new.index as usize, new.bytes),
        Command::Transact { steps } => steps.iter().try_for_each(|step| {
            step.contents().try_for_each(|new| match step {
                Step::Send { .. } | Step::Request { .. } => message(new.index as usize, new.bytes),
                Step::Settle { .. } => overlay(new),
                _ => content(new.index as usize, new.bytes).map(|_| ()),
            })
        }),
        _ => Ok(()),
    }
}
