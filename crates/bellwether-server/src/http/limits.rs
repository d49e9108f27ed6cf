//! How long and how large a request's body may be.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::time::{Instant, Sleep};

use super::problem::{Kind, Problem};

/// How long a body that is refused is thrown away, at most.
const THROW_AWAY_MAX: Duration = Duration::from_secs(1);

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

/// Refuses a body that is too long, whether it says so or not, and one that comes too slowly. Of one
/// that is too long about as much again is thrown away, for a moment: a client that is still sending
/// when we close may never read the answer.
pub(crate) async fn check(
    State(limits): State<BodyLimits>,
    request: Request,
    next: Next,
) -> Response {
    let told = request.headers().get(header::CONTENT_LENGTH);
    let told = told.and_then(|bytes| bytes.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|bytes| bytes > limits.bytes_max) {
        // Who asks before it sends is not sending.
        if !request.headers().contains_key(header::EXPECT) {
            let mut held = limits.hold(request.into_body());
            held.refuse();
            let _ = axum::body::to_bytes(Body::new(held), usize::MAX).await;
        }
        let problem: Box<Problem> = BodyFault::TooLong(limits.bytes_max).into();
        return problem.into_response();
    }
    let is_empty = request.body().is_end_stream();
    let hold = |body| Body::new(limits.hold(body));
    next.run(if is_empty { request } else { request.map(hold) }).await
}

impl BodyLimits {
    fn hold(self, body: Body) -> Held {
        let over = Box::pin(tokio::time::sleep(self.time_max));
        Held { body, left: self.bytes_max, limits: self, over, is_too_long: false }
    }
}

/// A body that fails when it is too long, or when its time is over.
struct Held {
    body: Body,
    left: u64,
    limits: BodyLimits,
    over: Pin<Box<Sleep>>,
    /// Everything is thrown away from here on.
    is_too_long: bool,
}

impl Held {
    fn refuse(&mut self) {
        self.is_too_long = true;
        self.left = self.limits.bytes_max;
        self.over.as_mut().reset(Instant::now() + THROW_AWAY_MAX);
    }

    fn too_long<T>(&self) -> Poll<Option<Result<T, axum::BoxError>>> {
        Poll::Ready(Some(Err(BodyFault::TooLong(self.limits.bytes_max).into())))
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                std::task::ready!(self.over.as_mut().poll(cx));
                let late = Poll::Ready(Some(Err(BodyFault::Late.into())));
                return if self.is_too_long { self.too_long() } else { late };
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                _ if self.is_too_long => return self.too_long(),
                end => return Poll::Ready(end.map(|end| end.map_err(Into::into))),
            };
            let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
            match self.left.checked_sub(bytes) {
                Some(left) => self.left = left,
                None if self.is_too_long => return self.too_long(),
                None => self.refuse(),
            }
            if !self.is_too_long {
                return Poll::Ready(Some(Ok(frame)));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
