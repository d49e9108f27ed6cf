//! How long and how large a request's body may be.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::time::Sleep;

use super::problem::{Kind, Problem};

/// The limits of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    pub(crate) bytes_max: u64,
    pub(crate) time_max: Duration,
}

/// Why the rest of a body is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyFault {
    #[error("the body has more than {0} bytes; send less at once, or raise http_body_bytes_max")]
    TooLong(u64),
    #[error("the body did not come within http_body_ms_max")]
    Late,
}

impl From<BodyFault> for Box<Problem> {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::TooLong(max) => Problem::new(Kind::TooLarge, fault.to_string()).limit(max),
            BodyFault::Late => Problem::new(Kind::BodyLate, fault.to_string()),
        }
    }
}

/// Refuses a body that says it is too long before a byte of it is read. One that does not say so is
/// cut off where it is too long, and one that comes too slowly when its time is over.
pub(crate) async fn check(
    State(limits): State<BodyLimits>,
    request: Request,
    next: Next,
) -> Response {
    let told = request.headers().get(header::CONTENT_LENGTH);
    let told = told.and_then(|bytes| bytes.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|bytes| bytes > limits.bytes_max) {
        let problem: Box<Problem> = BodyFault::TooLong(limits.bytes_max).into();
        return problem.into_response();
    }
    let is_empty = request.body().is_end_stream();
    let request = if is_empty { request } else { request.map(|body| limits.hold(body)) };
    next.run(request).await
}

impl BodyLimits {
    fn hold(self, body: Body) -> Body {
        let over = Box::pin(tokio::time::sleep(self.time_max));
        Body::new(Held { body, left: self.bytes_max, limits: self, over })
    }
}

/// A body that fails when it is too long, or when its time is over.
struct Held {
    body: Body,
    left: u64,
    limits: BodyLimits,
    over: Pin<Box<Sleep>>,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            std::task::ready!(self.over.as_mut().poll(cx));
            return Poll::Ready(Some(Err(BodyFault::Late.into())));
        };
        let bytes = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, |data| data.len() as u64),
            _ => 0,
        };
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => {
                return Poll::Ready(Some(Err(BodyFault::TooLong(self.limits.bytes_max).into())));
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
