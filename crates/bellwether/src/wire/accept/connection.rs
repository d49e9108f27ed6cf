//! One connection, as one task.
//!
//! ```text
//!   bytes ─► frames ─► asks ─► inbox of the writer        all that was read at once is one batch
//!   bytes ◄─ frames ◄─ answers ◄─ outbox                  all that was answered is one packet
//! ```
//!
//! 1. Every ask is answered once, also one that was withdrawn.
//! 2. Nothing is read while too much waits to be written: who does not listen is not heard.
//! 3. When it ends, waits are withdrawn. What was handed out under a number stays, for whoever asks
//!    again; everything else that was not heard goes back.

mod asking;

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use bellwether_core::codec::Reader;
use bellwether_core::command::{Command, Loss};
use bellwether_core::name::{MemberSlot, Ticket};
use bellwether_core::outcome::Outcome;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::looks::{Looks, UnderWay};
use super::vigil::Vigil;
use super::{Acceptor, Ended, Gate, Late, Limits, Owners, Pass, Share, goodbye};
use crate::clock::Stopwatch;
use crate::engine::ask::{Ask, wake_soon};
use crate::engine::call;
use crate::engine::content::Unread;
use crate::engine::local::shared::Shared;
use crate::engine::outbox::{Outbox, Posted};
use crate::error::Error;
use crate::wire::call::{put_answer, put_withdrawn};
use crate::wire::numbered::Numbered;
use crate::wire::parts::{Parts, put_whole};
use crate::wire::pipe::Pipe;
use crate::wire::{FRAME_BYTES_MAX, Frame, Goodbye, Hello, Kind, Why, WireError};

/// Answers are put into bytes while so much is not yet written; nothing is read beyond.
const BACKLOG_BYTES_MAX: usize = 256 * 1024;
/// To whoever was in, and is not any more.
const ENDED: &str = "the credential was revoked, changed or has expired";

/// See the module.
pub(super) struct Connection<'a, S> {
    pipe: Pipe<S>,
    acceptor: &'a Acceptor,
    shared: &'a Shared,
    limits: &'a Limits,
    gate: Option<(&'a dyn Gate, Arc<Owners>)>,
    /// What the gate has allowed.
    admitted: Option<Admitted>,
    /// Which process it says that it is.
    process: Arc<str>,
    /// Those who joined on this connection.
    members: BTreeSet<MemberSlot>,
    /// One of them has joined on another one since.
    is_over: Arc<AtomicBool>,
    outbox: Arc<Outbox>,
    parts: Parts,
    /// Asks without an answer, by the client's numbers.
    asked: Numbered<Asked>,
    /// Bytes that these have together.
    bytes: usize,
    /// What these, and those that are not whole yet, take of what all may have.
    share: Share,
    /// Asks that were refused before they were whole: the rest of them is thrown away.
    thrown_away: BTreeSet<u64>,
    /// Answers that are not bytes yet.
    posted: VecDeque<Posted>,
    step: Step,
    /// Others rely on it that we take a turn.
    is_promised: bool,
    looks: Looks,
    vigil: Vigil<'a>,
    open_for: Stopwatch,
}

/// What was allowed, for as long as it counts.
struct Admitted {
    pass: Arc<Pass>,
    owners: Arc<Owners>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
}

struct Asked {
    ticket: Ticket,
    ask: Arc<Ask>,
    bytes: usize,
    is_withdrawn: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing was said yet.
    New,
    /// Not let in, which is said in a while.
    Turned(Goodbye),
    Open,
    /// What was asked is answered, then it ends.
    Stopping,
    /// The last words were said; only writing is left.
    Ending(Goodbye),
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Connection<'a, S> {
    pub(super) fn new(
        acceptor: &'a Acceptor,
        stream: S,
        gate: Option<(&'a dyn Gate, Arc<Owners>)>,
    ) -> Self {
        let limits = &acceptor.limits;
        Self {
            pipe: Pipe::new(stream),
            acceptor,
            shared: acceptor.local.shared(),
            limits,
            gate,
            admitted: None,
            process: "".into(),
            members: BTreeSet::new(),
            is_over: Arc::default(),
            outbox: Arc::default(),
            parts: Parts::new(limits.bytes_max as usize),
            asked: Numbered::default(),
            bytes: 0,
            share: acceptor.budget.share(),
            thrown_away: BTreeSet::new(),
            posted: VecDeque::new(),
            step: Step::New,
            is_promised: false,
            looks: Looks::new(limits),
            vigil: Vigil::new(&acceptor.is_awake, limits.awake_us_max),
            open_for: Stopwatch::start(),
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) -> Ended {
        let mut stop = std::pin::pin!(stop.cancelled());
        let mut is_stopped = false;
        std::future::poll_fn(|cx| {
            if !is_stopped && stop.as_mut().poll(cx).is_ready() {
                is_stopped = true;
                self.stop();
            }
            self.poll(cx)
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        loop {
            if let Some(Admitted { ended, .. }) = &mut self.admitted
                && ended.as_mut().poll(cx).is_ready()
            {
                self.end(goodbye(Why::Credential, ENDED));
            }
            if std::mem::take(&mut self.is_promised) {
                self.shared.work();
            } else {
                // The flusher may leave it to us to hand out what is durable.
                self.shared.hand_out();
            }
            let is_read = match self.poll_read(cx) {
                Poll::Ready(Ok(is_read)) => is_read,
                Poll::Ready(Err(ended)) => return Poll::Ready(ended),
                Poll::Pending => false,
            };
            self.answer(cx.waker());
            let backlog = self.pipe.backlog();
            let now_us = self.open_for.elapsed().as_micros() as u64;
            if is_read || backlog > 0 {
                self.vigil.stir(now_us);
            }
            match self.pipe.poll_write(cx) {
                Poll::Ready(Ok(())) => {
                    self.looks.drained();
                    if let Step::Ending(why) = &self.step {
                        return Poll::Ready(Ended::SentAway(why.clone()));
                    }
                }
                Poll::Ready(Err(e)) => return Poll::Ready(Ended::Broken(e)),
                Poll::Pending => self.looks.written(backlog - self.pipe.backlog()),
            }
            if self.looks.poll(cx).is_ready() {
                if let Step::Turned(last) = &self.step {
                    self.end(last.clone());
                    self.looks.greeted(self.limits);
                    continue;
                }
                if let Some(late) = self.look() {
                    return Poll::Ready(self.leave_behind(late, cx));
                }
                continue;
            }
            if !is_read && (self.posted.is_empty() || self.pipe.backlog() > 0) {
                let is_early = matches!(self.step, Step::New | Step::Turned(_));
                if is_early || !self.looks.sleep_over(self.under_way(), self.limits) {
                    if self.vigil.keep(now_us) {
                        std::thread::yield_now();
                        wake_soon(Some(cx.waker().clone()));
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    fn under_way(&self) -> UnderWay {
        let is_listened_to = self.step == Step::Open && self.pipe.backlog() <= BACKLOG_BYTES_MAX;
        let frame = is_listened_to && self.pipe.is_within_frame();
        UnderWay { frame, answers: self.pipe.backlog() > 0 }
    }

    /// Whether the other side lives and keeps pace. Room that an idle connection does not need is
    /// given back.
    fn look(&mut self) -> Option<Late> {
        if self.step == Step::New {
            return Some(Late::Hello);
        }
        if self.asked.is_empty() && self.posted.is_empty() {
            self.asked = Numbered::default();
            self.posted = VecDeque::new();
            self.outbox.give_back_room();
            self.parts.give_back_room();
        }
        self.looks.look(self.under_way(), self.limits)
    }

    /// The other side is not waited for any longer. It is told so if it happens to listen.
    fn leave_behind(&mut self, late: Late, cx: &mut Context<'_>) -> Ended {
        if matches!(late, Late::Hello | Late::Frame) {
            self.end(goodbye(Why::Limit, late.to_string()));
            let _ = self.pipe.poll_write(cx);
        }
        Ended::Late(late)
    }

    /// Reads, and does what is asked. False if there was nothing to do.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Ended>> {
        let is_open = matches!(self.step, Step::New | Step::Open);
        if !is_open || self.pipe.backlog() > BACKLOG_BYTES_MAX {
            return Poll::Ready(Ok(false));
        }
        match std::task::ready!(self.pipe.poll_read(cx)) {
            Ok(0) => return Poll::Ready(Err(Ended::Left)),
            Ok(bytes) => self.looks.read(bytes),
            Err(e) => return Poll::Ready(Err(Ended::Broken(e))),
        }
        let mut is_turn_due = false;
        loop {
            let is_new = self.step == Step::New;
            let bytes_max = if is_new { self.limits.hello_bytes_max } else { FRAME_BYTES_MAX };
            match self.pipe.next_frame_within(bytes_max) {
                Ok(Some(frame)) => {
                    self.looks.framed();
                    match self.take(frame) {
                        Ok(is_due) => is_turn_due |= is_due,
                        Err(last) => self.end(last),
                    }
                }
                Ok(None) => break,
                Err(e) => self.end(goodbye(Why::Protocol, e.to_string())),
            }
            if matches!(self.step, Step::Ending(_) | Step::Turned(_)) {
                break;
            }
        }
        if is_turn_due {
            self.shared.work();
        } else if self.is_promised {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(true))
    }

    /// Does what a frame asks for. True if there is enough in the inbox for a turn.
    fn take(&mut self, frame: Frame) -> Result<bool, Goodbye> {
        match (frame.kind, &self.step) {
            (Kind::Hello, Step::New) => self.greet(&Hello::get(&frame.body)?)?,
            (Kind::AskPart | Kind::Ask, Step::Open) => return self.take_part(frame),
            (Kind::Withdraw, Step::Open) => {
                let mut reader = Reader::new(&frame.body);
                let read =
                    reader.number().and_then(|n| Ok((n, reader.byte("what becomes of it")?)));
                let (number, gives_back) = read.map_err(WireError::of("a withdraw"))?;
                self.withdraw(number, gives_back != 0);
            }
            (Kind::Ping, Step::Open) => {
                self.pipe.put(Kind::Pong, |out| out.extend_from_slice(&frame.body));
            }
            (Kind::Goodbye, _) => return Err(goodbye(Why::Done, "")),
            (kind, _) => return Err(WireError::Kind(kind as u8).into()),
        }
        Ok(false)
    }

    fn greet(&mut self, hello: &Hello) -> Result<(), Goodbye> {
        let Some(version) = hello.common_version() else {
            let (oldest, newest) = hello.versions;
            let (ours_min, ours) = (crate::wire::VERSION_MIN, crate::wire::VERSION);
            let text = format!(
                "you speak versions {oldest} to {newest} of the wire, this server {ours_min} to \
                 {ours}; upgrade the older side"
            );
            return Err(goodbye(Why::Version, text));
        };
        if let Some((gate, owners)) = &self.gate {
            match gate.admit(&hello.credential) {
                Ok(pass) => {
                    let ended = Box::pin(pass.ended.clone().cancelled_owned());
                    self.admitted = Some(Admitted { pass, owners: Arc::clone(owners), ended });
                }
                Err(turned) => {
                    self.step = Step::Turned(goodbye(turned.why, turned.text));
                    self.looks.turned(turned.after);
                    return Ok(());
                }
            }
        }
        self.process = hello.process.as_str().into();
        let mut welcome = self.acceptor.welcome();
        welcome.version = version;
        self.pipe.put(Kind::Welcome, |out| welcome.put(out));
        self.step = Step::Open;
        self.looks.greeted(self.limits);
        Ok(())
    }

    /// Puts answers into bytes, as many as are worth while.
    fn answer(&mut self, waker: &Waker) {
        self.outbox.take(&mut self.posted, waker);
        // What is not said before the last words goes back.
        if matches!(self.step, Step::Ending(_)) {
            return;
        }
        // What is said to last for a time lasts from here on.
        let now = self.shared.now();
        while self.pipe.backlog() < BACKLOG_BYTES_MAX
            && let Some((ask, answer)) = self.posted.pop_front()
        {
            let number = ask.number();
            let asked = self.asked.remove(&number);
            self.bytes -= asked.as_ref().map_or(0, |asked| asked.bytes);
            let is_withdrawn = asked.is_some_and(|asked| asked.is_withdrawn);
            self.note(&ask, answer.as_ref());
            let answer = match answer {
                None if !is_withdrawn && self.step != Step::Stopping => {
                    let why = "the writer broke off over it; the server's log says more";
                    Some(Err(Error::Unknown(why.into())))
                }
                Some(answer) if !ask.is_left() => {
                    if let Ok(Unread { outcome: Outcome::Joined(member), .. }) = &answer {
                        self.acceptor.speakers.joined(*member, &self.is_over);
                        self.acceptor.joined_from(*member, &self.process);
                        self.members.insert(*member);
                    }
                    Some(answer.map(Unread::read))
                }
                answer => {
                    if let Some(call) = answer.and_then(|answer| ask.undo(&answer)) {
                        self.shared.tell(call);
                    }
                    None
                }
            };
            put_whole(Kind::Answer, number, self.pipe.out(), |out| match &answer {
                Some(answer) => put_answer(answer, now, out),
                None => put_withdrawn(out),
            });
        }
        // Less than before, so there is room.
        self.share.hold(self.bytes + self.parts.bytes());
        if self.step == Step::Stopping && self.asked.is_empty() && self.posted.is_empty() {
            self.end(goodbye(Why::Closing, "the server is stopping; try again"));
        }
    }

    /// Nothing more is asked; waits are over.
    fn stop(&mut self) {
        match self.step {
            Step::New | Step::Turned(_) => {
                self.end(goodbye(Why::Closing, "the server is stopping; try again"));
            }
            Step::Open => {
                self.step = Step::Stopping;
                for asked in self.asked.values() {
                    self.shared.withdraw(asked.ticket);
                }
            }
            Step::Stopping | Step::Ending(_) => {}
        }
    }

    fn end(&mut self, last: Goodbye) {
        if !matches!(self.step, Step::Ending(_)) {
            self.pipe.put(Kind::Goodbye, |out| last.put(out));
            self.step = Step::Ending(last);
        }
    }
}

impl<S> Connection<'_, S> {
    fn is_stopping(&self) -> bool {
        matches!(self.step, Step::Stopping | Step::Ending(Goodbye { why: Why::Closing, .. }))
    }
}

impl<S> Drop for Connection<'_, S> {
    fn drop(&mut self) {
        if let Some(Admitted { pass, .. }) = &self.admitted {
            for asked in self.asked.values() {
                pass.note::<()>(&asked.ask.call().request.command, None);
            }
        }
        let mut alone = std::mem::take(&mut self.members);
        alone.retain(|member| self.acceptor.speakers.left(*member, &self.is_over));
        let unheard = self.outbox.close();
        for (ask, answer) in self.posted.drain(..).chain(unheard) {
            self.asked.remove(&ask.number());
            if let Some(call) = answer.and_then(|answer| ask.undo_unheard(&answer)) {
                self.shared.tell(call);
            }
        }
        for asked in self.asked.values() {
            self.shared.withdraw(asked.ticket);
        }
        // Behind what it still asked for, and had withdrawn. Whom we have sent away because we stop may
        // come back to whoever opens the store next.
        if !self.is_stopping() {
            let how =
                if cfg!(planted_bug = "closed_is_dead") { Loss::Died } else { Loss::Disconnected };
            self.shared
                .tell_all(alone.into_iter().map(|member| call(member, Command::Lost { how })));
        }
        // Others may rely on it, however it ends.
        self.shared.work();
    }
}
