//! A reply, and the end of the request it answers.
//!
//! The reply is sent first and the request completed then: whoever dies in between answers twice, and
//! never not at all. Both replies have the same id, made of the request's queue, number and time, so a
//! reply queue that detects duplicates keeps one of them.

use bellwether_core::name::QueueName;

use super::verdict::{Failure, Verdict};
use crate::delivery::Delivery;
use crate::message::Message;
use crate::queue::Queue;

/// Sends the reply to where the request says; what is left to do with the request. The lock is kept
/// meanwhile. A request that names no queue wants no reply.
pub(super) async fn send(request: &Delivery, reply: Message) -> Result<Verdict, Failure> {
    let Some(to) = &request.reply_to else { return Ok(Verdict::Complete) };
    let from = request.queue();
    let name = match QueueName::new(to.as_str()) {
        Ok(name) => name,
        // No retry makes it a name.
        Err(refusal) => return Ok(Verdict::dead_letter("BadReplyTo", refusal.to_string())),
    };
    let to = Queue { fence: from.fence.clone(), ..Queue::new(from.inner.clone(), name) };
    to.send(addressed(request, reply)).await.map_err(|error| {
        Failure::from(format!("its reply could not be sent to queue {:?}: {error}", to.name()))
    })?;
    Ok(Verdict::Complete)
}

/// What the handler has said itself stands.
fn addressed(request: &Delivery, mut reply: Message) -> Message {
    let (from, sequence) = (request.queue().name(), request.sequence());
    let enqueued_at = request.received().enqueued_at().0;
    reply.id.get_or_insert_with(|| format!("reply-{from}-{sequence}-{enqueued_at}"));
    reply.correlation_id = reply.correlation_id.or_else(|| request.id.clone());
    reply.session = reply.session.or_else(|| request.reply_to_session.clone());
    reply
}
