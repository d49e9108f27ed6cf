//! The spans: one of a request, one of what it does to messages.

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{HOST, USER_AGENT};
use axum::middleware::Next;
use axum::response::Response;
use bellwether::message::TraceContext;
use opentelemetry::trace::{
    SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId,
    TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue};

use super::Traces;
use crate::http::trace_of;

const SYSTEM: &str = "bellwether";

/// The span of a request, as the request carries it.
#[derive(Clone, Debug)]
pub(crate) struct RequestSpan {
    traces: Traces,
    context: Context,
}

/// The span of what is done to messages; over when it is dropped.
#[derive(Debug)]
pub(crate) struct OperationSpan(Context);

/// What is done to messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// `is_origin`: some of the messages belong to no trace but this one.
    Send {
        is_origin: bool,
    },
    Receive,
    /// In the disposition's word.
    Settle(&'static str),
}

pub(super) async fn of_request(
    State(traces): State<Traces>,
    mut request: Request,
    next: Next,
) -> Response {
    let context = traces.enter(&request);
    request.extensions_mut().insert(RequestSpan { traces, context: context.clone() });
    let response = next.run(request).await;
    let (span, status) = (context.span(), response.status());
    span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
    if status.is_server_error() {
        span.set_attribute(KeyValue::new("error.type", status.as_str().to_owned()));
        span.set_status(Status::error(""));
    }
    // One whose caller went away ends where it is dropped, without a status.
    span.end();
    response
}

impl Traces {
    /// Starts the span of a request, under the one its caller names.
    fn enter(&self, request: &Request) -> Context {
        let parent = trace_of(request.headers());
        let parent = parent.map_or_else(Context::new, |parent| {
            Context::new().with_remote_span_context(span_context(&parent))
        });
        let method = request.method().as_str();
        let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        let name = route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}"));
        let mut attributes = vec![
            KeyValue::new("http.request.method", method.to_owned()),
            KeyValue::new("url.path", request.uri().path().to_owned()),
            KeyValue::new("url.scheme", "http"),
        ];
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        let texts = [
            ("http.route", route),
            ("server.address", header(HOST)),
            ("user_agent.original", header(USER_AGENT)),
        ];
        for (name, text) in texts {
            attributes.extend(text.map(|text| KeyValue::new(name, text.to_owned())));
        }
        let span = SpanBuilder::from_name(name).with_kind(SpanKind::Server);
        let span = self.0.tracer.build_with_context(span.with_attributes(attributes), &parent);
        parent.with_span(span)
    }
}

impl RequestSpan {
    /// Starts the span of what the request does to the messages of a queue.
    pub(crate) fn operation(&self, operation: Operation, queue: &str) -> OperationSpan {
        let (name, kind, span_kind) = match operation {
            Operation::Send { is_origin: true } => ("send", "send", SpanKind::Producer),
            Operation::Send { is_origin: false } => ("send", "send", SpanKind::Client),
            Operation::Receive => ("receive", "receive", SpanKind::Client),
            Operation::Settle(word) => (word, "settle", SpanKind::Client),
        };
        let span = SpanBuilder::from_name(format!("{name} {queue}"))
            .with_kind(span_kind)
            .with_attributes([
                KeyValue::new("messaging.system", SYSTEM),
                KeyValue::new("messaging.operation.name", name),
                KeyValue::new("messaging.operation.type", kind),
                KeyValue::new("messaging.destination.name", queue.to_owned()),
            ]);
        let span = self.traces.0.tracer.build_with_context(span, &self.context);
        OperationSpan(self.context.with_span(span))
    }
}

impl OperationSpan {
    /// What a message carries that was sent here.
    pub(crate) fn context(&self) -> TraceContext {
        let span = self.0.span();
        let context = span.span_context();
        TraceContext {
            trace_id: u128::from_be_bytes(context.trace_id().to_bytes()),
            span_id: u64::from_be_bytes(context.span_id().to_bytes()),
            flags: context.trace_flags().to_u8(),
            state: context.trace_state().header(),
        }
    }

    /// It has to do with a message of this trace.
    pub(crate) fn link(&self, context: &TraceContext) {
        self.0.span().add_link(span_context(context), Vec::new());
    }

    /// How many messages there were; of a single one, its id.
    pub(crate) fn messages(&self, count: usize, id: Option<&str>) {
        let span = self.0.span();
        if count != 1 {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            span.set_attribute(KeyValue::new("messaging.batch.message_count", count));
        } else if let Some(id) = id {
            span.set_attribute(KeyValue::new("messaging.message.id", id.to_owned()));
        }
    }

    /// It was not done; `why` is the problem's name.
    pub(crate) fn failed(&self, why: &str) {
        let span = self.0.span();
        span.set_attribute(KeyValue::new("error.type", why.to_owned()));
        span.set_status(Status::error(""));
    }
}

fn span_context(context: &TraceContext) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(context.trace_id.to_be_bytes()),
        SpanId::from_bytes(context.span_id.to_be_bytes()),
        TraceFlags::new(context.flags),
        true,
        context.state.parse::<TraceState>().unwrap_or_default(),
    )
}
