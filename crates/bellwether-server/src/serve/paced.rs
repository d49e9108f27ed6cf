//! A connection of HTTP whose other side must not keep us waiting.
//!
//! ```text
//!   accepted ─► head ─► request and answer ─► idle ─┐
//!                ▲                                  │ first byte
//!                └──────────────────────────────────┘
//! ```
//!
//! 1. A head comes within `http_head_ms_max` of its first byte, the first one of the connection's
//!    beginning; between two requests the connection may be idle for `http_idle_ms_max`. The
//!    library that speaks HTTP has one limit for both.
//! 2. An answer is taken at the pace that the settings name. A body's pace is watched where it is
//!    read (`http/limits.rs`).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use bellwether::wire::accept::Pace;
use futures_util::task::AtomicWaker;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::connections::Connections;
use crate::config::Config;

/// See the module.
#[derive(Debug)]
pub(super) struct Paced<S> {
    stream: S,
    connections: Arc<Connections>,
    times: Times,
    asked: Arc<Asked>,
    /// What `asked` was when it was looked at last.
    seen: u64,
    step: Step,
    reading: Pin<Box<Sleep>>,
    /// While the other side does not take what is written: until when so much must have been.
    writing: Option<Pin<Box<Sleep>>>,
    written: u64,
}

/// How often a request was begun or ended: odd while one is being answered.
#[derive(Debug, Default)]
pub(super) struct Asked {
    count: AtomicU64,
    /// Wakes who has nothing to read while one is being answered: the next wait has begun.
    waker: AtomicWaker,
}

impl Asked {
    /// A request has come.
    pub(super) fn begin(&self) {
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Its answer; when all of that was taken, the request has ended.
    pub(super) fn answer(self: Arc<Self>, answer: Response) -> Response<Answer> {
        answer.map(|body| Answer { body, asked: self })
    }
}

/// The body of an answer.
pub(super) struct Answer {
    body: Body,
    asked: Arc<Asked>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.asked.count.fetch_add(1, Ordering::Release);
        self.asked.waker.wake();
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[derive(Clone, Copy, Debug)]
struct Times {
    head: Duration,
    idle: Duration,
    pace: Pace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Head,
    Answering,
    Idle,
}

impl<S> Paced<S> {
    pub(super) fn new(
        stream: S,
        config: &Config,
        connections: &Arc<Connections>,
        asked: Arc<Asked>,
    ) -> Self {
        let times = Times {
            head: config.http_head_ms_max.ms(),
            idle: config.http_idle_ms_max.ms(),
            pace: config.pace(),
        };
        Self {
            stream,
            connections: Arc::clone(connections),
            times,
            asked,
            seen: 0,
            step: Step::Head,
            reading: Box::pin(tokio::time::sleep(times.head)),
            writing: None,
            written: 0,
        }
    }

    /// Which step it is. Bytes have come, or nothing can be read now.
    fn keep_up(&mut self, has_bytes: bool) {
        let asked = self.asked.count.load(Ordering::Acquire);
        if asked != self.seen {
            self.seen = asked;
            self.step = Step::Answering;
        }
        let is_between = asked.is_multiple_of(2);
        let (step, wait) = match self.step {
            Step::Answering | Step::Idle if is_between && has_bytes => {
                (Step::Head, self.times.head)
            }
            Step::Answering if is_between => (Step::Idle, self.times.idle),
            _ => return,
        };
        self.step = step;
        self.reading.as_mut().reset(Instant::now() + wait);
    }

    /// Nothing can be read now. Whether that is too much.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.keep_up(false);
        if self.step == Step::Answering {
            self.asked.waker.register(cx.waker());
            // The answer may have ended before we listened.
            self.keep_up(false);
        }
        if self.step == Step::Answering {
            return Poll::Pending;
        }
        std::task::ready!(self.reading.as_mut().poll(cx));
        let (reason, why) = match self.step {
            Step::Idle => ("idle", "no request came within http_idle_ms_max"),
            _ => ("head", "no complete request head came within http_head_ms_max"),
        };
        self.connections.http_dropped.count(reason);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }

    /// Nothing can be written now. Whether that is too much.
    fn poll_reader(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let (bytes_min, over_ms) = (self.times.pace.bytes_min(), self.times.pace.over_ms);
        if bytes_min == 0 {
            return Poll::Pending;
        }
        let over = Duration::from_millis(over_ms.into());
        loop {
            let sleep = || Box::pin(tokio::time::sleep(over));
            let writing = self.writing.get_or_insert_with(sleep);
            std::task::ready!(writing.as_mut().poll(cx));
            if std::mem::take(&mut self.written) < bytes_min {
                self.connections.http_dropped.count("reader");
                let why = "the answer is read more slowly than pace_bytes_per_s_min";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
            self.writing = None;
        }
    }

    fn note_written(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.written += *bytes as u64;
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_pending() {
            return self.poll_head(cx);
        }
        if buf.filled().len() > before {
            self.keep_up(true);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_pending() { self.poll_reader(cx) } else { self.note_written(written) }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        if written.is_pending() { self.poll_reader(cx) } else { self.note_written(written) }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // All that was to be written was taken.
        (self.writing, self.written) = (None, 0);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
