//! The world's names, and the product's words in the history's.

use bellwether::engine::Call;
use bellwether_core::command::{Command, Disposition, Receive, ReceiveMode, Request};
use bellwether_core::name::{
    LeaseName, LockToken, QueueName, QueuePath, SequenceNumber, SessionId, SessionToken,
};
use bellwether_core::settings::Durability;

use crate::history::{Hold, How, Key, Spot, Token};
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

pub(super) fn token(from: &QueuePath, token: LockToken) -> Token {
    Token {
        spot: spot(from, token.sequence),
        number: token.number.0,
        incarnation: token.incarnation.0,
    }
}

pub(super) fn spot(from: &QueuePath, sequence: SequenceNumber) -> Spot {
    Spot { queue: index(from.queue.as_str()), part: from.part, sequence: sequence.0 }
}

pub(super) fn hold(queue: &QueueName, token: &SessionToken) -> Hold {
    Hold {
        queue: index(queue.as_str()),
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
            | Command::Purge { .. }
            | Command::Redrive { .. }
            | Command::Receive(Receive { mode: ReceiveMode::ReceiveAndDelete, .. })
    )
}

/// Whether a request that succeeded is answered before it is flushed.
pub(super) fn is_volatile(plan: &Plan, command: &Command) -> bool {
    let queue = match command {
        Command::Send { queue, .. } => queue,
        Command::Settle { from, .. } => &from.queue,
        Command::Receive(Receive { from, mode: ReceiveMode::ReceiveAndDelete, .. }) => &from.queue,
        _ => return false,
    };
    is_relaxed(plan, queue)
}

/// Whether a queue answers before it flushes.
pub(super) fn is_relaxed(plan: &Plan, queue: &QueueName) -> bool {
    let settings = &plan.queues[usize::from(index(queue.as_str()))].settings;
    settings.durability == Durability::Relaxed
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
