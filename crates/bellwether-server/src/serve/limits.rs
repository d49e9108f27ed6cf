//! How long and how large a request's body may be.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Sleep;

use super::problem;

/// The limits of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimits {
    pub(super) bytes_max: u64,
    pub(super) time_max: Duration,
}

/// Refuses a body that says it is too long before a byte of it is read, and gives one that comes
/// too slowly an end. One that does not say how long it is is cut off by whoever reads it.
pub(super) async fn check(
    State(limits): State<BodyLimits>,
    request: Request,
    next: Next,
) -> Response {
    let told = request.headers().get(header::CONTENT_LENGTH);
    let told = told.and_then(|bytes| bytes.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|bytes| bytes > limits.bytes_max) {
        let max = limits.bytes_max;
        let detail = format!(
            "the body has {} bytes and may have {max}; send less at once, or raise \
             http_body_bytes_max",
            told.unwrap_or_default()
        );
        return problem(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long", &detail);
    }
    let is_empty = request.body().is_end_stream();
    let request = if is_empty { request } else { request.map(|body| limits.in_time(body)) };
    next.run(request).await
}

impl BodyLimits {
    fn in_time(self, body: Body) -> Body {
        Body::new(InTime { body, over: Box::pin(tokio::time::sleep(self.time_max)) })
    }
}

/// A body that fails when its time is over.
struct InTime {
    body: Body,
    over: Pin<Box<Sleep>>,
}

impl HttpBody for InTime {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        std::task::ready!(self.over.as_mut().poll(cx));
        let late = "the body did not come within http_body_ms_max";
        Poll::Ready(Some(Err(late.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
