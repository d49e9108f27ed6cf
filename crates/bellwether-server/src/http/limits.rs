//! How large, how late and how slow a request's body may be.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bellwether::wire::accept::{Budget, Pace, Share};
use tokio::time::{Instant, Sleep};

use super::problem::{Kind, Problem};
use crate::serve::refuse::refuse;
use crate::serve::tally::Tally;

/// How long a body that is refused is thrown away, at most.
const THROW_AWAY_MAX: Duration = Duration::from_secs(1);

/// The limits of a body.
#[derive(Clone, Debug)]
pub(crate) struct BodyLimits {
    pub(crate) bytes_max: u64,
    pub(crate) time_max: Duration,
    pub(crate) pace: Pace,
    /// What all bodies, and asks over the wire, may take together.
    pub(crate) budget: Arc<Budget>,
    /// How often each was broken.
    pub(crate) refused: Arc<Tally<4>>,
}

/// Why the rest of a body is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyFault {
    #[error("the body has more than {0} bytes; send less at once, or raise http_body_bytes_max")]
    TooLong(u64),
    #[error("the body did not come within http_body_ms_max")]
    Late,
    #[error("the body came more slowly than pace_bytes_per_s_min")]
    Slow,
    #[error("all requests together have reached asks_bytes_max; try again")]
    NoRoom,
}

impl From<BodyFault> for Box<Problem> {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::TooLong(max) => Problem::new(Kind::TooLarge, fault.to_string()).limit(max),
            BodyFault::Late | BodyFault::Slow => Problem::new(Kind::BodyLate, fault.to_string()),
            BodyFault::NoRoom => Problem::new(Kind::Busy, fault.to_string()).retry_after(1000),
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
    if !has_one_end(request.headers()) {
        limits.refused.count("unclear");
        let detail = "the body's end is told in no clear way; send one Content-Length, or one \
                      Transfer-Encoding that is chunked";
        let mut answer = Problem::bad_request(detail).into_response();
        // What follows may be anything.
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return answer;
    }
    let told = request.headers().get(header::CONTENT_LENGTH);
    let told = told.and_then(|bytes| bytes.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|bytes| bytes > limits.bytes_max) {
        limits.refused.count("too_long");
        // Who asks before it sends is not sending.
        if !request.headers().contains_key(header::EXPECT) {
            let share = Arc::new(limits.budget.share());
            let mut held = limits.clone().hold(request.into_body(), share);
            held.refuse();
            let _ = axum::body::to_bytes(Body::new(held), usize::MAX).await;
        }
        let problem: Box<Problem> = BodyFault::TooLong(limits.bytes_max).into();
        return problem.into_response();
    }
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let share = Arc::new(limits.budget.share());
    // Better now than when it was sent in vain. But room is taken by bytes, not by promises.
    if told.is_some_and(|bytes| !share.hold(usize::try_from(bytes).unwrap_or(usize::MAX))) {
        return refuse(BodyFault::NoRoom.into(), request).await;
    }
    share.hold(0);
    let held = |body| Body::new(limits.hold(body, Arc::clone(&share)));
    // The share is held until the answer is there: what was read goes on into the store.
    next.run(request.map(held)).await
}

/// Whether everybody on the way here finds the same end of the body. The library that reads requests
/// takes a list of encodings if the last one is known; a proxy may look at the first.
fn has_one_end(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    match (encodings.next(), lengths.next()) {
        (None, _) => lengths.next().is_none(),
        (Some(encoding), None) => {
            encoding.as_bytes().eq_ignore_ascii_case(b"chunked") && encodings.next().is_none()
        }
        (Some(_), Some(_)) => false,
    }
}

impl BodyLimits {
    fn hold(self, body: Body, share: Arc<Share>) -> Held {
        let now = Instant::now();
        let (over_at, left) = (now + self.time_max, self.bytes_max);
        let look_at = self.next_look(now).min(over_at);
        let look = Box::pin(tokio::time::sleep_until(look_at));
        Held { body, left, limits: self, share, over_at, look, moved: 0, is_too_long: false }
    }

    fn next_look(&self, now: Instant) -> Instant {
        now + Duration::from_millis(self.pace.over_ms.into())
    }
}

/// A body that fails when it is too long, too slow, or when its time is over.
struct Held {
    body: Body,
    left: u64,
    limits: BodyLimits,
    share: Arc<Share>,
    over_at: Instant,
    /// The next look at its pace, or its end.
    look: Pin<Box<Sleep>>,
    /// Bytes since the last look.
    moved: u64,
    /// Everything is thrown away from here on.
    is_too_long: bool,
}

impl Held {
    fn refuse(&mut self) {
        self.is_too_long = true;
        self.left = self.limits.bytes_max;
        self.over_at = Instant::now() + THROW_AWAY_MAX;
        self.look.as_mut().reset(self.over_at);
    }

    /// Nothing of it has come now. Why it is not waited for any longer.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<BodyFault> {
        loop {
            std::task::ready!(self.look.as_mut().poll(cx));
            let now = Instant::now();
            if self.is_too_long {
                return Poll::Ready(BodyFault::TooLong(self.limits.bytes_max));
            }
            if now >= self.over_at {
                self.limits.refused.count("late");
                return Poll::Ready(BodyFault::Late);
            }
            if std::mem::take(&mut self.moved) < self.limits.pace.bytes_min() {
                self.limits.refused.count("slow");
                return Poll::Ready(BodyFault::Slow);
            }
            let next = self.limits.next_look(now).min(self.over_at);
            self.look.as_mut().reset(next);
        }
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
                return self.poll_late(cx).map(|fault| Some(Err(fault.into())));
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                _ if self.is_too_long => return self.too_long(),
                end => return Poll::Ready(end.map(|end| end.map_err(Into::into))),
            };
            let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
            self.moved += bytes;
            match self.left.checked_sub(bytes) {
                Some(left) => self.left = left,
                None if self.is_too_long => return self.too_long(),
                None => {
                    self.limits.refused.count("too_long");
                    self.refuse();
                }
            }
            if self.is_too_long {
                continue;
            }
            let read = usize::try_from(self.limits.bytes_max - self.left).unwrap_or(usize::MAX);
            return Poll::Ready(Some(if self.share.hold(read) {
                Ok(frame)
            } else {
                Err(BodyFault::NoRoom.into())
            }));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
