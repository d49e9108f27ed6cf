//! What the shell asks of the store, and how the answers read to the rules.

use bellwether_core::command::{Command, Disposition, NewContent, Settlement};
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::name::{LockToken, SessionToken};
use bellwether_core::outcome::Outcome;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::delivery::Delivery;
use crate::error::Error;
use crate::handle::unreachable_outcome;
use crate::queue::{Queue, Receive};
use crate::session::{AcceptSession, Session};

/// Changed properties in one command. Far below what a command may carry, because the store merges
/// them with earlier changes and refuses the whole command if the sum is too large.
const CHANGES_BYTES_MAX: usize = 1024 * 1024;

/// Settlements that go to the store in one command; the store answers for each.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) settlements: Vec<Settlement>,
    contents: Vec<Bytes>,
    bytes: usize,
}

impl Batch {
    /// Whether this one should rather go in the next command.
    pub(super) fn is_full_for(&self, content: Option<&Bytes>) -> bool {
        let bytes = self.bytes + content.map_or(0, Bytes::len);
        self.settlements.len() >= limits::BATCH_MESSAGES_MAX
            || (bytes > CHANGES_BYTES_MAX && !self.settlements.is_empty())
    }

    pub(super) fn push(
        &mut self,
        token: LockToken,
        disposition: Disposition,
        content: Option<Bytes>,
    ) {
        let overlay = content.map(|content| {
            let new = NewContent { index: self.contents.len() as u32, bytes: content.len() as u32 };
            self.bytes += content.len();
            self.contents.push(content);
            new
        });
        self.settlements.push(Settlement { token, disposition, overlay });
    }
}

/// Each settlement and its answer.
pub(super) async fn settle(queue: &Queue, batch: Batch) -> Vec<(Settlement, Result<(), Error>)> {
    let Batch { settlements, contents, .. } = batch;
    let from = queue.path.clone();
    let command = Command::Settle { from, settlements: settlements.clone().into() };
    let mut refused = match queue.ask_with(command, contents.into()).await {
        Ok(reply) => match reply.outcome {
            Outcome::Settled { refused } => refused.into_iter().peekable(),
            other => unreachable_outcome(&other),
        },
        Err(error) => {
            return settlements.into_iter().map(|one| (one, Err(error.clone()))).collect();
        }
    };
    let answers = settlements.into_iter().enumerate().map(|(index, one)| {
        let refusal = refused.next_if(|(refused, _)| *refused as usize == index);
        (one, refusal.map_or(Ok(()), |(_, refusal)| Err(refusal.into())))
    });
    answers.collect()
}

/// For how long the lock was started anew.
pub(super) async fn renew(queue: &Queue, token: LockToken) -> Result<u32, Error> {
    // One lock a request: an answer names one duration, and those of a queue may differ.
    let command =
        Command::RenewLocks { from: queue.path.clone(), tokens: vec![token], lock_ms: None };
    match queue.ask(command).await?.outcome {
        Outcome::Renewed { lock_ms, mut refused } => match refused.pop() {
            Some((_, refusal)) => Err(refusal.into()),
            None => Ok(lock_ms),
        },
        other => unreachable_outcome(&other),
    }
}

/// What the receive brought; nothing if it was withdrawn.
pub(super) async fn receive(
    queue: &Queue,
    receive: Receive,
    withdrawn: CancellationToken,
) -> Result<Vec<Delivery>, Error> {
    if let Some(answer) = withdrawn.run_until_cancelled(receive.many()).await {
        return answer.map(|deliveries| {
            let release = |delivery: Delivery| delivery.if_dropped(Disposition::Release);
            deliveries.into_iter().map(release).collect()
        });
    }
    withdrawn_for_good(queue).await;
    Ok(Vec::new())
}

/// The session that came; none if the wish was withdrawn.
pub(super) async fn accept(
    queue: &Queue,
    accept: AcceptSession,
    withdrawn: CancellationToken,
) -> Result<Option<Session>, Error> {
    if let Some(answer) = withdrawn.run_until_cancelled(accept.next()).await {
        return answer;
    }
    withdrawn_for_good(queue).await;
    Ok(None)
}

/// If the store handed something out in that very moment it is given back. When it answers once
/// more, that is on its way before everything anybody asks for from here on.
async fn withdrawn_for_good(queue: &Queue) {
    let command = Command::DescribeQueue { queue: queue.name().clone() };
    let _ = queue.ask(command).await;
}

/// For how long the hold was started anew.
pub(super) async fn renew_hold(queue: &Queue, session: &SessionToken) -> Result<u32, Error> {
    let (name, token) = (queue.name().clone(), session.clone());
    match queue.ask(Command::RenewSession { queue: name, token }).await?.outcome {
        Outcome::Renewed { lock_ms, .. } => Ok(lock_ms),
        other => unreachable_outcome(&other),
    }
}

/// Whether asking again cannot help: the rules will say the same, or the store is gone.
pub(super) fn is_final(error: &Error) -> bool {
    match error {
        Error::Refused(refusal) => !refusal.retry(),
        other => is_end(other),
    }
}

/// Whether the store is gone for the rest of this process life, the term the pump works under is
/// over, or it is the wrong pump: a queue has sessions or has none, from its creation on.
pub(super) fn is_end(error: &Error) -> bool {
    match error {
        Error::Closed | Error::Fault(_) => true,
        Error::Refused(refusal) => matches!(
            refusal,
            Refusal::Fenced { .. } | Refusal::SessionRequired(_) | Refusal::SessionNotSupported(_)
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::Bellwether;

    #[tokio::test]
    async fn every_settlement_of_a_batch_gets_its_own_answer() {
        let bw = Bellwether::open("memory:").await.unwrap();
        let queue = bw.create_queue("orders", crate::QueueSettings::default()).await.unwrap();
        queue.send_batch(["one", "two", "three"]).await.unwrap();
        let mut deliveries = queue.receive().max(3).many().await.unwrap();
        let mut batch = Batch::default();
        for delivery in &deliveries {
            let token = delivery.token();
            let content = crate::message::Overlay::default().reason(delivery.text().unwrap());
            batch.push(token, Disposition::DeadLetter, Some(content.encode()));
        }
        deliveries.remove(1).complete().await.unwrap();
        for delivery in deliveries {
            delivery.keep();
        }

        let answers = settle(&queue, batch).await;

        let refused: Vec<_> = answers.iter().map(|(_, answer)| answer.is_err()).collect();
        assert_eq!(refused, [false, true, false]);
        let dead = queue.dead_letters().receive().max(3).many().await.unwrap();
        let reasons: Vec<_> =
            dead.iter().map(|dead| dead.received().dead_letter_reason().unwrap()).collect();
        assert_eq!(reasons, ["one", "three"], "each with the content that is its own");
    }

    #[test]
    fn large_changes_travel_alone() {
        let mut batch = Batch::default();
        let large = Bytes::from(vec![0; limits::CONTENT_BYTES_MAX as usize]);
        assert!(!batch.is_full_for(Some(&large)));
        batch.push(LockToken::from_u128(1), Disposition::Defer, Some(large.clone()));
        assert!(batch.is_full_for(None));
    }
}
