//! A session in a receiver's hands.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_core::command::{Command, NewContent, ReceiveMode};
use bellwether_core::few::Few;
use bellwether_core::name::{SequenceNumber, SessionId, SessionToken};
use bellwether_core::outcome::{Outcome, SessionHold};
use bytes::Bytes;

use crate::delivery::Delivery;
use crate::error::Error;
use crate::handle::unreachable_outcome;
use crate::queue::{Queue, Receive, ms};

/// A wish for a session being put together.
#[derive(Clone, Debug)]
pub struct AcceptSession {
    queue: Queue,
    wait: Duration,
}

impl AcceptSession {
    pub(crate) fn new(queue: Queue) -> Self {
        Self { queue, wait: Duration::ZERO }
    }

    /// Waits so long; not at all if not said.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The session of this name; refused if another receiver holds it when the wait ends.
    pub async fn named(self, session: &str) -> Result<Session, Error> {
        let id = SessionId::new(session)?;
        let held = self.accept(Some(id.clone())).await?;
        held.ok_or_else(|| bellwether_core::error::Refusal::SessionLocked(id).into())
    }

    /// The free session with the oldest message; `None` if there is none when the wait ends.
    pub async fn next(self) -> Result<Option<Session>, Error> {
        self.accept(None).await
    }

    async fn accept(self, session: Option<SessionId>) -> Result<Option<Session>, Error> {
        let command = Command::AcceptSession {
            queue: self.queue.name().clone(),
            session,
            wait_ms: ms(self.wait),
        };
        match self.queue.ask(command).await?.outcome {
            Outcome::Session(hold) => Ok(hold.map(|hold| Session::new(self.queue, hold))),
            other => unreachable_outcome(&other),
        }
    }
}

/// A held session: its messages come here, in order, and to nobody else.
///
/// Dropping it closes it: what was handed out and not settled goes back uncounted.
#[derive(Debug)]
pub struct Session {
    queue: Queue,
    hold: SessionHold,
    closed: AtomicBool,
}

impl Session {
    fn new(queue: Queue, hold: SessionHold) -> Self {
        Self { queue, hold, closed: AtomicBool::new(false) }
    }

    /// Its name.
    pub fn id(&self) -> &SessionId {
        &self.hold.token.session
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The proof of this hold.
    pub fn token(&self) -> &SessionToken {
        &self.hold.token
    }

    /// How long the hold lasts from one renewal to the next.
    pub fn lock_duration(&self) -> Duration {
        Duration::from_millis(self.hold.lock_ms.into())
    }

    /// Starts a receive from this session.
    pub fn receive(&self) -> Receive {
        self.queue.receive().session(self.hold.token.clone())
    }

    /// Receives deferred messages of this session by number, all or none.
    pub async fn receive_deferred(
        &self,
        sequences: impl IntoIterator<Item = SequenceNumber>,
    ) -> Result<Vec<Delivery>, Error> {
        let command = Command::ReceiveDeferred {
            from: self.queue.path.clone(),
            session: Some(self.hold.token.clone()),
            sequences: sequences.into_iter().collect(),
            mode: ReceiveMode::PeekLock,
        };
        let reply = self.queue.ask(command).await?;
        Ok(self.queue.deliveries(reply))
    }

    /// Starts the hold anew.
    pub async fn renew(&self) -> Result<(), Error> {
        let (queue, token) = (self.queue.name().clone(), self.hold.token.clone());
        self.queue.ask(Command::RenewSession { queue, token }).await?;
        Ok(())
    }

    /// The state that an earlier holder left.
    pub async fn state(&self) -> Result<Option<Bytes>, Error> {
        let (queue, token) = (self.queue.name().clone(), self.hold.token.clone());
        let reply = self.queue.ask(Command::GetSessionState { queue, token }).await?;
        match reply.outcome {
            Outcome::SessionState(id, _) if id.0 == 0 => Ok(None),
            Outcome::SessionState(..) => match reply.contents.into_iter().next() {
                Some(Ok(state)) => Ok(Some(state)),
                Some(Err(what)) => Err(unreadable(&self.queue, what)),
                None => Err(unreadable(&self.queue, "its content is missing".into())),
            },
            other => unreachable_outcome(&other),
        }
    }

    /// Leaves a state for later; `None` clears it.
    pub async fn set_state(&self, state: Option<Bytes>) -> Result<(), Error> {
        let (queue, token) = (self.queue.name().clone(), self.hold.token.clone());
        let contents: Few<Bytes> = state.into_iter().collect();
        let state = contents.first().map(|content| NewContent {
            index: 0,
            bytes: u32::try_from(content.len()).unwrap_or(u32::MAX),
        });
        let command = Command::SetSessionState { queue, token, state };
        self.queue.ask_with(command, contents).await?;
        Ok(())
    }

    /// Lets go, so that another receiver can take it.
    pub async fn close(self) -> Result<(), Error> {
        self.let_go().await
    }

    /// The same for one that others still look at.
    pub(crate) async fn let_go(&self) -> Result<(), Error> {
        self.closed.store(true, Ordering::Relaxed);
        let (queue, token) = (self.queue.name().clone(), self.hold.token.clone());
        self.queue.ask(Command::CloseSession { queue, token }).await?;
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !*self.closed.get_mut() {
            let (queue, token) = (self.queue.name().clone(), self.hold.token.clone());
            self.queue.inner.tell(Command::CloseSession { queue, token });
        }
    }
}

pub(crate) fn unreadable(queue: &Queue, what: String) -> Error {
    Error::Unreadable { queue: queue.name().to_string(), sequence: 0, what }
}
