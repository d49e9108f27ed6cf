//! A store for stories: a ledger whose every step is durable at once, a clock that is told to
//! move, and a journal to start again from.

use std::collections::BTreeMap;

use bellwether_core::change::Change;
use bellwether_core::codec::{self, Reader};
use bellwether_core::command::{
    Acquire, Command, Disposition, HeldSet, LeaseKind, NewContent, Receive, ReceiveMode, Request,
    Settlement,
};
use bellwether_core::content::Place;
use bellwether_core::error::Refusal;
use bellwether_core::fence::Fence;
use bellwether_core::few::Few;
use bellwether_core::ledger::{Effects, Ledger};
use bellwether_core::message::{MessageView, NewMessage};
use bellwether_core::name::{
    LeaseId, LeaseName, LockToken, MemberId, MemberSlot, QueueName, QueuePath, RequestNumber,
    SequenceNumber, SessionId, SessionToken, Term, Ticket,
};
use bellwether_core::outcome::{Barrier, EndedBy, LeaseInfo, Outcome, QueueInfo};
use bellwether_core::settings::QueueSettings;
use bellwether_core::time::Now;

/// Room for some fifty thousand messages.
const MEMORY_BYTES_MAX: u64 = 8 << 20;

pub type Answer = Result<Outcome, Refusal>;

pub struct Store {
    pub ledger: Ledger,
    pub now: Now,
    pub frame: u64,
    ticket: u64,
    answers: BTreeMap<Ticket, (Answer, Barrier)>,
    journal: Vec<(u64, Vec<u8>)>,
    /// Answers are durable at once; a story about flushes says when.
    pub flushes: bool,
}

pub fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub fn main(name: &str) -> QueuePath {
    QueuePath::main(queue(name))
}

pub fn dead(name: &str) -> QueuePath {
    QueuePath::dead(queue(name))
}

pub fn lease(name: &str) -> LeaseName {
    LeaseName::new(name).unwrap()
}

pub fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

/// A message of ten bytes.
pub fn message() -> NewMessage {
    NewMessage { content_bytes: 10, ..NewMessage::default() }
}

/// Locks of a second, three deliveries.
pub fn settings() -> QueueSettings {
    QueueSettings { lock_ms: 1000, deliveries_max: 3, ..QueueSettings::default() }
}

pub fn session_settings() -> QueueSettings {
    QueueSettings { sessions: true, ..settings() }
}

pub fn receive(from: QueuePath, max: u32) -> Receive {
    let mode = ReceiveMode::PeekLock;
    Receive { from, session: None, max, mode, wait_ms: 0, lock_ms: None }
}

pub fn acquire(name: &str, id: u128) -> Acquire {
    Acquire {
        lease: lease(name),
        id: LeaseId(id),
        kind: LeaseKind::Bound,
        ttl_ms: 1000,
        metadata: String::new(),
        wait_ms: 0,
        priority: 0,
        slots: 1,
    }
}

pub fn sequences(views: &[MessageView]) -> Vec<u64> {
    views.iter().map(|view| view.sequence.0).collect()
}

pub fn token(view: &MessageView) -> LockToken {
    view.token().expect("a locked message")
}

impl Store {
    /// An open store with two members, one and two.
    pub fn new() -> Self {
        let mut store = Self {
            ledger: Ledger::new(MEMORY_BYTES_MAX),
            now: Now::new(1_000_000, 5_000),
            frame: 1,
            ticket: 0,
            answers: BTreeMap::new(),
            journal: Vec::new(),
            flushes: true,
        };
        store.start();
        store.join(1, 3_600_000);
        store.join(2, 3_600_000);
        store
    }

    /// The same with these limits: deliveries that a member has not settled, sessions of a queue.
    pub fn limited(mut self, unsettled_max: u32, sessions_max: u32) -> Self {
        self.ledger = self.ledger.limited(unsettled_max, sessions_max);
        self
    }

    pub fn with_queue(settings: QueueSettings) -> Self {
        let mut store = Self::new();
        store.create("q", settings);
        store
    }

    fn start(&mut self) {
        let mut fx = Effects::default();
        self.ledger.begin_frame(self.frame);
        self.ledger.start(self.now, &mut fx);
        self.take(fx);
        self.frame += 1;
        self.ledger.begin_frame(self.frame);
    }

    /// The process ends and another one opens what it left. Its clock counts from another start.
    pub fn restart(&mut self) {
        self.now.boot.0 = 77;
        self.ledger = self.reread();
        self.answers.clear();
        self.frame += 1;
        self.start();
    }

    /// What the journal tells, read now.
    pub fn reread(&self) -> Ledger {
        let mut ledger = Ledger::new(MEMORY_BYTES_MAX);
        for (frame, bytes) in &self.journal {
            ledger.begin_frame(*frame);
            let mut reader = Reader::new(bytes);
            while !reader.is_empty() {
                let change = codec::decode_change(&mut reader, self.now.boot).unwrap();
                let place = match change {
                    Change::Content { len, .. } => Some(Place { unit: 1, offset: 0, len }),
                    _ => None,
                };
                ledger.replay(self.now, &change, place);
            }
        }
        ledger
    }

    /// Terms that ended, as the journal tells.
    pub fn ended(&self) -> Vec<(Term, EndedBy)> {
        let mut ended = Vec::new();
        for (_, bytes) in &self.journal {
            let mut reader = Reader::new(bytes);
            while !reader.is_empty() {
                let change = codec::decode_change(&mut reader, self.now.boot).unwrap();
                if let Change::TermEnded { term, by, .. } = change {
                    ended.push((term, by));
                }
            }
        }
        ended
    }

    fn take(&mut self, fx: Effects) {
        let mut bytes = Vec::new();
        for change in &fx.changes {
            codec::encode_change(change, self.now.boot, &mut bytes);
        }
        self.journal.push((self.frame, bytes));
        for answer in fx.answers {
            let told = (answer.result, answer.barrier);
            let twice = self.answers.insert(answer.ticket, told);
            assert!(twice.is_none() || answer.ticket == Ticket(0), "answered once");
        }
    }

    /// Asks, and leaves the answer to be looked up.
    pub fn begin(&mut self, member: u32, number: u64, command: Command) -> Ticket {
        self.begin_under(None, member, number, command)
    }

    /// The same under a fence.
    pub fn begin_under(
        &mut self,
        fence: Option<Fence>,
        member: u32,
        number: u64,
        command: Command,
    ) -> Ticket {
        self.ticket += 1;
        let ticket = Ticket(self.ticket);
        let (member, number) = (MemberSlot(member), RequestNumber(number));
        let answered_below = RequestNumber(0);
        self.apply(ticket, &Request { member, number, answered_below, command, fence });
        ticket
    }

    pub fn apply(&mut self, ticket: Ticket, request: &Request) {
        let mut fx = Effects::default();
        self.ledger.apply(self.now, ticket, request, &mut fx);
        self.take(fx);
        self.frame += 1;
        self.ledger.begin_frame(self.frame);
        if self.flushes {
            self.flush();
        }
    }

    /// Everything so far is durable.
    pub fn flush(&mut self) {
        let mut fx = Effects::default();
        self.ledger.durable(self.now, self.frame - 1, &mut fx);
        self.take(fx);
        self.frame += 1;
        self.ledger.begin_frame(self.frame);
    }

    /// The answer that has come, if it has.
    pub fn answer(&self, ticket: Ticket) -> Option<Answer> {
        self.answers.get(&ticket).map(|(answer, _)| answer.clone())
    }

    pub fn barrier(&self, ticket: Ticket) -> Barrier {
        self.answers[&ticket].1
    }

    pub fn ask(&mut self, member: u32, command: Command) -> Answer {
        self.ask_numbered(member, 0, command)
    }

    pub fn ask_numbered(&mut self, member: u32, number: u64, command: Command) -> Answer {
        let ticket = self.begin(member, number, command);
        self.answer(ticket).expect("an answer at once")
    }

    pub fn tick(&mut self) {
        for _ in 0..1000 {
            if self.ledger.next_deadline_ms(self.now) != Some(0) {
                return;
            }
            self.answers.remove(&Ticket(0));
            let (number, answered_below) = (RequestNumber(0), RequestNumber(0));
            let (member, command) = (MemberSlot(0), Command::Tick);
            self.apply(
                Ticket(0),
                &Request { member, number, answered_below, command, fence: None },
            );
        }
        panic!("it never comes to rest");
    }

    /// Time passes, and what is due happens when it is.
    pub fn pass(&mut self, ms: u64) {
        let target = self.now.plus_ms(ms);
        while let Some(next) = self.ledger.next_deadline_ms(self.now) {
            if self.now.plus_ms(next).boot > target.boot {
                break;
            }
            self.now = self.now.plus_ms(next);
            self.tick();
        }
        self.now = target;
    }

    pub fn join(&mut self, id: u128, ttl_ms: u64) -> u32 {
        let (id, metadata) = (MemberId(id), String::new());
        match self.ask(0, Command::Join { id, metadata, ttl_ms }) {
            Ok(Outcome::Joined(slot)) => slot.0,
            other => panic!("{other:?}"),
        }
    }

    pub fn create(&mut self, name: &str, settings: QueueSettings) {
        let settings = Box::new(settings);
        let created = self.ask(1, Command::CreateQueue { queue: queue(name), settings });
        assert_eq!(created, Ok(Outcome::QueueCreated { existed: false }));
    }

    /// Sends, and tells the numbers; zero for a dropped duplicate.
    pub fn send(&mut self, name: &str, messages: Vec<NewMessage>) -> Vec<u64> {
        match self.ask(1, Command::Send { queue: queue(name), messages: messages.into() }) {
            Ok(Outcome::Sent(numbers)) => numbers.iter().map(|number| number.0).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub fn send_one(&mut self, name: &str) -> u64 {
        self.send(name, vec![message()])[0]
    }

    pub fn receive(&mut self, member: u32, receive: Receive) -> Vec<MessageView> {
        match self.ask(member, Command::Receive(receive)) {
            Ok(Outcome::Received(views)) => views,
            other => panic!("{other:?}"),
        }
    }

    /// Receives one message, which is there.
    pub fn receive_one(&mut self, from: QueuePath) -> MessageView {
        let mut views = self.receive(1, receive(from, 1));
        assert_eq!(views.len(), 1);
        views.remove(0)
    }

    pub fn settle(&mut self, from: QueuePath, token: LockToken, how: Disposition) -> Answer {
        self.settle_with(from, token, how, None)
    }

    pub fn settle_with(
        &mut self,
        from: QueuePath,
        token: LockToken,
        disposition: Disposition,
        overlay: Option<NewContent>,
    ) -> Answer {
        let settlements = Few::One(Settlement { token, disposition, overlay });
        match self.ask(1, Command::Settle { from, settlements })? {
            Outcome::Settled { refused } => match refused.into_iter().next() {
                None => Ok(Outcome::Done),
                Some((_, refusal)) => Err(refusal),
            },
            other => panic!("{other:?}"),
        }
    }

    pub fn peek(&mut self, from: QueuePath) -> Vec<MessageView> {
        let sequence = SequenceNumber(0);
        match self.ask(0, Command::Peek { from, sequence, max: 100, session: None }) {
            Ok(Outcome::Peeked(views)) => views,
            other => panic!("{other:?}"),
        }
    }

    pub fn info(&mut self, name: &str) -> QueueInfo {
        match self.ask(0, Command::DescribeQueue { queue: queue(name) }) {
            Ok(Outcome::Queue(info)) => *info,
            other => panic!("{other:?}"),
        }
    }

    pub fn accept(&mut self, member: u32, name: Option<&str>) -> Option<SessionToken> {
        let session = name.map(session);
        let command = Command::AcceptSession { queue: queue("q"), session, wait_ms: 0 };
        match self.ask(member, command) {
            Ok(Outcome::Session(hold)) => hold.map(|hold| hold.token),
            Err(Refusal::SessionLocked(_)) => None,
            other => panic!("{other:?}"),
        }
    }

    /// What a held session gives out.
    pub fn receive_from(
        &mut self,
        member: u32,
        token: &SessionToken,
        max: u32,
    ) -> Vec<MessageView> {
        let session = Some(token.clone());
        self.receive(member, Receive { session, ..receive(main("q"), max) })
    }

    pub fn acquire(&mut self, member: u32, name: &str, id: u128) -> Result<Term, Refusal> {
        match self.ask(member, Command::Acquire(acquire(name, id)))? {
            Outcome::Granted { term, .. } => Ok(term),
            other => panic!("{other:?}"),
        }
    }

    pub fn lease(&mut self, name: &str) -> LeaseInfo {
        match self.ask(0, Command::DescribeLease { lease: lease(name) }) {
            Ok(Outcome::Lease(Some(info))) => *info,
            other => panic!("{other:?}"),
        }
    }

    /// A heartbeat that names these leases.
    pub fn beat(&mut self, member: u32, held: &[(&str, Term)]) -> bellwether_core::outcome::Beat {
        let list = held.iter().map(|(name, term)| (lease(name), *term)).collect();
        match self.ask(member, Command::Heartbeat { held: HeldSet::List(list) }) {
            Ok(Outcome::Beat(beat)) => beat,
            other => panic!("{other:?}"),
        }
    }
}
