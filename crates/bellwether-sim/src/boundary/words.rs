//! The world's names, and the product's words in the history's.

use bellwether::engine::Call;
use bellwether_core::command::{Command, Disposition, Receive, ReceiveMode, Request};
use bellwether_core::name::{
    LeaseName, LockToken, Part, QueueName, SequenceNumber, SessionId, SessionToken,
};
use bellwether_core::settings::Durability;

use crate::history::{Hold, How, Key, Queue, Spot, Token};
use crate::plan::Plan;

/// Number of a queue, session or election, from its name.
pub(super) fn index(name: &str) -> u8 {
    name[1..].parse().expect("names of the world are a letter and a number")
}

/// Name of a queue.
pub(crate) fn queue_name(queue: u8) -> QueueName {
    QueueName::new(&format!("q{queue}")).expect("a good name")
}

/// Name of a session.
pub(crate) fn session_name(session: u8) -> SessionId {
    SessionId::new(&format!("s{session}")).expect("a good name")
}

/// Name of an election.
pub(crate) fn lease_name(election: u8) -> LeaseName {
    LeaseName::new(&format!("e{election}")).expect("a good name")
}

pub(super) fn token(queue: Queue, part: Part, token: LockToken) -> Token {
    Token {
        spot: spot(queue, part, token.sequence),
        number: token.number.0,
        incarnation: token.incarnation.0,
    }
}

pub(super) fn spot(queue: Queue, part: Part, sequence: SequenceNumber) -> Spot {
    Spot { queue, part, sequence: sequence.0 }
}

pub(super) fn hold(queue: Queue, token: &SessionToken) -> Hold {
    Hold {
        queue,
        session: index(token.session.as_str()),
        number: token.number.0,
        incarnation: token.incarnation.0,
    }
}

pub(super) fn how(disposition: Disposition) -> How {
    match disposition {
        Disposition::Complete => How::Complete,
        Disposition::Abandon { delay_ms } => How::Abandon(delay_ms.unwrap_or(0)),
        Disposition::Release => How::Release,
        Disposition::Defer => How::Defer,
        Disposition::DeadLetter => How::DeadLetter,
    }
}

pub(super) fn key(request: &Request) -> Key {
    Key { slot: request.member.0, number: request.number.0 }
}

pub(super) fn is_durable(command: &Command) -> bool {
    matches!(
        command,
        Command::Send { .. }
            | Command::Cancel { .. }
            | Command::Settle { .. }
            | Command::AcceptSession { .. }
            | Command::CloseSession { .. }
            | Command::SetSessionState { .. }
            | Command::Acquire(_)
            | Command::ReleaseLease { .. }
            | Command::ChangeLease { .. }
            | Command::BreakLease { .. }
            | Command::UpdateQueue { .. }
            | Command::DeleteQueue { .. }
            | Command::Purge { .. }
            | Command::Redrive { .. }
            | Command::Import { .. }
            | Command::Remove { .. }
            | Command::Receive(Receive { mode: ReceiveMode::ReceiveAndDelete, .. })
    )
}

/// Whether a request that succeeded is answered before it is flushed.
pub(super) fn is_volatile(plan: &Plan, command: &Command) -> bool {
    let relaxes = match command {
        Command::Send { .. } | Command::Settle { .. } => true,
        Command::Receive(receive) => receive.mode == ReceiveMode::ReceiveAndDelete,
        _ => false,
    };
    relaxes && queue_of(command).is_some_and(|queue| is_relaxed(plan, index(queue.as_str())))
}

/// Whether a queue answers before it flushes.
pub(super) fn is_relaxed(plan: &Plan, queue: impl Into<usize>) -> bool {
    plan.queues[queue.into()].settings.durability == Durability::Relaxed
}

/// The queue that a request names.
pub(super) fn queue_of(command: &Command) -> Option<&QueueName> {
    match command {
        Command::CreateQueue { queue, .. }
        | Command::UpdateQueue { queue, .. }
        | Command::DeleteQueue { queue }
        | Command::DescribeQueue { queue }
        | Command::Send { queue, .. }
        | Command::Cancel { queue, .. }
        | Command::Redrive { queue, .. }
        | Command::AcceptSession { queue, .. }
        | Command::RenewSession { queue, .. }
        | Command::CloseSession { queue, .. }
        | Command::SetSessionState { queue, .. }
        | Command::GetSessionState { queue, .. }
        | Command::DescribeSession { queue, .. }
        | Command::Explain { queue, .. }
        | Command::ReadLoad { queue } => Some(queue),
        Command::Receive(Receive { from, .. })
        | Command::ReceiveDeferred { from, .. }
        | Command::Settle { from, .. }
        | Command::RenewLocks { from, .. }
        | Command::Purge { from, .. }
        | Command::Peek { from, .. }
        | Command::Remove { from, .. }
        | Command::Import { to: from, .. } => Some(&from.queue),
        _ => None,
    }
}

/// Whether a request asked again gets its first answer. Who asks for a lease does not: it may have
/// passed on since. What was received and deleted is not there any more.
pub(super) fn is_kept(command: &Command) -> bool {
    let asks_anew =
        matches!(command, Command::Acquire(_) | Command::ChangeLease { .. } | Command::Receive(_));
    is_durable(command) && !asks_anew
}

pub(super) fn ids(call: &Call) -> Vec<u64> {
    let id = |body: &bytes::Bytes| body.first_chunk().map_or(0, |id| u64::from_le_bytes(*id));
    call.contents.iter().map(id).collect()
}
