//! Whether the other side lives and keeps pace, by one timer.
//!
//! ```text
//!   nothing is under way ──► a look every silence_ms_max
//!   a frame has begun, or answers wait to be read ──► a look after pace.over_ms
//! ```
//!
//! A call sets no timer: the next look comes when it would have come anyway, and is only brought
//! forward when a connection falls asleep over something unfinished.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::{Late, Limits};

/// See the module.
#[derive(Debug)]
pub(super) struct Looks {
    timer: Pin<Box<Sleep>>,
    /// When something of what is under way must have moved.
    near_at: Option<Instant>,
    /// When something must have been heard.
    life_at: Instant,
    is_heard: bool,
    moved: Moved,
}

/// What has moved since the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    read_bytes: u64,
    written_bytes: u64,
    /// The frame that was under way is whole.
    is_framed: bool,
    /// Everything was written.
    is_drained: bool,
}

/// What is unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnderWay {
    /// The other side has sent the front of a frame.
    pub(super) frame: bool,
    /// The other side has not taken all that was said to it.
    pub(super) answers: bool,
}

impl UnderWay {
    fn is_anything(self) -> bool {
        self.frame || self.answers
    }
}

impl Looks {
    /// The first look: whether hello was said.
    pub(super) fn new(limits: &Limits) -> Self {
        let wait = Duration::from_millis(limits.hello_ms_max.into());
        let life_at = Instant::now() + wait;
        let timer = Box::pin(tokio::time::sleep_until(life_at));
        Self { timer, near_at: None, life_at, is_heard: false, moved: Moved::default() }
    }

    /// Hello was said.
    pub(super) fn greeted(&mut self, limits: &Limits) {
        self.life_at = Instant::now() + silence(limits);
        self.timer.as_mut().reset(self.life_at);
    }

    /// Hello was said by one who is not let in: the next look is when he is told so.
    pub(super) fn turned(&mut self, after: Duration) {
        self.life_at = Instant::now() + after;
        self.timer.as_mut().reset(self.life_at);
    }

    pub(super) fn read(&mut self, bytes: usize) {
        self.is_heard = true;
        self.moved.read_bytes += bytes as u64;
    }

    pub(super) fn framed(&mut self) {
        self.moved.is_framed = true;
    }

    pub(super) fn written(&mut self, bytes: usize) {
        self.moved.written_bytes += bytes as u64;
    }

    pub(super) fn drained(&mut self) {
        self.moved.is_drained = true;
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.as_mut().poll(cx)
    }

    /// The connection falls asleep. True if the next look was brought forward.
    pub(super) fn sleep_over(&mut self, under_way: UnderWay, limits: &Limits) -> bool {
        if self.near_at.is_some() || !under_way.is_anything() || limits.pace.bytes_min() == 0 {
            return false;
        }
        self.moved = Moved::default();
        self.near_at = Some(Instant::now() + over(limits));
        self.set();
        true
    }

    /// Looks: what is late, if anything is. The next look is set.
    pub(super) fn look(&mut self, under_way: UnderWay, limits: &Limits) -> Option<Late> {
        let now = Instant::now();
        if self.near_at.is_some_and(|near_at| now >= near_at) {
            let moved = std::mem::take(&mut self.moved);
            let bytes_min = limits.pace.bytes_min();
            if under_way.answers && !moved.is_drained && moved.written_bytes < bytes_min {
                return Some(Late::Reader);
            }
            if under_way.frame && !moved.is_framed && moved.read_bytes < bytes_min {
                return Some(Late::Frame);
            }
            self.near_at = under_way.is_anything().then(|| now + over(limits));
        }
        if now >= self.life_at {
            if !std::mem::take(&mut self.is_heard) {
                return Some(Late::Silent);
            }
            self.life_at = now + silence(limits);
        }
        self.set();
        None
    }

    /// Sets the next look.
    fn set(&mut self) {
        let next = self.near_at.map_or(self.life_at, |near_at| near_at.min(self.life_at));
        self.timer.as_mut().reset(next);
    }
}

fn silence(limits: &Limits) -> Duration {
    Duration::from_millis(limits.silence_ms_max.into())
}

fn over(limits: &Limits) -> Duration {
    Duration::from_millis(limits.pace.over_ms.into())
}
