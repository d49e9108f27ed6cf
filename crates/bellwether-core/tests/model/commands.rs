//! Random commands, made so that they often meet: few names, short times, tokens that are mostly
//! valid and sometimes not, requests that are made twice.

use bellwether_core::command::{
    Acquire, Command, Disposition, HeldSet, LeaseKind, Loss, NewContent, Receive, ReceiveMode,
    ReleaseReason, Request, Settlement,
};
use bellwether_core::fence::Fence;
use bellwether_core::limits;
use bellwether_core::member::digest;
use bellwether_core::message::NewMessage;
use bellwether_core::name::{
    LeaseId, LeaseName, LockToken, MemberId, MemberSlot, Part, QueueName, QueuePath, RequestNumber,
    SequenceNumber, SessionId, SessionToken, Term,
};
use bellwether_core::outcome::Outcome;
use bellwether_core::settings::{
    Backoff, Failures, FailuresPatch, OutagePolicy, QueueSettings, SettingsPatch, Status,
};
use bellwether_core::time::WallTime;

use super::naive::Answer;
use super::world::{World, nobodys};

const QUEUES: &[&str] = &["a", "b", "c", "s", "t"];
const SESSIONS: &[&str] = &["x", "y", "z"];
const LEASES: &[&str] = &["l", "m"];

/// What a caller could know from the answers so far.
#[derive(Default)]
pub struct Known {
    tokens: Vec<(QueuePath, LockToken)>,
    holds: Vec<(QueueName, SessionToken)>,
    numbers: Vec<(QueueName, SequenceNumber)>,
    terms: Vec<(MemberSlot, LeaseName, Term)>,
    versions: Vec<(LeaseName, u64)>,
    members: Vec<MemberSlot>,
    /// Nobody else knows: members go by what they heard themselves.
    pub alone: bool,
    pub requests: Vec<Request>,
    last_request: u64,
}

fn remember<T>(list: &mut Vec<T>, new: T) {
    list.push(new);
    if list.len() > 24 {
        list.remove(0);
    }
}

impl World {
    pub fn pick<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        list.get(self.chance.below(list.len() as u64) as usize).cloned()
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.chance.below(n) == 0
    }

    fn maybe<T>(&mut self, one_in: u64, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.one_in(one_in).then(|| value(self))
    }

    fn queue(&mut self) -> QueueName {
        QueueName::new(self.pick(QUEUES).unwrap()).unwrap()
    }

    fn session_queue(&mut self) -> QueueName {
        if self.one_in(8) {
            self.queue()
        } else {
            QueueName::new(self.pick(&["s", "t"]).unwrap()).unwrap()
        }
    }

    fn session(&mut self) -> SessionId {
        SessionId::new(self.pick(SESSIONS).unwrap()).unwrap()
    }

    fn lease(&mut self) -> LeaseName {
        LeaseName::new(self.pick(LEASES).unwrap()).unwrap()
    }

    fn lease_id(&mut self) -> LeaseId {
        LeaseId(u128::from(self.chance.below(3)) + 1)
    }

    fn path(&mut self) -> QueuePath {
        let queue = self.queue();
        if self.one_in(4) { QueuePath::dead(queue) } else { QueuePath::main(queue) }
    }

    fn wait_ms(&mut self) -> u64 {
        if self.one_in(2) { 0 } else { self.chance.below(400) }
    }

    /// Learns what the answer tells.
    pub fn learn(&mut self, request: &Request, answer: &Answer) {
        let Ok(outcome) = answer else { return };
        let known = &mut self.known;
        match (&request.command, outcome) {
            (
                Command::Receive(Receive { from, .. }) | Command::ReceiveDeferred { from, .. },
                Outcome::Received(views),
            ) => {
                for token in views.iter().filter_map(bellwether_core::message::MessageView::token) {
                    remember(&mut known.tokens, (from.clone(), token));
                }
            }
            (Command::Peek { from, .. }, Outcome::Peeked(views)) => {
                for view in views.iter().take(2) {
                    remember(&mut known.numbers, (from.queue.clone(), view.sequence));
                }
            }
            (Command::Send { queue, .. }, Outcome::Sent(numbers)) => {
                for number in numbers.iter() {
                    remember(&mut known.numbers, (queue.clone(), number));
                }
            }
            (Command::AcceptSession { queue, .. }, Outcome::Session(Some(hold))) => {
                remember(&mut known.holds, (queue.clone(), hold.token.clone()));
            }
            (Command::Acquire(Acquire { lease, .. }), Outcome::Granted { term, .. })
            | (Command::ChangeLease { lease, .. }, Outcome::Granted { term, .. }) => {
                remember(&mut known.terms, (request.member, lease.clone(), *term));
            }
            (_, Outcome::Joined(slot)) if !known.members.contains(slot) => {
                remember(&mut known.members, *slot);
                if known.members.len() > 4 {
                    known.members.remove(0);
                }
            }
            (_, Outcome::Lease(Some(info))) => {
                remember(&mut known.versions, (info.name.clone(), info.version));
            }
            _ => {}
        }
    }

    pub fn random_request(&mut self) -> Request {
        if self.one_in(10) {
            let requests = self.known.requests.clone();
            if let Some(request) = self.pick(&requests) {
                return request;
            }
        }
        let members =
            if self.known.alone { self.known.members.clone() } else { self.naive.member_slots() };
        let member = match self.chance.below(40) {
            0 => MemberSlot(self.chance.below(8) as u32),
            _ => self.pick(&members).unwrap_or(MemberSlot(0)),
        };
        let command = self.random_command(member);
        let joins = matches!(command, Command::Join { .. });
        self.known.last_request += 1;
        // What a door saw has no number: nobody asked it, and nobody will ask it again.
        let is_seen = matches!(command, Command::Lost { .. });
        let number = if self.one_in(4) || is_seen { 0 } else { self.known.last_request };
        let heard = if self.one_in(12) { self.known.last_request.saturating_sub(6) } else { 0 };
        let request = Request {
            member: if joins { MemberSlot(0) } else { member },
            number: RequestNumber(number),
            answered_below: RequestNumber(heard),
            fence: self.fence(),
            command,
        };
        if number != 0 {
            remember(&mut self.known.requests, request.clone());
        }
        request
    }

    /// Most requests carry none; the others a term that was granted, or one that never was.
    fn fence(&mut self) -> Option<Fence> {
        if !self.one_in(6) {
            return None;
        }
        let terms = self.known.terms.clone();
        let (_, election, term) = self.pick(&terms)?;
        let term = if self.one_in(10) { Term(term.0 + 1) } else { term };
        Some(Fence { election: if self.one_in(20) { self.lease() } else { election }, term })
    }

    /// A request of the kind that comes first.
    pub fn first_request(&mut self) -> Request {
        let joins = self.one_in(3);
        nobodys(if joins { self.join() } else { self.create_queue() })
    }

    fn random_command(&mut self, member: MemberSlot) -> Command {
        match self.chance.below(1000) {
            0..40 => self.create_queue(),
            40..55 => self.update_queue(),
            55..57 => Command::DeleteQueue { queue: self.queue() },
            57..70 => Command::Purge {
                from: self.path(),
                before: self.maybe(2, |w| WallTime(w.now.wall.0 - w.chance.below(200))),
                max: self.chance.below(5) as u32,
            },
            70..75 => Command::DescribeQueue { queue: self.queue() },
            75..79 => Command::DescribeOutage { queue: self.queue() },
            79..80 => Command::EndOutage { queue: self.queue() },
            80..300 => self.send(),
            300..310 => {
                let (queue, sequences) = self.numbers(2);
                Command::Cancel { queue, sequences }
            }
            310..440 => self.receive(),
            440..465 => {
                let (queue, sequences) = self.numbers(1);
                let part = if self.one_in(5) { Part::Dead } else { Part::Main };
                let session = self.hold_of(&queue);
                let mode = self.mode();
                let from = QueuePath { queue, part };
                Command::ReceiveDeferred { from, session, sequences, mode }
            }
            465..480 => Command::Peek {
                from: self.path(),
                sequence: SequenceNumber(self.chance.below(10)),
                max: self.chance.below(6) as u32,
                session: self.maybe(4, Self::session),
            },
            480..620 => self.settle(),
            620..640 => {
                let (from, tokens) = self.tokens();
                let lock_ms = self.maybe(3, |w| w.chance.below(400) as u32);
                Command::RenewLocks { from, tokens, lock_ms }
            }
            640..665 => {
                let (queue, mut sequences) = self.numbers(1);
                if self.one_in(2) {
                    sequences.clear();
                }
                let to = self.maybe(3, Self::queue);
                Command::Redrive { queue, to, sequences, max: self.chance.below(4) as u32 }
            }
            665..740 => Command::AcceptSession {
                queue: self.session_queue(),
                session: self.maybe(2, Self::session),
                wait_ms: self.wait_ms(),
            },
            740..790 => self.use_session(),
            790..830 => self.join(),
            830..870 => Command::Heartbeat { held: self.held(member) },
            870..873 => Command::Leave,
            873..880 => {
                let died = self.one_in(3);
                Command::Lost { how: if died { Loss::Died } else { Loss::Disconnected } }
            }
            880..920 => self.acquire(),
            920..995 => self.use_lease(),
            995..998 => Command::ListMembers,
            _ => {
                let after = self.maybe(2, |w| MemberId(u128::from(w.chance.below(5)) + 1));
                Command::MemberHealth { after, max: self.chance.below(4) as u32 }
            }
        }
    }

    fn create_queue(&mut self) -> Command {
        let name = self.pick(QUEUES).unwrap();
        let lock_ms = self.pick(&[100, 200, 500]).unwrap();
        let sessions = matches!(name, "s" | "t") && !self.one_in(10);
        let settings = QueueSettings {
            lock_ms,
            deliveries_max: 1 + self.chance.below(4) as u32,
            failures: self.failures(),
            ttl_ms: self.maybe(4, |w| 50 + w.chance.below(400)),
            dead_letter_expired: self.one_in(2),
            duplicate_window_ms: self.maybe(2, |w| 1 + w.chance.below(600)),
            sessions,
            forward_to: self.maybe(if sessions { 100 } else { 8 }, Self::queue),
            forward_dead_letters_to: self.maybe(8, Self::queue),
            delete_idle_ms: self.maybe(8, |w| 1000 + w.chance.below(3000)),
            status: Status::Active,
            size_bytes_max: if self.one_in(5) { 60 } else { 1 << 20 },
            message_bytes_max: 40,
            ..QueueSettings::default()
        };
        Command::CreateQueue { queue: QueueName::new(name).unwrap(), settings: Box::new(settings) }
    }

    fn failures(&mut self) -> Failures {
        Failures {
            retry: self.maybe(4, Self::backoff),
            crashes_max: if self.one_in(4) { 0 } else { 1 + self.chance.below(3) as u32 },
            outage: self.maybe(2, Self::outage_policy),
        }
    }

    fn backoff(&mut self) -> Backoff {
        let first_ms = 1 + self.chance.below(60);
        let max_ms = first_ms + self.chance.below(200);
        Backoff { first_ms, max_ms, jitter_percent: self.chance.below(101) as u32 }
    }

    fn outage_policy(&mut self) -> OutagePolicy {
        let pause_ms_min = 1 + self.chance.below(100);
        let pause_ms_max = pause_ms_min + self.chance.below(300);
        OutagePolicy { failures: 2 + self.chance.below(3) as u32, pause_ms_min, pause_ms_max }
    }

    fn update_queue(&mut self) -> Command {
        let statuses =
            [Status::Active, Status::Active, Status::SendDisabled, Status::ReceiveDisabled];
        let patch = SettingsPatch {
            lock_ms: self.maybe(4, |w| 50 + w.chance.below(300) as u32),
            deliveries_max: self.maybe(4, |w| 1 + w.chance.below(3) as u32),
            failures: FailuresPatch {
                retry: self.maybe(6, |w| w.maybe(2, Self::backoff)),
                crashes_max: self.maybe(6, |w| w.chance.below(3) as u32),
                outage: self.maybe(4, |w| w.maybe(2, Self::outage_policy)),
            },
            ttl_ms: self.maybe(5, |w| w.maybe(2, |w| 1 + w.chance.below(300))),
            dead_letter_expired: self.maybe(4, |w| w.one_in(2)),
            forward_to: self.maybe(3, |w| w.maybe(2, Self::queue)),
            forward_dead_letters_to: self.maybe(4, |w| w.maybe(2, Self::queue)),
            delete_idle_ms: self.maybe(6, |w| w.maybe(2, |w| 1000 + w.chance.below(2000))),
            status: self.pick(&statuses),
            size_bytes_max: self.maybe(6, |w| 20 + w.chance.below(200)),
            ..SettingsPatch::default()
        };
        Command::UpdateQueue { queue: self.queue(), patch: Box::new(patch) }
    }

    fn send(&mut self) -> Command {
        let queue = self.queue();
        let in_session = matches!(queue.as_str(), "s" | "t");
        let count = 1 + self.chance.below(3);
        let messages = (0..count)
            .map(|_| NewMessage {
                content_bytes: if self.one_in(60) { 41 } else { self.chance.below(20) as u32 },
                id_hash: if self.one_in(2) { 0 } else { u128::from(self.chance.below(6)) },
                session: if in_session == self.one_in(12) { None } else { Some(self.session()) },
                ttl_ms: self.maybe(6, |w| if w.one_in(20) { 0 } else { w.chance.below(500) }),
                due: self
                    .maybe(5, |w| WallTime(w.now.wall.0 + w.chance.below(300)).max(WallTime(50))),
            })
            .collect();
        Command::Send { queue, messages }
    }

    fn mode(&mut self) -> ReceiveMode {
        if self.one_in(8) { ReceiveMode::ReceiveAndDelete } else { ReceiveMode::PeekLock }
    }

    fn hold_of(&mut self, queue: &QueueName) -> Option<SessionToken> {
        let holds = self.known.holds.iter().filter(|(q, _)| q == queue);
        let holds: Vec<SessionToken> = holds.map(|(_, token)| token.clone()).collect();
        let standing = self.naive.all_holds().into_iter().filter(|(q, ..)| q == queue);
        let standing: Vec<SessionToken> = standing.map(|(_, token, _)| token).collect();
        match self.chance.below(6) {
            0 => self.pick(&holds),
            // The newest is the one that most likely stands.
            1 => holds.last().cloned(),
            _ => self.pick(&standing).or_else(|| holds.last().cloned()),
        }
    }

    fn receive(&mut self) -> Command {
        let from = self.path();
        let wants = from.part == Part::Main && matches!(from.queue.as_str(), "s" | "t");
        let session = if wants == self.one_in(20) { None } else { self.hold_of(&from.queue) };
        Command::Receive(Receive {
            from,
            session,
            max: self.chance.below(4) as u32,
            mode: self.mode(),
            wait_ms: self.wait_ms(),
            lock_ms: self.maybe(6, |w| 90 + w.chance.below(300) as u32),
        })
    }

    fn numbers(&mut self, most: u64) -> (QueueName, Vec<SequenceNumber>) {
        let numbers = self.known.numbers.clone();
        let Some((queue, first)) = self.pick(&numbers) else {
            return (self.queue(), vec![SequenceNumber(1)]);
        };
        let mut sequences = vec![first];
        for _ in 0..self.chance.below(most + 1) {
            sequences.push(SequenceNumber(1 + self.chance.below(first.0 + 2)));
        }
        (queue, sequences)
    }

    fn tokens(&mut self) -> (QueuePath, Vec<LockToken>) {
        let tokens = self.known.tokens.clone();
        let newest = if self.one_in(3) { 0 } else { tokens.len().saturating_sub(5) };
        let Some((path, first)) = self.pick(&tokens[newest..]) else {
            return (self.path(), Vec::new());
        };
        let mut chosen = vec![first];
        let others: Vec<LockToken> =
            tokens.iter().filter(|(p, _)| *p == path).map(|(_, t)| *t).collect();
        for _ in 0..self.chance.below(3) {
            chosen.extend(self.pick(&others));
        }
        if self.one_in(15) {
            chosen[0].number.0 += 1;
        }
        (path, chosen)
    }

    fn settle(&mut self) -> Command {
        let (from, tokens) = self.tokens();
        let settlements = tokens
            .into_iter()
            .enumerate()
            .map(|(index, token)| {
                let disposition = match self.chance.below(10) {
                    0..3 => Disposition::Complete,
                    3..5 => Disposition::Abandon { delay_ms: None },
                    5 => Disposition::Abandon { delay_ms: Some(self.chance.below(300)) },
                    6 => Disposition::Release,
                    7..9 => Disposition::Defer,
                    _ => Disposition::DeadLetter,
                };
                let bytes = self.chance.below(10) as u32;
                let overlay = self.maybe(3, |_| NewContent { index: index as u32, bytes });
                Settlement { token, disposition, overlay }
            })
            .collect();
        Command::Settle { from, settlements }
    }

    fn use_session(&mut self) -> Command {
        let queue_is_random = self.one_in(2);
        let queue = self.session_queue();
        let queues = self.naive.all_holds();
        let queue = self.pick(&queues).filter(|_| !queue_is_random).map_or(queue, |(q, ..)| q);
        let stranger = SessionToken {
            session: self.session(),
            number: bellwether_core::name::DeliveryNumber(1),
            incarnation: bellwether_core::name::Incarnation(1),
        };
        let token = self.hold_of(&queue).unwrap_or(stranger);
        match self.chance.below(6) {
            0 => Command::RenewSession { queue, token },
            1 | 2 => Command::CloseSession { queue, token },
            3 => {
                let bytes = self.chance.below(42) as u32;
                let state = self.maybe(2, |_| NewContent { index: 0, bytes });
                Command::SetSessionState { queue, token, state }
            }
            4 => Command::GetSessionState { queue, token },
            _ => {
                let max = 1 + self.chance.below(3) as u32;
                Command::ListSessions { queue, after: self.maybe(2, Self::session), max }
            }
        }
    }

    fn join(&mut self) -> Command {
        Command::Join {
            id: MemberId(u128::from(self.chance.below(5)) + 1),
            metadata: "m".repeat(self.chance.below(3) as usize),
            ttl_ms: match self.chance.below(12) {
                0 => 50,
                1 => limits::LEASE_MS_INFINITE,
                2 => 300,
                _ => 60_000,
            },
        }
    }

    fn held(&mut self, member: MemberSlot) -> HeldSet {
        let mut believed = self.naive.agreed(member);
        if self.known.alone {
            let terms = self.known.terms.iter().filter(|(slot, ..)| *slot == member);
            believed = terms.map(|(_, name, term)| (name.clone(), *term)).collect();
            return HeldSet::List(believed);
        }
        if self.one_in(3) {
            let terms = self.known.terms.clone();
            if let Some((_, name, term)) = self.pick(&terms) {
                believed.retain(|(n, _)| *n != name);
                believed.push((name, term));
            }
        }
        if self.one_in(4) {
            believed.pop();
        }
        if self.one_in(2) {
            return HeldSet::List(believed);
        }
        let count = believed.len() as u32;
        let digest = digest(believed.iter().map(|(name, term)| (name, *term)));
        HeldSet::Same { count, digest }
    }

    fn acquire(&mut self) -> Command {
        let kinds = [LeaseKind::Standing, LeaseKind::Bound, LeaseKind::Connected];
        let (lease, mut kind) = (self.lease(), self.pick(&kinds).unwrap());
        let usual = if lease.as_str() == LEASES[0] { 1 } else { 2 };
        let slots = if self.one_in(8) { self.chance.below(4) as u32 } else { usual };
        if slots > 1 && !self.one_in(8) {
            kind = LeaseKind::Bound;
        }
        Command::Acquire(Acquire {
            lease,
            id: self.lease_id(),
            kind,
            ttl_ms: match self.chance.below(10) {
                0 if kind == LeaseKind::Standing => limits::LEASE_MS_INFINITE,
                1 => 99,
                _ => 100 + self.chance.below(400),
            },
            metadata: "h".repeat(self.chance.below(2) as usize),
            wait_ms: self.wait_ms(),
            priority: self.chance.below(3) as i32 - 1,
            slots,
        })
    }

    fn use_lease(&mut self) -> Command {
        let lease = self.lease();
        match self.chance.below(16) {
            0 => Command::RenewLease { lease, id: self.lease_id() },
            1 => Command::ChangeLease { lease, id: self.lease_id(), to: self.lease_id() },
            2 | 3 => Command::ReleaseLease {
                lease,
                id: self.lease_id(),
                successor: self.maybe(2, |w| MemberId(u128::from(w.chance.below(5)) + 1)),
            },
            4 => {
                let period_ms = self.maybe(2, |w| w.chance.below(300));
                Command::BreakLease { lease, period_ms }
            }
            5 => Command::TouchLease { lease },
            6 => Command::AskStepDown { lease },
            7 => {
                let versions = self.known.versions.clone();
                let last = versions.iter().rev().find(|(name, _)| *name == lease);
                let seen = last.map_or(0, |(_, version)| *version);
                Command::WatchLease { lease, seen, wait_ms: self.wait_ms() }
            }
            8 | 9 => {
                let to = MemberId(u128::from(self.chance.below(5)) + 1);
                Command::HandOver { lease, to }
            }
            10 => Command::PauseLease { lease, keep_leader: self.one_in(2) },
            11 | 12 => Command::ResumeLease { lease },
            13 => Command::AwaitTurn { lease, wait_ms: self.wait_ms() },
            14 => Command::StepDown {
                lease,
                id: self.lease_id(),
                successor: None,
                reason: ReleaseReason::Finished,
            },
            _ => Command::DescribeLease { lease },
        }
    }
}
