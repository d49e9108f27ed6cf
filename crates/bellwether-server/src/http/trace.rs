//! The trace that a request belongs to, and how its messages come to know of it.

use axum::http::HeaderMap;
use axum::http::request::Parts;
use bellwether::core::name::{Part, QueuePath};
use bellwether::message::{Message, TraceContext};

use super::problem::Told;
use crate::observe::traces::{Operation, OperationSpan, RequestSpan};

/// The trace context that the headers name, if they name one.
pub(crate) fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let parent = parents.next()?.to_str().ok()?;
    if parents.next().is_some() {
        return None;
    }
    let states = headers.get_all("tracestate").iter().filter_map(|state| state.to_str().ok());
    let states = states.collect::<Vec<_>>().join(",");
    TraceContext::parse(parent, Some(&states))
}

/// What is known of a request's trace. Nothing, as a rule.
#[derive(Debug)]
pub(crate) enum Trace {
    Unknown,
    /// Only the caller follows it.
    Caller(TraceContext),
    /// This server does, too.
    Ours(RequestSpan),
}

impl Trace {
    pub(crate) fn of(parts: &Parts) -> Self {
        match parts.extensions.get::<RequestSpan>() {
            Some(span) => Self::Ours(span.clone()),
            None => trace_of(&parts.headers).map_or(Self::Unknown, Self::Caller),
        }
    }

    /// Begins to send. A message that brings its context keeps it; others get the request's.
    pub(crate) fn send(&self, queue: &str, messages: &mut [Message]) -> Traced {
        match self {
            Self::Unknown => Traced(None),
            Self::Caller(context) => {
                for message in messages.iter_mut().filter(|message| message.traced().is_none()) {
                    message.set_trace_context(context);
                }
                Traced(None)
            }
            Self::Ours(span) => {
                let brought: Vec<_> = messages.iter().map(Message::traced).collect();
                let is_origin = brought.iter().any(Option::is_none);
                let span = span.operation(Operation::Send { is_origin }, queue);
                let context = span.context();
                for (message, brought) in messages.iter_mut().zip(brought) {
                    match brought {
                        Some(brought) => span.link(&brought),
                        None => message.set_trace_context(&context),
                    }
                }
                span.messages(messages.len(), messages.first().and_then(|one| one.id.as_deref()));
                Traced(Some(span))
            }
        }
    }

    /// Begins to receive.
    pub(crate) fn receive(&self, from: &QueuePath) -> Traced {
        self.begin(Operation::Receive, from)
    }

    /// Begins to settle so many deliveries, in the disposition's word.
    pub(crate) fn settle(&self, word: &'static str, from: &QueuePath, count: usize) -> Traced {
        let traced = self.begin(Operation::Settle(word), from);
        if let Some(span) = &traced.0 {
            span.messages(count, None);
        }
        traced
    }

    fn begin(&self, operation: Operation, from: &QueuePath) -> Traced {
        let Self::Ours(span) = self else { return Traced(None) };
        let dead = if from.part == Part::Dead { "/dead-letters" } else { "" };
        Traced(Some(span.operation(operation, &format!("{}{dead}", from.queue))))
    }
}

/// Something that is done to messages, followed if somebody follows; over when it is dropped.
#[derive(Debug)]
pub(crate) struct Traced(Option<OperationSpan>);

impl Traced {
    /// These are what was received.
    pub(crate) fn received<'a>(&self, messages: impl ExactSizeIterator<Item = &'a Message>) {
        let Some(span) = &self.0 else { return };
        let (count, mut id) = (messages.len(), None);
        for message in messages {
            id = message.id.as_deref();
            if let Some(context) = message.traced() {
                span.link(&context);
            }
        }
        span.messages(count, id);
    }

    /// Notes down how it ended.
    pub(crate) fn ended<T>(&self, told: Told<T>) -> Told<T> {
        if let (Some(span), Err(problem)) = (&self.0, &told) {
            span.failed(problem.kind_name());
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_belongs_to_one_trace_or_to_none() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let mut headers = HeaderMap::new();
        assert_eq!(trace_of(&headers), None);
        headers.append("traceparent", parent.parse().unwrap());
        headers.append("tracestate", "a=1".parse().unwrap());
        headers.append("tracestate", "b=2".parse().unwrap());
        assert_eq!(trace_of(&headers), TraceContext::parse(parent, Some("a=1,b=2")));
        headers.append("traceparent", parent.parse().unwrap());
        assert_eq!(trace_of(&headers), None, "two are none");
    }
}
