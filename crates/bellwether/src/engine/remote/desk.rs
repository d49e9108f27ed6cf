//! Asks of this process that the server has not answered yet. No I/O happens here.
//!
//! ```text
//!   enter ──► unsent ──► sent ──► answered
//!                ▲         │
//!                └─────────┘ the connection broke, or the server stops
//! ```
//!
//! 1. An ask keeps its number on every connection, and whatever changes something is asked under a
//!    request number: asked twice it is done once.
//! 2. An ask that was withdrawn stays until it is answered: an answer that crosses the withdrawal
//!    has handed out something that must go back.
//! 3. What would be done twice is not asked twice: whoever receives and deletes hears that nobody
//!    knows what became of it.
//! 4. A wait is as long as it was asked for, over however many connections.
//! 5. What was never sent was not done, nor what a server had not answered when it said that it
//!    stops. What else was sent and can never be answered is unknown.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bellwether_core::codec::put_number;
use bellwether_core::command::{Command, ReceiveMode, Request};
use bellwether_core::error::Refusal;
use bellwether_core::name::{MemberSlot, RequestNumber};
use bellwether_core::table::Table;
use bellwether_core::time::BootTime;

use crate::engine::ask::{Answer, Ask, Asker};
use crate::error::Error;
use crate::wire::call::put_call_as;
use crate::wire::frame::put_frame;
use crate::wire::parts::put_whole;
use crate::wire::{Kind, Welcome};

/// Requests of members that somebody else joined are numbered from here on: their own numbers are
/// below.
const OTHERS_FROM: u64 = 1 << 40;

/// See the module.
#[derive(Debug)]
pub(super) struct Desk {
    asks: Table<Entry>,
    last: u64,
    /// To be sent on this connection, in order.
    unsent: VecDeque<u64>,
    /// To be withdrawn on this connection.
    to_withdraw: Vec<u64>,
    /// Sent on this connection and not answered.
    sent: u32,
    sent_bytes: usize,
    limits: Option<Limits>,
    member: MemberSlot,
    /// Why nothing is taken any more.
    closed: Option<Error>,
    /// Whoever has the connection.
    waker: Option<Waker>,
}

/// What the server allows.
#[derive(Clone, Copy, Debug)]
struct Limits {
    asks_max: u32,
    bytes_max: usize,
}

#[derive(Debug)]
struct Entry {
    ask: Arc<Ask>,
    /// It is asked for the member that this process is.
    is_own: bool,
    /// On this connection: how many bytes it takes.
    sent: Option<usize>,
    /// On one before, where it may have been done.
    was_sent: bool,
    /// Nobody wants the answer; whether what it is given goes back.
    withdrawn: Option<bool>,
    /// How long it has waited for a connection.
    waited: Duration,
    entered_at: BootTime,
}

/// What is to be told to those who wait, once the desk is let go of.
pub(super) type Told = Vec<(Asker, Answer)>;

impl Desk {
    pub(super) fn new() -> Self {
        Self {
            asks: Table::default(),
            last: 0,
            unsent: VecDeque::new(),
            to_withdraw: Vec::new(),
            sent: 0,
            sent_bytes: 0,
            limits: None,
            member: MemberSlot(0),
            closed: None,
            waker: None,
        }
    }

    /// The member that this process is.
    pub(super) fn member(&self) -> MemberSlot {
        self.member
    }

    /// Refuses once nothing is taken any more.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        self.closed.clone().map_or(Ok(()), Err)
    }

    /// Takes an ask in. Its number, and whoever is to be woken; or why not.
    pub(super) fn enter(
        &mut self,
        now: BootTime,
        ask: &Arc<Ask>,
    ) -> Result<(u64, Option<Waker>), Error> {
        self.check_open()?;
        let request = &ask.call().request;
        let is_own = request.member == self.member;
        if is_own && request.number.0 > 0 {
            let why = "requests of this handle's own member are numbered by the handle".into();
            return Err(Refusal::InvalidValue { what: "request number", why }.into());
        }
        self.last += 1;
        let entry = Entry {
            ask: Arc::clone(ask),
            is_own,
            sent: None,
            was_sent: false,
            withdrawn: None,
            waited: Duration::ZERO,
            entered_at: now,
        };
        self.asks.insert(self.last, entry);
        self.unsent.push_back(self.last);
        Ok((self.last, self.waker.take()))
    }

    /// Nobody waits for this answer any more. Whoever is to be woken.
    pub(super) fn withdraw(&mut self, number: u64, gives_back: bool) -> Option<Waker> {
        let entry = self.asks.get_mut(number)?;
        if !entry.may_be_done() {
            self.remove(number);
            return None;
        }
        entry.withdrawn = Some(gives_back);
        entry.sent?;
        self.to_withdraw.push(number);
        self.waker.take()
    }

    /// A connection is there, for this member. If it is another one than before, those who asked
    /// for the old one will not be answered.
    pub(super) fn connected(&mut self, member: MemberSlot, welcome: &Welcome) -> Told {
        let is_another = self.member.0 > 0 && self.member != member;
        let asks_max = welcome.asks_max.max(1);
        self.limits = Some(Limits { asks_max, bytes_max: welcome.bytes_max as usize });
        self.member = member;
        if !is_another {
            return Told::new();
        }
        let lost = self.numbers(|entry| {
            let writes = !entry.ask.call().request.command.writes_nothing();
            entry.is_own && entry.was_sent && writes
        });
        let why = "the server does not know this process any more, which was out of touch for too \
                   long, or its store is another one by now";
        lost.into_iter()
            .filter_map(|number| self.fail(number, &Error::Unknown(why.into())))
            .collect()
    }

    /// The connection is gone: what was not answered is asked again on the next one, as far as it
    /// can be. A server that has said that it stops has answered all it had read.
    pub(super) fn disconnected(&mut self, has_stopped: bool) -> Told {
        self.limits = None;
        (self.sent, self.sent_bytes) = (0, 0);
        self.to_withdraw.clear();
        self.unsent = self.numbers(|_| true).into();
        for number in &self.unsent {
            if let Some(entry) = self.asks.get_mut(*number) {
                entry.was_sent |= entry.sent.take().is_some() && !has_stopped;
            }
        }
        let once = self.numbers(|entry| entry.was_sent && entry.is_only_once());
        let why = Error::Unknown("the connection broke before the answer came".into());
        once.into_iter().filter_map(|number| self.fail(number, &why)).collect()
    }

    /// So much time has passed without a connection: those who waited too long are told.
    pub(super) fn waited(&mut self, time: Duration, patience: Duration, why: &Error) -> Told {
        for number in self.numbers(|_| true) {
            if let Some(entry) = self.asks.get_mut(number) {
                entry.waited += time;
            }
        }
        let late = self.numbers(|entry| entry.waited >= patience);
        late.into_iter().filter_map(|number| self.fail(number, why)).collect()
    }

    /// Takes nothing any more; everybody is told.
    pub(super) fn close(&mut self, why: &Error) -> Told {
        self.closed.get_or_insert_with(|| why.clone());
        let all = self.numbers(|_| true);
        all.into_iter().filter_map(|number| self.fail(number, why)).collect()
    }

    /// Takes nothing any more, but what was asked may still be answered.
    pub(super) fn stop(&mut self, why: Error) {
        self.closed.get_or_insert(why);
    }

    fn numbers(&self, are_meant: impl Fn(&Entry) -> bool) -> Vec<u64> {
        let meant = self.asks.range(0).filter(|(_, entry)| are_meant(entry));
        meant.map(|(number, _)| number).collect()
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.asks.remove(number)?;
        if let Some(bytes) = entry.sent {
            (self.sent, self.sent_bytes) = (self.sent - 1, self.sent_bytes - bytes);
        } else if let Ok(index) = self.unsent.binary_search(&number) {
            self.unsent.remove(index);
        }
        Some(entry)
    }

    /// Gives up on an ask. If it was sent nobody knows what became of it.
    fn fail(&mut self, number: u64, why: &Error) -> Option<(Asker, Answer)> {
        let entry = self.remove(number)?;
        let writes = !entry.ask.call().request.command.writes_nothing();
        let answer = match why {
            Error::Closed | Error::Unknown(_) => why.clone(),
            _ if entry.may_be_done() && writes => Error::Unknown(why.to_string()),
            _ => why.clone(),
        };
        entry.withdrawn.is_none().then(|| (Asker::new(entry.ask), Err(answer)))
    }

    /// Puts what is to be sent into frames, while there is room; `waker` is woken when there is
    /// more.
    pub(super) fn put(
        &mut self,
        now: BootTime,
        out: &mut Vec<u8>,
        bytes_max: usize,
        waker: &Waker,
    ) {
        self.waker.get_or_insert_with(|| waker.clone()).clone_from(waker);
        let Some(limits) = self.limits else { return };
        for number in self.to_withdraw.drain(..) {
            let entry = self.asks.get(number);
            put_withdraw(number, entry.and_then(|entry| entry.withdrawn), out);
        }
        // Withdrawn or not, what stands before is older.
        let answered_below = self.asks.range(0).next().map_or(0, |(first, _)| first);
        while out.len() < bytes_max
            && self.sent < limits.asks_max
            && let Some(number) = self.unsent.front().copied()
            && let Some(entry) = self.asks.get_mut(number)
        {
            let start = out.len();
            let bytes = put_whole(Kind::Ask, number, out, |out| {
                entry.put(now, number, self.member, answered_below, out);
            });
            // One ask alone is sent however long it is: the server says what it thinks of it.
            if self.sent > 0 && self.sent_bytes + bytes > limits.bytes_max {
                out.truncate(start);
                break;
            }
            put_withdraw(number, entry.withdrawn, out);
            self.unsent.pop_front();
            (self.sent, self.sent_bytes) = (self.sent + 1, self.sent_bytes + bytes);
            entry.sent = Some(bytes);
        }
    }

    /// The server has answered; `None` if it will not, because the ask was withdrawn or the server
    /// stops. Whoever is to be told.
    pub(super) fn answered(
        &mut self,
        number: u64,
        answer: Option<Answer>,
    ) -> Option<(Asker, Answer)> {
        let entry = self.asks.get_mut(number)?;
        if answer.is_none() && entry.withdrawn.is_none() {
            // Nothing was done. It is asked again on the next connection.
            entry.was_sent = false;
            if let Some(bytes) = entry.sent.take() {
                (self.sent, self.sent_bytes) = (self.sent - 1, self.sent_bytes - bytes);
            }
            return None;
        }
        let entry = self.remove(number)?;
        let answer = match answer? {
            // By saying goodbye this process has ended its own waits.
            Err(Error::Refused(Refusal::MemberGone)) if self.closed.is_some() && entry.is_own => {
                Err(Error::Closed)
            }
            answer => answer,
        };
        (entry.withdrawn != Some(false)).then(|| (Asker::new(entry.ask), answer))
    }
}

impl Entry {
    /// Whether the server may have done it, although it has not answered.
    fn may_be_done(&self) -> bool {
        self.was_sent || self.sent.is_some()
    }

    /// Whether asking again would do it again.
    fn is_only_once(&self) -> bool {
        let Request { member, command, .. } = &self.ask.call().request;
        match command {
            Command::Receive(receive) => receive.mode == ReceiveMode::ReceiveAndDelete,
            Command::ReceiveDeferred { mode, .. } => *mode == ReceiveMode::ReceiveAndDelete,
            Command::Join { .. } => false,
            // Nobody's requests have no numbers.
            _ => member.0 == 0 && !command.writes_nothing(),
        }
    }

    /// Puts the call into bytes, as it is to be asked now.
    fn put(
        &self,
        now: BootTime,
        number: u64,
        own: MemberSlot,
        answered_below: u64,
        out: &mut Vec<u8>,
    ) {
        let request = &self.ask.call().request;
        let (member, number, below) = if self.is_own {
            (own, number, answered_below)
        } else if request.member.0 == 0 || request.number.0 > 0 {
            (request.member, request.number.0, request.answered_below.0)
        } else {
            (request.member, OTHERS_FROM + number, 0)
        };
        let (number, below) = (RequestNumber(number), RequestNumber(below));
        let waited_ms = self.entered_at.ms_until(now);
        if waited_ms > 0 && request.command.wait_ms() > 0 {
            let mut rest = self.ask.call().clone();
            if let Some(wait_ms) = rest.request.command.wait_ms_mut() {
                *wait_ms = wait_ms.saturating_sub(waited_ms);
            }
            return put_call_as(&rest, member, number, below, out);
        }
        put_call_as(self.ask.call(), member, number, below, out);
    }
}

fn put_withdraw(number: u64, gives_back: Option<bool>, out: &mut Vec<u8>) {
    if let Some(gives_back) = gives_back {
        put_frame(Kind::Withdraw, out, |out| {
            put_number(number, out);
            out.push(gives_back.into());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::call;
    use bellwether_core::command::Receive;
    use bellwether_core::few::Few;
    use bellwether_core::message::NewMessage;
    use bellwether_core::name::{QueueName, QueuePath};

    const NOW: BootTime = BootTime(1_000);
    const OWN: MemberSlot = MemberSlot(3);

    fn desk() -> Desk {
        let mut desk = Desk::new();
        let (name, silence_ms_max) = (String::new(), 1_000);
        let welcome = Welcome { version: 1, name, asks_max: 2, bytes_max: 1 << 20, silence_ms_max };
        assert!(desk.connected(OWN, &welcome).is_empty());
        desk
    }

    fn send() -> Command {
        let queue = QueueName::new("orders").unwrap();
        Command::Send { queue, messages: Few::One(NewMessage::default()) }
    }

    fn wait(wait_ms: u64) -> Command {
        let from = QueuePath::main(QueueName::new("orders").unwrap());
        let (session, max, mode, lock_ms) = (None, 1, ReceiveMode::PeekLock, None);
        Command::Receive(Receive { from, session, max, mode, wait_ms, lock_ms })
    }

    fn enter(desk: &mut Desk, command: Command) -> u64 {
        desk.enter(NOW, &Ask::new(call(OWN, command), false)).unwrap().0
    }

    /// What is sent now: numbers and requests.
    fn sent(desk: &mut Desk, now: BootTime) -> Vec<(u64, Request)> {
        let mut out = Vec::new();
        desk.put(now, &mut out, usize::MAX, Waker::noop());
        let mut out = bytes::BytesMut::from(&out[..]);
        let frames = std::iter::from_fn(|| crate::wire::frame::take_frame(&mut out).unwrap());
        let mut parts = crate::wire::parts::Parts::new(1 << 20);
        frames
            .filter(|frame| frame.kind == Kind::Ask)
            .map(|frame| {
                let (number, whole) = parts.take(frame).unwrap().unwrap();
                (number, crate::wire::call::get_call(&whole).unwrap().request)
            })
            .collect()
    }

    fn numbers(sent: &[(u64, Request)]) -> Vec<u64> {
        sent.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn the_server_is_asked_no_more_than_it_allows() {
        let mut desk = desk();
        let all: Vec<u64> = (0..3).map(|_| enter(&mut desk, send())).collect();
        assert_eq!(numbers(&sent(&mut desk, NOW)), all[..2]);
        assert!(sent(&mut desk, NOW).is_empty());
        assert!(desk.answered(all[0], Some(Err(Error::Closed))).is_some());
        let last = sent(&mut desk, NOW);
        assert_eq!(numbers(&last), all[2..]);
        assert_eq!(last[0].1.answered_below, RequestNumber(all[1]), "the first was heard");
    }

    #[test]
    fn what_was_not_answered_is_asked_again_under_its_number_for_the_rest_of_its_wait() {
        let mut desk = desk();
        let (first, second) = (enter(&mut desk, send()), enter(&mut desk, wait(500)));
        let before = sent(&mut desk, NOW);
        assert!(desk.disconnected(false).is_empty());
        assert!(sent(&mut desk, NOW).is_empty(), "there is no connection");
        assert!(desk.connected(OWN, &another_welcome()).is_empty());
        let again = sent(&mut desk, NOW.plus_ms(200));
        assert_eq!(numbers(&again), [first, second]);
        assert_eq!(again[0], before[0]);
        assert_eq!(again[1].1.number, before[1].1.number);
        assert_eq!((before[1].1.command.wait_ms(), again[1].1.command.wait_ms()), (500, 300));
    }

    #[test]
    fn who_waits_too_long_for_a_connection_hears_whether_it_may_have_been_done() {
        let mut desk = desk();
        let asked = enter(&mut desk, send());
        assert_eq!(numbers(&sent(&mut desk, NOW)), [asked]);
        assert!(desk.disconnected(false).is_empty());
        let late = enter(&mut desk, send());
        let gone = Error::Unreachable { address: String::new(), why: String::new() };
        let patience = Duration::from_secs(1);
        assert!(desk.waited(patience / 2, patience, &gone).is_empty());
        let answers: Vec<Answer> =
            desk.waited(patience, patience, &gone).into_iter().map(|(_, answer)| answer).collect();
        assert!(matches!(answers[0], Err(Error::Unknown(_))), "{answers:?} of {asked}");
        assert!(matches!(answers[1], Err(Error::Unreachable { .. })), "{answers:?} of {late}");
    }

    #[test]
    fn another_member_does_not_answer_for_the_one_that_is_gone() {
        let mut desk = desk();
        enter(&mut desk, send());
        sent(&mut desk, NOW);
        desk.disconnected(false);
        let unsent = enter(&mut desk, send());
        let told = desk.connected(MemberSlot(4), &another_welcome());
        assert!(matches!(told[..], [(_, Err(Error::Unknown(_)))]), "{told:?}");
        let rest = sent(&mut desk, NOW);
        assert_eq!(numbers(&rest), [unsent]);
        assert_eq!(rest[0].1.member, MemberSlot(4));
    }

    fn another_welcome() -> Welcome {
        let (name, asks_max, bytes_max, silence_ms_max) = (String::new(), 9, 1 << 20, 1_000);
        Welcome { version: 1, name, asks_max, bytes_max, silence_ms_max }
    }

    #[test]
    fn what_a_server_had_not_answered_when_it_stopped_is_asked_of_whoever_comes_next() {
        let mut desk = desk();
        let mut and_delete = wait(500);
        if let Command::Receive(receive) = &mut and_delete {
            receive.mode = ReceiveMode::ReceiveAndDelete;
        }
        let all = [enter(&mut desk, send()), enter(&mut desk, and_delete)];
        assert_eq!(numbers(&sent(&mut desk, NOW)), all);
        assert!(desk.disconnected(true).is_empty(), "nothing was deleted");
        let told = desk.connected(MemberSlot(4), &another_welcome());
        assert!(told.is_empty(), "the store may be another one, but nothing was done: {told:?}");
        let again = sent(&mut desk, NOW);
        assert_eq!(numbers(&again), all);
        assert_eq!(again[0].1.member, MemberSlot(4));
    }

    #[test]
    fn what_was_sent_before_is_not_known_to_be_undone_because_the_next_server_stops() {
        let mut desk = desk();
        enter(&mut desk, send());
        sent(&mut desk, NOW);
        assert!(desk.disconnected(false).is_empty());
        assert!(desk.connected(OWN, &another_welcome()).is_empty());
        sent(&mut desk, NOW);
        assert!(desk.disconnected(true).is_empty());
        let told = desk.connected(MemberSlot(4), &another_welcome());
        assert!(matches!(told[..], [(_, Err(Error::Unknown(_)))]), "{told:?}");
    }

    #[test]
    fn a_withdrawn_ask_is_withdrawn_again_after_the_connection_broke() {
        let mut desk = desk();
        let never = enter(&mut desk, send());
        assert!(desk.withdraw(never, true).is_none());
        assert!(sent(&mut desk, NOW).is_empty(), "it was never asked");
        let asked = enter(&mut desk, wait(500));
        sent(&mut desk, NOW);
        desk.withdraw(asked, true);
        assert!(desk.answered(asked, None).is_none());
        assert!(desk.asks.is_empty());
    }
}
