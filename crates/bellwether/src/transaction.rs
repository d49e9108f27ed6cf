//! Several things at once: all of them happen, or none.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
//! # use bellwether::Bellwether;
//! # let bw = Bellwether::open("memory:").await?;
//! let orders = bw.create_queue("orders", Default::default()).await?;
//! let bills = bw.create_queue("bills", Default::default()).await?;
//! orders.send("two coffees").await?;
//!
//! let order = orders.receive().one().await?.expect("it was just sent");
//! let bill = format!("pay {}", order.text().unwrap_or_default());
//! bw.transaction().complete(order).send(&bills, bill).commit().await?;
//! # assert_eq!(bills.receive().one().await?.expect("the output").text(), Some("pay two coffees"));
//! # Ok(()) }
//! ```
//!
//! 1. A process that dies before the commit has sent nothing, and its input comes back; one that
//!    dies after it has done everything ([`bellwether_core::transaction`]).
//! 2. A refused commit changed nothing; [`Refusal::Step`] says which step was refused, and why.
//! 3. Deliveries that were put into a transaction belong to it: one that is dropped, or refused,
//!    gives them back as dropped deliveries are.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::command::{Command, Disposition, NewContent, Settlement};
use bellwether_core::error::Refusal;
use bellwether_core::fence::Fence;
use bellwether_core::name::{NoteKey, QueueName, SequenceNumber};
use bellwether_core::note::Report;
use bellwether_core::outcome::{Outcome, Sequences};
use bellwether_core::transaction::Step;
use bytes::Bytes;

use crate::delivery::Delivery;
use crate::error::Error;
use crate::handle::{Bellwether, Inner, unreachable_outcome};
use crate::message::Message;
use crate::once::Claim;
use crate::queue::{Queue, ms, prepare};
use crate::result::answer_content;
use crate::session::Session;

impl Bellwether {
    /// Begins a transaction; nothing is asked of the store until it is committed.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::clone(&self.inner))
    }
}

/// A transaction being put together; see the [module](self).
#[derive(Debug)]
#[must_use = "nothing happens before it is committed"]
pub struct Transaction {
    inner: Arc<Inner>,
    fence: Option<Fence>,
    steps: Vec<Step>,
    contents: Vec<Bytes>,
    /// Given back if it is not committed.
    deliveries: Vec<Delivery>,
    /// The first thing that cannot be; told by the commit.
    wrong: Option<Error>,
}

/// What a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The numbers of the messages of each send, in the order of the sends; zero for a duplicate
    /// that was dropped.
    pub sent: Vec<Vec<SequenceNumber>>,
}

impl Transaction {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        let (steps, contents, deliveries) = Default::default();
        Self { inner, fence: None, steps, contents, deliveries, wrong: None }
    }

    /// The work is done: the message goes.
    pub fn complete(self, delivery: Delivery) -> Self {
        self.settle(delivery, Disposition::Complete)
    }

    /// The work failed: the message comes back at once.
    pub fn abandon(self, delivery: Delivery) -> Self {
        self.settle(delivery, Disposition::Abandon { delay_ms: None })
    }

    /// The work failed: the message comes back after `delay`.
    pub fn abandon_after(self, delivery: Delivery, delay: Duration) -> Self {
        self.settle(delivery, Disposition::Abandon { delay_ms: Some(ms(delay)) })
    }

    /// Nothing was done: the message comes back at once and the delivery does not count.
    pub fn release(self, delivery: Delivery) -> Self {
        self.settle(delivery, Disposition::Release)
    }

    /// Sets the message aside until it is asked for by its number.
    pub fn defer(self, delivery: Delivery) -> Self {
        self.settle(delivery, Disposition::Defer)
    }

    /// The message can never work: it becomes a dead letter with this reason.
    pub fn dead_letter(
        self,
        mut delivery: Delivery,
        reason: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        delivery.set_reason(reason.into(), description.into());
        self.settle(delivery, Disposition::DeadLetter)
    }

    /// Sends a message.
    pub fn send(self, queue: &Queue, message: impl Into<Message>) -> Self {
        self.send_batch(queue, [message])
    }

    /// Sends messages.
    pub fn send_batch(
        mut self,
        queue: &Queue,
        messages: impl IntoIterator<Item = impl Into<Message>>,
    ) -> Self {
        self.belongs(queue);
        let first = self.contents.len() as u32;
        let mut news = Vec::new();
        for message in messages {
            match prepare(&message.into()) {
                Ok((new, content)) => {
                    news.push(new);
                    self.contents.push(content);
                }
                Err(error) => {
                    self.wrong.get_or_insert(error);
                }
            }
        }
        let queue = queue.name().clone();
        self.steps.push(Step::Send { queue, messages: news.into(), first });
        self
    }

    /// Leaves a state in a held session; `None` clears it.
    pub fn set_state(mut self, session: &Session, state: Option<Bytes>) -> Self {
        let queue = session.queue();
        self.belongs(queue);
        let (queue, token) = (queue.name().clone(), session.token().clone());
        let state = state.map(|state| self.add(state));
        self.steps.push(Step::SetSessionState { queue, token, state });
        self
    }

    /// Takes back scheduled messages.
    pub fn cancel(
        mut self,
        queue: &Queue,
        sequences: impl IntoIterator<Item = SequenceNumber>,
    ) -> Self {
        self.belongs(queue);
        let (queue, sequences) = (queue.name().clone(), sequences.into_iter().collect());
        self.steps.push(Step::Cancel { queue, sequences });
        self
    }

    /// Sends a message and keeps a result for it under its id, for so long after it was last
    /// written. If one is kept under that id already, nothing is sent ([`Queue::request`]).
    pub fn request(mut self, queue: &Queue, message: impl Into<Message>, keep: Duration) -> Self {
        self.belongs(queue);
        let message = message.into();
        let prepared = prepare(&message).and_then(|(new, content)| {
            let key = NoteKey::new(message.id.as_deref().unwrap_or_default())?;
            Ok((new, content, key))
        });
        match prepared {
            Ok((new, bytes, key)) => {
                let (queue, ttl_ms) = (queue.name().clone(), ms(keep));
                let content = self.add(bytes).index;
                self.steps.push(Step::Request { queue, message: new, content, key, ttl_ms });
            }
            Err(error) => self.wrong = self.wrong.take().or(Some(error)),
        }
        self
    }

    /// The work is done: the message goes, and this is its result ([`Delivery::reply`]).
    pub fn reply(self, delivery: Delivery, answer: impl Into<Message>) -> Self {
        self.answer(delivery, Report::Succeeded, answer.into())
    }

    /// The work cannot be done: the message goes, and this is why, for whoever asked.
    pub fn reply_failure(self, delivery: Delivery, why: impl Into<Message>) -> Self {
        self.answer(delivery, Report::Failed, why.into())
    }

    /// Writes the result of the message with this id, unless a final one is there. One that nobody
    /// asked for is kept only if it says for how long.
    pub fn report(
        mut self,
        queue: &Queue,
        id: &str,
        report: Report,
        message: Option<Message>,
        keep: Option<Duration>,
    ) -> Self {
        self.belongs(queue);
        match NoteKey::new(id) {
            Ok(key) => {
                let content = message.map(|message| self.add(answer_content(&message)));
                let (queue, ttl_ms) = (queue.name().clone(), keep.map(ms));
                self.steps.push(Step::Report { queue, key, report, content, ttl_ms });
            }
            Err(refusal) => self.wrong = self.wrong.take().or(Some(refusal.into())),
        }
        self
    }

    /// The claimed work is done, and this came of it: marked in the same step in which everything
    /// else happens.
    pub fn finish(mut self, claim: Claim, outcome: impl Into<Bytes>) -> Self {
        self.is_of(&claim.inner);
        let content = Some(self.add(outcome.into()));
        let Claim { scope, key, token, .. } = claim;
        self.steps.push(Step::Finish { scope, key, token, content });
        self
    }

    /// The claimed work was not done: whoever claims it next has it at once.
    pub fn give_up(mut self, claim: Claim) -> Self {
        self.is_of(&claim.inner);
        let Claim { scope, key, token, .. } = claim;
        self.steps.push(Step::GiveUp { scope, key, token });
        self
    }

    /// An answer goes to the result, and to the queue that the request names, if it names one.
    fn answer(mut self, delivery: Delivery, report: Report, mut answer: Message) -> Self {
        let id = delivery.id.clone();
        if let Some(id) = &id {
            let queue = delivery.queue().clone();
            self = self.report(&queue, id, report, Some(answer.clone()), None);
        }
        if let Some(reply_to) = &delivery.reply_to {
            answer.correlation_id = answer.correlation_id.or(id);
            answer.session = answer.session.or_else(|| delivery.reply_to_session.clone());
            match QueueName::new(reply_to) {
                Ok(name) => {
                    let queue = Queue::new(Arc::clone(&self.inner), name);
                    self = self.send(&queue, answer);
                }
                Err(refusal) => self.wrong = self.wrong.take().or(Some(refusal.into())),
            }
        }
        self.complete(delivery)
    }

    /// All of it happens only if this term is held then, as in
    /// [`Queue::with_fence`]. Handles that carry a fence bring it along.
    pub fn with_fence(mut self, fence: &Fence) -> Self {
        if self.fence.as_ref().is_some_and(|other| other != fence) {
            let why = "a transaction is asked under one fence, and two were named; use handles of \
                       one term";
            self.refuse("fence", why);
        }
        self.fence = Some(fence.clone());
        self
    }

    /// Does all of it, or nothing. When this returns it is flushed to disk.
    ///
    /// Dropping the future before it is ready leaves open whether it happened; if it did not, the
    /// deliveries are given back.
    pub async fn commit(mut self) -> Result<Committed, Error> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        let command = Command::Transact { steps: std::mem::take(&mut self.steps) };
        let contents = std::mem::take(&mut self.contents).into();
        let reply = self.inner.ask_under(self.fence.as_ref(), command, contents).await?;
        for delivery in self.deliveries.drain(..) {
            delivery.keep();
        }
        match reply.outcome {
            Outcome::Transacted(sends) => {
                let numbers = |sequences: &Sequences| sequences.iter().collect();
                Ok(Committed { sent: sends.iter().map(numbers).collect() })
            }
            other => unreachable_outcome(&other),
        }
    }

    fn settle(mut self, delivery: Delivery, disposition: Disposition) -> Self {
        self.belongs(delivery.queue());
        let overlay = delivery.changes().map(|changes| self.add(changes));
        let settlement = Settlement { token: delivery.token(), disposition, overlay };
        self.steps.push(Step::Settle { from: delivery.queue().path.clone(), settlement });
        self.deliveries.push(delivery);
        self
    }

    fn add(&mut self, content: Bytes) -> NewContent {
        let index = self.contents.len() as u32;
        let bytes = u32::try_from(content.len()).unwrap_or(u32::MAX);
        self.contents.push(content);
        NewContent { index, bytes }
    }

    /// All handles must be of one store, and of one fence.
    fn belongs(&mut self, queue: &Queue) {
        self.is_of(&queue.inner);
        match (&self.fence, &queue.fence) {
            (None, Some(fence)) => self.fence = Some(fence.clone()),
            (Some(one), Some(other)) if one != other => {
                let why = "a transaction is asked under one fence, and handles bring two; use \
                           handles of one term";
                self.refuse("fence", why);
            }
            _ => {}
        }
    }

    fn is_of(&mut self, inner: &Arc<Inner>) {
        if !Arc::ptr_eq(&self.inner, inner) {
            let why = "a transaction is of one store, and a handle is of another; use handles of \
                       the one that began it";
            self.refuse("steps", why);
        }
    }

    fn refuse(&mut self, what: &'static str, why: &str) {
        let refusal = Refusal::InvalidValue { what, why: why.into() };
        self.wrong.get_or_insert(refusal.into());
    }
}
