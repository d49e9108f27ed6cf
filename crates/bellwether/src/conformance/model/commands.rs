//! Random commands that often meet: few names, short times, tokens that are mostly good.

use bellwether_core::command::{
    Acquire, Command, Disposition, HeldSet, NewContent, Receive, ReceiveMode, Request, Settlement,
};
use bellwether_core::few::Few;
use bellwether_core::message::NewMessage;
use bellwether_core::name::{
    Key, LeaseId, LeaseName, LockToken, MemberSlot, QueueName, QueuePath, RequestNumber,
    SequenceNumber, SessionId, SessionToken, Term,
};
use bellwether_core::outcome::Outcome;
use bellwether_core::rank::Rank;
use bellwether_core::settings::{QueueSettings, SettingsPatch};
use bytes::Bytes;

use super::World;
use crate::conformance::support::{bound, standing};
use crate::message::{Message, Overlay, encode, id_hash};

pub(super) const QUEUES: [&str; 2] = ["plain", "sessions"];
const SESSIONS: [&str; 3] = ["x", "y", "z"];
const LEASES: [&str; 2] = ["l", "m"];

/// What a caller could know from the answers so far, newest last.
#[derive(Debug, Default)]
pub(super) struct Known {
    tokens: Vec<(QueuePath, LockToken)>,
    holds: Vec<SessionToken>,
    numbers: Vec<SequenceNumber>,
    terms: Vec<(LeaseName, Term)>,
    requests: Vec<(Request, Vec<Bytes>)>,
    last_number: u64,
    /// The slot of the first of the two members who ask.
    pub(super) first_member: u32,
}

impl Known {
    pub(super) fn learn(&mut self, request: &Request, outcome: &Outcome) {
        match (&request.command, outcome) {
            (
                Command::Receive(Receive { from, .. }) | Command::ReceiveDeferred { from, .. },
                Outcome::Received(views),
            ) => {
                let tokens = views.iter().filter_map(bellwether_core::message::MessageView::token);
                self.tokens.extend(tokens.map(|token| (from.clone(), token)));
            }
            (_, Outcome::Session(Some(hold))) => self.holds.push(hold.token.clone()),
            (_, Outcome::Sent(sequences)) => self.numbers.extend(sequences.iter()),
            (Command::Acquire(ask), Outcome::Granted { term, .. }) => {
                self.terms.push((ask.lease.clone(), *term));
            }
            _ => {}
        }
        forget_old(&mut self.tokens);
        forget_old(&mut self.holds);
        forget_old(&mut self.numbers);
        forget_old(&mut self.terms);
        forget_old(&mut self.requests);
    }
}

fn forget_old<T>(list: &mut Vec<T>) {
    let old = list.len().saturating_sub(12);
    list.drain(..old);
}

impl World<'_> {
    pub(super) fn create_queues() -> [Command; 2] {
        QUEUES.map(|name| {
            let settings = QueueSettings {
                lock_ms: 700,
                deliveries_max: 3,
                dead_letter_expired: name == "plain",
                duplicate_window_ms: Some(1_500),
                sessions: name == "sessions",
                size_bytes_max: 20_000,
                ..QueueSettings::default()
            };
            let queue = QueueName::new(name).unwrap();
            Command::CreateQueue { queue, settings: Box::new(settings) }
        })
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        list.get(self.chance.below(list.len() as u64) as usize).cloned()
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.chance.below(n) == 0
    }

    fn queue(&mut self) -> QueueName {
        QueueName::new(self.pick(&QUEUES).unwrap()).unwrap()
    }

    fn path(&mut self) -> QueuePath {
        let queue = self.queue();
        if self.one_in(4) { QueuePath::dead(queue) } else { QueuePath::main(queue) }
    }

    fn sequence(&mut self) -> SequenceNumber {
        let known = self.known.numbers.clone();
        self.pick(&known).unwrap_or(SequenceNumber(1))
    }

    fn hold(&mut self) -> Option<SessionToken> {
        let known = self.known.holds.clone();
        self.pick(&known)
    }

    fn wait_ms(&mut self) -> u64 {
        if self.one_in(2) { 0 } else { self.chance.below(self.wait_ms_max + 1) }
    }

    fn lease(&mut self) -> LeaseName {
        LeaseName::new(self.pick(&LEASES).unwrap()).unwrap()
    }

    fn id(&mut self) -> LeaseId {
        LeaseId(1 + u128::from(self.chance.below(3)))
    }

    pub(super) fn random_request(&mut self) -> (Request, Vec<Bytes>) {
        // Now and then a request is made twice, as after a lost answer.
        if self.one_in(12) {
            let known = self.known.requests.clone();
            if let Some(again) = self.pick(&known) {
                return again;
            }
        }
        let mut contents = Vec::new();
        let command = self.random_command(&mut contents);
        let mut number = RequestNumber(0);
        if self.one_in(3) {
            self.known.last_number += 1;
            number = RequestNumber(self.known.last_number);
        }
        let member = MemberSlot(self.known.first_member + self.chance.below(2) as u32);
        let request =
            Request { member, number, answered_below: RequestNumber(0), command, fence: None };
        if number.0 != 0 {
            self.known.requests.push((request.clone(), contents.clone()));
        }
        (request, contents)
    }

    fn random_command(&mut self, contents: &mut Vec<Bytes>) -> Command {
        match self.chance.below(26) {
            0..5 => self.send(contents),
            5..9 => self.receive(),
            9..14 => self.settle(contents),
            14 => {
                let known = self.known.tokens.clone();
                let (from, token) = self.pick(&known).unwrap_or_else(|| self.no_token());
                Command::RenewLocks { from, tokens: vec![token], lock_ms: None }
            }
            15 => Command::ReceiveDeferred {
                from: self.path(),
                session: self.hold(),
                sequences: vec![self.sequence()],
                mode: ReceiveMode::PeekLock,
            },
            16 => Command::Cancel { queue: self.queue(), sequences: vec![self.sequence()] },
            17 => {
                let (from, sequence) = (self.path(), self.sequence());
                Command::Peek { from, sequence, max: 5, session: None }
            }
            18 => Command::Redrive { queue: self.queue(), to: None, sequences: vec![], max: 2 },
            19 => self.rare(),
            20 | 21 => self.session(contents),
            22..24 => self.acquire(),
            _ => self.lease_action(),
        }
    }

    fn no_token(&mut self) -> (QueuePath, LockToken) {
        (self.path(), LockToken::from_u128(1))
    }

    fn send(&mut self, contents: &mut Vec<Bytes>) -> Command {
        let queue = self.queue();
        let mut messages = Vec::new();
        for _ in 0..=self.chance.below(3) {
            let id = self.chance.below(20).to_string();
            let body = vec![b'x'; self.chance.below(300) as usize];
            let message = Message::new(body).id(id.clone()).property("n", self.chance.below(9));
            let content = encode(&message);
            let session = (queue.as_str() == "sessions" || self.one_in(5))
                .then(|| self.pick(&SESSIONS).unwrap())
                .map(|id| SessionId::new(id).unwrap());
            let due = self.fixture.wall_in(self.chance.below(900));
            messages.push(NewMessage {
                content_bytes: content.len() as u32,
                id_hash: if self.one_in(2) { id_hash((1, 2), &id) } else { 0 },
                session,
                ttl_ms: self.one_in(4).then(|| 1 + self.chance.below(2_000)),
                due: self.one_in(6).then_some(due),
                rank: self.rank(),
            });
            contents.push(content);
        }
        Command::Send { queue, messages: messages.into() }
    }

    /// Half of them the usual one.
    fn rank(&mut self) -> Rank {
        let mut rank = Rank::default();
        if self.one_in(3) {
            rank.priority = self.chance.below(10) as u8;
        }
        if self.one_in(3) {
            rank.key = self.pick(&SESSIONS).map(|key| Key::new(key).unwrap());
        }
        rank
    }

    fn receive(&mut self) -> Command {
        let from = self.path();
        let sessions = from == QueuePath::main(QueueName::new("sessions").unwrap());
        let session = if sessions || self.one_in(10) { self.hold() } else { None };
        let deletes = self.one_in(6) && !self.fixture.loses_answers();
        let mode = if deletes { ReceiveMode::ReceiveAndDelete } else { ReceiveMode::PeekLock };
        let max = 1 + self.chance.below(3) as u32;
        let lock_ms = self.one_in(5).then(|| 100 + self.chance.below(2_000) as u32);
        Command::Receive(Receive { from, session, max, mode, wait_ms: self.wait_ms(), lock_ms })
    }

    fn settle(&mut self, contents: &mut Vec<Bytes>) -> Command {
        let known = self.known.tokens.clone();
        let (from, token) = self.pick(&known).unwrap_or_else(|| self.no_token());
        let disposition = match self.chance.below(7) {
            0 | 1 => Disposition::Complete,
            2 => Disposition::Abandon { delay_ms: None },
            3 => Disposition::Abandon { delay_ms: Some(self.chance.below(800)) },
            4 => Disposition::Release,
            5 => Disposition::Defer,
            _ => Disposition::DeadLetter,
        };
        let overlay = self.one_in(3).then(|| {
            let key = format!("k{}", self.chance.below(3));
            let content = Overlay::default().property(key, self.chance.below(9)).encode();
            let bytes = content.len() as u32;
            contents.push(content);
            NewContent { index: 0, bytes }
        });
        Command::Settle { from, settlements: Few::One(Settlement { token, disposition, overlay }) }
    }

    fn rare(&mut self) -> Command {
        let queue = self.queue();
        match self.chance.below(6) {
            0 => Command::Purge { from: self.path(), before: None, max: 2 },
            1 => Command::DescribeQueue { queue },
            2 => Command::ListMembers,
            3 => Command::ListSessions { queue, after: None, max: 10 },
            4 => Command::ListLeases { after: None, max: 10 },
            _ => {
                let deliveries_max = Some(1 + self.chance.below(4) as u32);
                let patch = SettingsPatch { deliveries_max, ..SettingsPatch::default() };
                Command::UpdateQueue { queue, patch: Box::new(patch) }
            }
        }
    }

    fn session(&mut self, contents: &mut Vec<Bytes>) -> Command {
        let queue = QueueName::new("sessions").unwrap();
        let held = self.hold();
        match (self.chance.below(8), held) {
            (0, Some(token)) => Command::RenewSession { queue, token },
            (1, Some(token)) => Command::CloseSession { queue, token },
            (2, Some(token)) => Command::GetSessionState { queue, token },
            (3, Some(token)) => {
                let state = self.one_in(2).then(|| {
                    contents.push(Bytes::from(vec![7; self.chance.below(50) as usize]));
                    NewContent { index: 0, bytes: contents[0].len() as u32 }
                });
                Command::SetSessionState { queue, token, state }
            }
            _ => {
                let named = self.one_in(2).then(|| self.pick(&SESSIONS).unwrap());
                let session = named.map(|id| SessionId::new(id).unwrap());
                Command::AcceptSession { queue, session, wait_ms: self.wait_ms() }
            }
        }
    }

    fn acquire(&mut self) -> Command {
        let (lease, id) = (self.lease(), self.id());
        let ttl_ms = 100 + self.chance.below(1_500);
        let ask = if self.one_in(2) {
            bound(lease.as_str(), id.0, ttl_ms)
        } else {
            standing(lease.as_str(), id.0, ttl_ms)
        };
        let priority = self.chance.below(3) as i32;
        Command::Acquire(Acquire { wait_ms: self.wait_ms(), priority, ..ask })
    }

    fn lease_action(&mut self) -> Command {
        let (lease, id) = (self.lease(), self.id());
        match self.chance.below(9) {
            0 => Command::RenewLease { lease, id },
            1 => Command::ChangeLease { lease, id, to: self.id() },
            2 | 3 => Command::ReleaseLease { lease, id, successor: None },
            4 => {
                let period_ms = self.one_in(2).then(|| self.chance.below(500));
                Command::BreakLease { lease, period_ms }
            }
            5 => Command::TouchLease { lease },
            6 => Command::AskStepDown { lease },
            7 => Command::DescribeLease { lease },
            _ => Command::Heartbeat { held: HeldSet::List(self.known.terms.clone()) },
        }
    }
}
