//! Bodies that are JSON, as values of a type.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::verdict::{Failure, IntoVerdict, Verdict};
use super::work::Work;
use crate::error::Error;
use crate::message::Message;
use crate::queue::Queue;
use bellwether_core::error::Refusal;
use bellwether_core::name::SequenceNumber;

/// What says that a body is JSON.
const CONTENT_TYPE: &str = "application/json";
/// The reason of a dead letter whose body is not what its handler takes.
pub const BAD_BODY: &str = "BadBody";

/// A handler of values: each message's body is read as one, and the message goes along.
///
/// A body that cannot be read, or whose content type says that it is something else, can never work:
/// the message becomes a dead letter at once, with the reason [`BAD_BODY`] and what is wrong as its
/// description, and the handler does not hear of it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
/// use bellwether::Bellwether;
/// use bellwether::pump::{Work, json};
/// use serde::{Deserialize, Serialize};
/// use tokio_util::sync::CancellationToken;
///
/// #[derive(Serialize, Deserialize)]
/// struct Order {
///     coffees: u32,
/// }
///
/// let bw = Bellwether::open("memory:").await?;
/// let orders = bw.create_queue("orders", Default::default()).await?;
/// orders.typed::<Order>().send(&Order { coffees: 2 }).await?;
///
/// let shutdown = CancellationToken::new();
/// let done = shutdown.clone();
/// let handler = json(move |order: Order, _work: Work| {
///     println!("making {} coffees", order.coffees);
///     done.cancel();
///     async {}
/// });
/// orders.pump().run(handler, shutdown).await
/// # }
/// ```
pub fn json<T, H, F>(handler: H) -> impl Fn(Work) -> Reading + Send + Sync + 'static
where
    T: DeserializeOwned + Send + 'static,
    H: Fn(T, Work) -> F + Send + Sync + 'static,
    F: Future<Output: IntoVerdict> + Send + 'static,
{
    let handler = Arc::new(handler);
    move |work| {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            match read::<T>(&work) {
                Ok(value) => handler(value, work).await.into_verdict(),
                Err(what) => Ok(Verdict::dead_letter(BAD_BODY, what)),
            }
        })
    }
}

/// What a handler of values returns to its pump.
pub type Reading = std::pin::Pin<Box<dyn Future<Output = Result<Verdict, Failure>> + Send>>;

/// The body as a value, or what is wrong with it. No content type is as good as the right one.
fn read<T: DeserializeOwned>(message: &Message) -> Result<T, String> {
    let said = message.content_type.as_deref().unwrap_or(CONTENT_TYPE);
    let essence = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence != CONTENT_TYPE && !essence.ends_with("+json") {
        return Err(format!("its content type is {said:?}, not {CONTENT_TYPE}"));
    }
    serde_json::from_slice(message.body()).map_err(|error| format!("its body: {error}"))
}

impl Message {
    /// A message whose body is this value as JSON, with the content type that says so. Refused if the
    /// value has no form in JSON.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        let body = serde_json::to_vec(value)
            .map_err(|error| Refusal::InvalidValue { what: "the body", why: error.to_string() })?;
        Ok(Self::from(body).content_type(CONTENT_TYPE))
    }
}

/// A queue whose bodies are values of one type, as JSON.
pub struct TypedQueue<T> {
    queue: Queue,
    of: PhantomData<fn(T)>,
}

impl<T> fmt::Debug for TypedQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedQueue").field(&self.queue.path).finish()
    }
}

impl<T> Clone for TypedQueue<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), of: PhantomData }
    }
}

impl<T: Serialize> TypedQueue<T> {
    /// Sends a value, as [`Queue::send`].
    pub async fn send(&self, value: &T) -> Result<SequenceNumber, Error> {
        self.queue.send(Message::json(value)?).await
    }

    /// Sends values, all or none, as [`Queue::send_batch`].
    pub async fn send_batch<'a>(
        &self,
        values: impl IntoIterator<Item = &'a T>,
    ) -> Result<Vec<SequenceNumber>, Error>
    where
        T: 'a,
    {
        let messages: Result<Vec<_>, _> = values.into_iter().map(Message::json).collect();
        self.queue.send_batch(messages?).await
    }
}

impl Queue {
    /// The same queue, for values of one type; [`json`] makes handlers of them.
    pub fn typed<T>(&self) -> TypedQueue<T> {
        TypedQueue { queue: self.clone(), of: PhantomData }
    }
}
