//! One message in a handler's hands.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use bellwether_core::command::Disposition;
use bellwether_core::name::{LockToken, SequenceNumber};
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::reply;
use super::verdict::{Failure, IntoVerdict, Verdict};
use crate::delivery::{Delivery, Received};
use crate::message::{Message, Value};
use crate::session::Session;

pub(super) type Handler = Arc<dyn Fn(Work) -> Handling + Send + Sync>;
pub(super) type Handling = Pin<Box<dyn Future<Output = Result<Verdict, Failure>> + Send>>;

/// A user's function as a pump calls it.
pub(super) fn handler<H, F>(handler: H) -> Handler
where
    H: Fn(Work) -> F + Send + Sync + 'static,
    F: Future<Output: IntoVerdict> + Send + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |work| {
        let handler = Arc::clone(&handler);
        Box::pin(async move { handler(work).await.into_verdict() })
    })
}

/// Where a delivery lies when its handler has ended; empty if the handler took it for itself.
type Returned = Arc<Mutex<Option<Delivery>>>;

/// What the handler says came of it.
type Results = Arc<Mutex<Option<Bytes>>>;

/// One message, locked and kept locked for its handler.
#[derive(Debug)]
pub struct Work {
    /// Only taken out by what consumes the work.
    delivery: Option<Delivery>,
    result: Results,
    returned: Returned,
    /// What it belongs to, if the pump takes sessions.
    held: Option<Arc<Session>>,
    cancellation: CancellationToken,
}

impl Work {
    /// Its number in its queue.
    pub fn sequence(&self) -> SequenceNumber {
        self.delivery().sequence()
    }

    /// Which delivery of the message this is; one the first time.
    pub fn deliveries(&self) -> u32 {
        self.delivery().deliveries()
    }

    /// The proof of this delivery; another one the next time.
    pub fn token(&self) -> LockToken {
        self.delivery().token()
    }

    /// The message and what the store says of it.
    pub fn received(&self) -> &Received {
        self.delivery().received()
    }

    /// The held session it belongs to: its name, its state, its deferred messages. None if the pump
    /// does not take sessions.
    pub fn held_session(&self) -> Option<&Session> {
        self.held.as_deref()
    }

    /// Fires when the lock is lost, so that the result will be dropped, or when the pump stops and
    /// its grace is over. The handler should end then; it is not interrupted.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Changes a property of the message; takes effect unless it is completed.
    pub fn set_property(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let delivery = self.delivery.as_mut().expect("a work in use has its delivery");
        delivery.set_property(key, value);
    }

    /// Gives a result: if the message is an item of a job, and the handler completes it, the result is
    /// kept with the job.
    pub fn set_result(&mut self, result: impl Into<Bytes>) {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result.into());
    }

    /// Of which job it is an item, and which.
    pub fn item(&self) -> Option<(&str, u32)> {
        self.delivery().item()
    }

    /// Takes the delivery out of the pump's hands: the handler settles it, and what the handler
    /// returns settles nothing. The lock is kept until the handler ends.
    #[must_use = "a delivery that is dropped is abandoned"]
    pub fn into_delivery(mut self) -> Delivery {
        let delivery = self.delivery.take().expect("a work in use has its delivery");
        delivery.if_dropped(Disposition::Abandon { delay_ms: None })
    }

    fn delivery(&self) -> &Delivery {
        self.delivery.as_ref().expect("a work in use has its delivery")
    }
}

impl Deref for Work {
    type Target = Message;

    fn deref(&self) -> &Message {
        self.delivery()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(delivery) = self.delivery.take() {
            *self.returned.lock().unwrap_or_else(PoisonError::into_inner) = Some(delivery);
        }
    }
}

/// Runs the handler to its end. Dropped before, the handler is dropped first and the message is
/// given back after it, uncounted.
pub(super) async fn handle(
    handler: Handler,
    delivery: Delivery,
    held: Option<Arc<Session>>,
    cancellation: CancellationToken,
) -> (Result<Verdict, Failure>, Option<Delivery>) {
    let (returned, result) = (Returned::default(), Results::default());
    let work = Work {
        delivery: Some(delivery),
        result: Arc::clone(&result),
        returned: Arc::clone(&returned),
        held,
        cancellation,
    };
    let handled = caught(async move { handler(work).await }).await;
    let delivery = returned.lock().unwrap_or_else(PoisonError::into_inner).take();
    let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (handled, delivery, result) {
        (Ok(Verdict::Complete), Some(delivery), Some(result)) => {
            // What does not reach the job is given back by being dropped.
            let settled = delivery.complete_with(result).await;
            (settled.map(|_| Verdict::Complete).map_err(Into::into), None)
        }
        (Ok(Verdict::Reply(message)), Some(request), _) => {
            (reply::send(&request, *message).await, Some(request))
        }
        (Ok(Verdict::Reply(_)), None, _) => {
            (Err("a handler that takes the delivery sends its reply itself".into()), None)
        }
        (handled, delivery, _) => (handled, delivery),
    }
}

/// A panic is this message's failure and nobody else's.
async fn caught(
    handling: impl Future<Output = Result<Verdict, Failure>>,
) -> Result<Verdict, Failure> {
    let mut handling = pin!(handling);
    std::future::poll_fn(|cx| {
        // Nothing of the pump's is inside: what the panic left half done is the handler's own.
        catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))).unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<&str>().map(ToString::to_string);
            let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
            let words = words.unwrap_or_else(|| "no words".into());
            Poll::Ready(Err(format!("the handler panicked: {words}").into()))
        })
    })
    .await
}
