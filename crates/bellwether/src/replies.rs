//! Answers that come to a queue of their own, as Service Bus has it.
//!
//! Prefer [`Queue::request`]: its answer is kept where it is asked for, and needs no queue. This is for
//! those who answer by [`Message::reply_to`] and know nothing of results.
//!
//! 1. A request names the queue for answers and a session in it that is this process's own, so that
//!    many processes share one such queue; nobody else receives from it.
//! 2. An answer is known by its correlation id, which is the request's message id.
//! 3. An answer that matches no request that waits, because it came late or was never asked for,
//!    becomes a dead letter with the reason `NoPendingRequest`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bellwether_core::error::Refusal;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::delivery::Delivery;
use crate::error::Error;
use crate::handle::Bellwether;
use crate::message::Message;
use crate::queue::{Queue, ms};
use crate::result::RequestError;
use crate::session::Session;

/// Answers taken at once.
const BATCH: u32 = 100;
/// How long to wait after a failure that may pass.
const PAUSE_MS: u64 = 1_000;

/// Who waits for an answer, by the request's message id.
#[derive(Debug, Default)]
struct Pending(Mutex<BTreeMap<String, oneshot::Sender<Message>>>);

impl Pending {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, oneshot::Sender<Message>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(&self, answer: Delivery) {
        let waits = answer.correlation_id.as_ref().and_then(|id| self.lock().remove(id));
        let is_taken = waits.is_some_and(|waits| waits.send((*answer).clone()).is_ok());
        // Of an answer whose lock was lost the next delivery is a stray one.
        let _ = if is_taken {
            answer.complete().await
        } else {
            let why = "it answers no request that waits: late, or never asked";
            answer.dead_letter("NoPendingRequest", why).await
        };
    }
}

/// A session for answers, and who waits for them; see the [module](self). Dropping it gives the session
/// back.
#[derive(Debug)]
pub struct Replies {
    queue: Queue,
    session: String,
    pending: Arc<Pending>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Bellwether {
    /// Takes answers from a session of its own in this queue, which must have sessions.
    pub async fn replies(&self, queue: &str) -> Result<Replies, Error> {
        let queue = self.queue(queue)?;
        let session = format!("{:032x}", crate::chance::random_u128());
        let held = queue.accept_session().named(&session).await?;
        let (pending, stop) = (Arc::new(Pending::default()), CancellationToken::new());
        let take = take_answers(queue.clone(), held, Arc::clone(&pending), stop.clone());
        let task = Some(tokio::spawn(take));
        Ok(Replies { queue, session, pending, stop, task })
    }
}

impl Replies {
    /// The session that answers come to.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Sends a request to a queue and waits for its answer, so long at most.
    pub async fn request(
        &self,
        queue: &Queue,
        message: impl Into<Message>,
        timeout: Duration,
    ) -> Result<Message, RequestError> {
        let clock = &self.queue.inner.clock;
        let until = clock.boot().plus_ms(ms(timeout));
        let mut message = message.into();
        let random = || format!("{:032x}", crate::chance::random_u128());
        let id = message.id.get_or_insert_with(random).clone();
        message.reply_to = Some(self.queue.name().to_string());
        message.reply_to_session = Some(self.session.clone());
        let (waits, answer) = oneshot::channel();
        self.pending.lock().insert(id.clone(), waits);
        // Whoever stops waiting is no longer waited for, however that comes.
        let _leaves = Leaves { pending: &self.pending, id: &id };
        queue.send(message).await?;
        tokio::select! {
            biased;
            answer = answer => answer.map_err(|_| Error::Closed.into()),
            () = clock.sleep_until(until) => Err(RequestError::TimedOut { id: id.clone(), timeout }),
        }
    }

    /// Stops taking answers and gives the session back.
    pub async fn close(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take()
            && let Err(panic) = task.await
        {
            std::panic::resume_unwind(panic.into_panic());
        }
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Leaves<'a> {
    pending: &'a Pending,
    id: &'a str,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.pending.lock().remove(self.id);
    }
}

async fn take_answers(
    queue: Queue,
    mut held: Session,
    pending: Arc<Pending>,
    stop: CancellationToken,
) {
    let clock = queue.inner.clock.clone();
    let name = held.id().to_string();
    loop {
        let third = held.lock_duration() / 3;
        let receive = held.receive().max(BATCH).wait(third).many();
        let Some(received) = stop.run_until_cancelled(receive).await else { break };
        let answers = match received {
            Ok(answers) => answers,
            Err(Error::Refused(Refusal::SessionLost(_))) => {
                match queue.accept_session().wait(third).named(&name).await {
                    Ok(again) => held = again,
                    Err(_) => clock.sleep_until(clock.boot().plus_ms(PAUSE_MS)).await,
                }
                continue;
            }
            // Those who wait hear that nothing will come.
            Err(Error::Closed | Error::Fault(_)) => break,
            Err(_) => {
                clock.sleep_until(clock.boot().plus_ms(PAUSE_MS)).await;
                continue;
            }
        };
        for answer in answers {
            pending.take(answer).await;
        }
        // Refused only if it was lost, which the next receive says.
        let _ = held.renew().await;
    }
    pending.lock().clear();
    let _ = held.close().await;
}
