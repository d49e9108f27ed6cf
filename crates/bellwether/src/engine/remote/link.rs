//! The connection to a server, and the next one when it breaks.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bellwether_core::command::{Command, Request};
use bellwether_core::error::Refusal;
use bellwether_core::few::Few;
use bellwether_core::limits;
use bellwether_core::name::{MemberId, MemberSlot, RequestNumber};
use bellwether_core::outcome::Outcome;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::Core;
use super::address::Stream;
use super::desk::Told;
#[cfg(feature = "tls")]
use super::tls::why;
use crate::clock::Clock;
use crate::engine::content::Unread;
use crate::engine::{Call, Reply};
use crate::error::Error;
use crate::wire::call::{get_answer, put_call};
use crate::wire::parts::{Parts, put_whole};
use crate::wire::pipe::Pipe;
use crate::wire::{Frame, Goodbye, Hello, Kind, VERSION, VERSION_MIN, Welcome, Why};

/// The first pause between two tries to connect, at most; each further one is up to twice as long.
const PAUSE_MIN_MS: u64 = 20;
const PAUSE_MAX_MS: u64 = 2_000;
/// A try to connect, with all that is said before the first ask.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long the process may be out of touch before its leases and waits end.
const MEMBER_TTL_MS: u64 = 30_000;
/// Asks are put into bytes while so much is not yet written.
const BACKLOG_BYTES_MAX: usize = 256 * 1024;
/// The link's own ask: that the process is here.
const JOIN: u64 = 0;
/// An answer that is not whole yet takes at most this.
const PARTS_BYTES_MAX: usize = 1 << 30;

/// What is wrong with the stream that another one would not mend.
#[cfg(not(feature = "tls"))]
fn why(_: &io::Error) -> Option<String> {
    None
}

/// Why a connection is of no use.
#[derive(Debug)]
enum Broken {
    /// There is nobody, or nobody to speak with: whoever opens a store need not wait for another.
    Absent(Error),
    /// Another one may be.
    For(String),
    /// The server stops, and has answered all it had read.
    Stopped(String),
    /// We are not let in.
    Denied(String),
    /// None will ever be.
    Good(Error),
}

impl Broken {
    fn by(why: impl std::fmt::Display) -> Self {
        Self::For(why.to_string())
    }

    fn of(goodbye: Goodbye) -> Self {
        match goodbye.why {
            Why::Version => Self::Good(Error::Failed(goodbye.text)),
            Why::Credential => Self::Denied(goodbye.text),
            Why::Closing => Self::Stopped(goodbye.text),
            _ => Self::For(format!("the server ended the connection: {}", goodbye.text)),
        }
    }

    /// What everybody hears if it is of no use to try again, else why this one did not do.
    fn last_words(self, core: &Core) -> Result<Error, Error> {
        match self {
            Self::Good(error) => Ok(error),
            Self::Denied(why) if !core.options.credential.may_change() => Ok(core.denied(why)),
            Self::Absent(error) => Err(error),
            Self::For(why) | Self::Stopped(why) | Self::Denied(why) => Err(core.unreachable(why)),
        }
    }

    /// While hands are shaken and first words said.
    fn early(core: &Core, e: &io::Error) -> Self {
        match why(e) {
            Some(why) => Self::Absent(core.no_handshake(why)),
            None if e.kind() == io::ErrorKind::UnexpectedEof => {
                Self::by("it closed the connection")
            }
            None => Self::by(e),
        }
    }

    /// Sent away before the welcome: who was not understood will not be the next time either.
    fn sent_away(core: &Core, goodbye: Goodbye) -> Self {
        match goodbye.why {
            Why::Protocol => Self::Absent(core.no_handshake(goodbye.text)),
            _ => Self::of(goodbye),
        }
    }
}

/// A connection on which the process has joined.
pub(super) struct Connected {
    pipe: Pipe<Stream>,
    parts: Parts,
    every: Duration,
}

impl Connected {
    /// Connects for the first time: at once or not at all if nobody is there, but a bad network is
    /// put up with for a while.
    pub(super) async fn new(core: &Core) -> Result<Self, Error> {
        let since = Instant::now();
        let mut pause = Duration::ZERO;
        loop {
            match connect(core).await {
                Ok(connected) => return Ok(connected),
                Err(Broken::For(_) | Broken::Stopped(_))
                    if since.elapsed() < core.options.patience => {}
                Err(Broken::For(why) | Broken::Stopped(why)) => return Err(core.unreachable(why)),
                Err(Broken::Denied(why)) => return Err(core.denied(why)),
                Err(Broken::Absent(error) | Broken::Good(error)) => return Err(error),
            }
            pause = longer(pause);
            tokio::time::sleep(pause).await;
        }
    }
}

/// The next pause between two tries. Not the same for all: a server that comes back is not to be
/// run over.
fn longer(pause: Duration) -> Duration {
    let half_ms = (pause.as_millis() as u64).clamp(PAUSE_MIN_MS / 2, PAUSE_MAX_MS / 2);
    Duration::from_millis(half_ms + crate::chance::random_u64() % (half_ms + 1))
}

async fn connect(core: &Core) -> Result<Connected, Broken> {
    tokio::time::timeout(CONNECTING, async {
        let stream = core.options.address.connect().await;
        let stream = stream.map_err(|e| Broken::Absent(core.unreachable(e)))?;
        #[cfg(feature = "tls")]
        let stream = core.options.secure(stream).await.map_err(|e| Broken::early(core, &e))?;
        let mut pipe = Pipe::new(stream);
        let hello = Hello {
            versions: (VERSION_MIN, VERSION),
            name: format!("pid {}", std::process::id()),
            credential: core.options.credential.read().map_err(Broken::Denied)?,
            process: core.options.own_process(),
        };
        pipe.put(Kind::Hello, |out| hello.put(out));
        let frame = next(core, &mut pipe).await?;
        if frame.kind != Kind::Welcome {
            return Err(Broken::by("it did not welcome us"));
        }
        let welcome = Welcome::get(&frame.body).map_err(Broken::by)?;
        let mut parts = Parts::new(PARTS_BYTES_MAX);
        let member = join(core, &mut pipe, &mut parts).await?;
        let told = core.desk().connected(member, &welcome);
        core.tell(told);
        let every = Duration::from_millis((welcome.silence_ms_max / 3).clamp(1, 10_000).into());
        Ok(Connected { pipe, parts, every })
    })
    .await
    .map_err(|_| Broken::by("it does not answer"))?
}

/// Joins as the member that this process was before, or as another one if that is gone.
async fn join(
    core: &Core,
    pipe: &mut Pipe<Stream>,
    parts: &mut Parts,
) -> Result<MemberSlot, Broken> {
    for _ in 0..2 {
        put_join(core, pipe.out());
        let answer = loop {
            let frame = next(core, pipe).await?;
            if let Some((JOIN, whole)) = parts.take(frame).map_err(Broken::by)? {
                break get_answer(&whole, core.options.clock.boot()).map_err(Broken::by)?;
            }
        };
        match answer {
            Some(Ok(Reply { outcome: Outcome::Joined(slot), .. })) => return Ok(slot),
            Some(Err(Error::Refused(Refusal::MemberGone))) => {
                *core.id() = MemberId(crate::chance::random_u128());
            }
            Some(Err(error)) => return Err(Broken::by(error)),
            other => return Err(Broken::by(format!("it answered {other:?} to a join"))),
        }
    }
    Err(Broken::by("it takes us for somebody who is gone"))
}

fn put_join(core: &Core, out: &mut Vec<u8>) {
    let ttl_ms = match core.options.clock {
        Clock::System => MEMBER_TTL_MS,
        // Time that a test moves leaps: nobody could say in between that he is here.
        Clock::Virtual(_) => limits::LEASE_MS_INFINITE,
    };
    let (id, metadata) = (*core.id(), core.options.metadata.clone());
    let none = RequestNumber(0);
    let command = Command::Join { id, metadata, ttl_ms };
    let request =
        Request { member: MemberSlot(0), number: none, answered_below: none, command, fence: None };
    let call = Call { request, contents: Few::default() };
    put_whole(Kind::Ask, JOIN, out, |out| put_call(&call, out));
}

/// Writes what is to be written and waits for the next frame.
async fn next(core: &Core, pipe: &mut Pipe<Stream>) -> Result<Frame, Broken> {
    std::future::poll_fn(|cx| {
        loop {
            if let Poll::Ready(Err(e)) = pipe.poll_write(cx) {
                return Poll::Ready(Err(Broken::early(core, &e)));
            }
            match pipe.next_frame() {
                Ok(Some(frame)) if frame.kind == Kind::Goodbye => {
                    let sent_away = |goodbye| Broken::sent_away(core, goodbye);
                    let broken = Goodbye::get(&frame.body).map_or_else(Broken::by, sent_away);
                    return Poll::Ready(Err(broken));
                }
                Ok(Some(frame)) => return Poll::Ready(Ok(frame)),
                Ok(None) => {}
                Err(e) => return Poll::Ready(Err(Broken::by(e))),
            }
            match std::task::ready!(pipe.poll_read(cx)) {
                Ok(0) => return Poll::Ready(Err(Broken::by("it closed the connection"))),
                Ok(_) => {}
                Err(e) => return Poll::Ready(Err(Broken::early(core, &e))),
            }
        }
    })
    .await
}

/// Serves the desk until it is closed, over as many connections as it takes.
pub(super) async fn run(core: Arc<Core>, first: Connected) {
    let mut connected = Some(first);
    while let Some(connection) = connected.take() {
        let broken = Link::new(&core, connection).run().await;
        let has_stopped = matches!(broken, Some(Broken::Stopped(_)));
        let told = core.desk().disconnected(has_stopped);
        core.tell(told);
        connected = match broken {
            None => None,
            Some(broken) => match broken.last_words(&core) {
                Ok(error) => {
                    let told = core.desk().close(&error);
                    core.tell(told);
                    None
                }
                Err(_) => reconnect(&core).await,
            },
        };
    }
    let told = core.desk().close(&Error::Closed);
    core.tell(told);
}

/// Connects again, however long it takes; `None` if there is no need any more.
async fn reconnect(core: &Core) -> Option<Connected> {
    let mut pause = Duration::ZERO;
    loop {
        let since = Instant::now();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = core.closing.cancelled() => return None,
        }
        let broken = match connect(core).await {
            Ok(connected) => return Some(connected),
            Err(broken) => broken,
        };
        let error = match broken.last_words(core) {
            Ok(error) => {
                let told = core.desk().close(&error);
                core.tell(told);
                return None;
            }
            Err(error) => error,
        };
        let told = core.desk().waited(since.elapsed(), core.options.patience, &error);
        core.tell(told);
        pause = longer(pause);
    }
}

/// One connection at work.
struct Link<'a> {
    core: &'a Core,
    pipe: Pipe<Stream>,
    parts: Parts,
    /// When the process says again that it is here.
    beat: Interval,
    /// Beats since something was heard.
    silent: u32,
    told: Told,
    is_ending: bool,
}

impl<'a> Link<'a> {
    fn new(core: &'a Core, connected: Connected) -> Self {
        let Connected { pipe, parts, every } = connected;
        let mut beat = tokio::time::interval_at(Instant::now() + every, every);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { core, pipe, parts, beat, silent: 0, told: Told::new(), is_ending: false }
    }

    /// Until it breaks, or nothing is to be asked any more: then `None`.
    async fn run(mut self) -> Option<Broken> {
        let core = self.core;
        let mut closing = std::pin::pin!(core.closing.cancelled());
        std::future::poll_fn(|cx| {
            if !self.is_ending && closing.as_mut().poll(cx).is_ready() {
                self.is_ending = true;
                let waker = cx.waker();
                core.desk().put(core.options.clock.boot(), self.pipe.out(), usize::MAX, waker);
                let last = Goodbye { why: Why::Done, text: String::new() };
                self.pipe.put(Kind::Goodbye, |out| last.put(out));
            }
            self.poll(cx)
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Broken>> {
        if self.is_ending {
            // Whether the server still hears of it makes no difference.
            return match self.pipe.poll_write(cx) {
                Poll::Ready(_) => self.pipe.poll_shutdown(cx).map(|_| None),
                Poll::Pending => Poll::Pending,
            };
        }
        loop {
            let read = self.pipe.poll_read(cx);
            let is_read = match read {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Some(Broken::by("the server closed the connection")));
                }
                Poll::Ready(Ok(_)) => true,
                Poll::Ready(Err(e)) => return Poll::Ready(Some(Broken::by(e))),
                Poll::Pending => false,
            };
            if is_read && let Err(broken) = self.take_frames() {
                return Poll::Ready(Some(broken));
            }
            if self.beat.poll_tick(cx).is_ready() {
                self.silent += 1;
                if self.silent > 3 {
                    return Poll::Ready(Some(Broken::by("the server is silent")));
                }
                put_join(self.core, self.pipe.out());
                continue;
            }
            let now = self.core.options.clock.boot();
            self.core.desk().put(now, self.pipe.out(), BACKLOG_BYTES_MAX, cx.waker());
            if let Poll::Ready(Err(e)) = self.pipe.poll_write(cx) {
                return Poll::Ready(Some(self.last_heard(cx).unwrap_or_else(|| Broken::by(e))));
            }
            if !is_read {
                return Poll::Pending;
            }
        }
    }

    /// Nothing can be written any more, but answers and a goodbye may still be there to be read.
    fn last_heard(&mut self, cx: &mut Context<'_>) -> Option<Broken> {
        while let Poll::Ready(Ok(1..)) = self.pipe.poll_read(cx) {
            if let Err(broken) = self.take_frames() {
                return Some(broken);
            }
        }
        None
    }

    fn take_frames(&mut self) -> Result<(), Broken> {
        self.silent = 0;
        let now = self.core.options.clock.boot();
        let mut desk = None;
        let ended = loop {
            let frame = match self.pipe.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break Ok(()),
                Err(e) => break Err(Broken::by(e)),
            };
            match frame.kind {
                Kind::Answer | Kind::AnswerPart => {}
                Kind::Pong => continue,
                Kind::Goodbye => {
                    break Err(Goodbye::get(&frame.body).map_or_else(Broken::by, Broken::of));
                }
                kind => break Err(Broken::by(format!("a frame of kind {kind:?} from a server"))),
            }
            let whole = match self.parts.take(frame) {
                Ok(Some((JOIN, _)) | None) => continue,
                Ok(Some(whole)) => whole,
                Err(e) => break Err(Broken::by(e)),
            };
            let (number, whole) = whole;
            match get_answer(&whole, now) {
                Ok(answer) => {
                    let answer = answer.map(|answer| answer.map(Unread::from));
                    let desk = desk.get_or_insert_with(|| self.core.desk());
                    self.told.extend(desk.answered(number, answer));
                }
                Err(e) => break Err(Broken::by(e)),
            }
        };
        drop(desk);
        self.core.tell(std::mem::take(&mut self.told));
        ended
    }
}
