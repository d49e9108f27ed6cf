//! A shard on a disk in memory, driven as the local engine drives it, and what it told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bellwether::Error;
use bellwether::core::command::{
    Acquire, Command, Disposition, LeaseKind, NewContent, Receive, ReceiveMode, Request, Settlement,
};
use bellwether::core::few::Few;
use bellwether::core::message::{MessageView, NewMessage};
use bellwether::core::name::{
    LeaseId, LeaseName, LockToken, MemberId, MemberSlot, QueueName, QueuePath, RequestNumber,
    SequenceNumber, Ticket,
};
use bellwether::core::outcome::Outcome;
use bellwether::core::settings::QueueSettings;
use bellwether::core::time::Now;
use bellwether::engine::content::Unread;
use bellwether::engine::shard::{Shard, ShardOptions};
use bellwether::engine::{Call, Reply};
use bellwether::journal::file::{FileJournal, FileOptions, SimDisk};
use bellwether::journal::{Journal, JournalFault};
use bellwether::message::{Overlay, encode};
use bytes::Bytes;

type Answer = Result<Reply, Error>;

/// What was acknowledged, and what was asked for and may have happened.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) sent: BTreeMap<SequenceNumber, Bytes>,
    pub(crate) completed: BTreeSet<SequenceNumber>,
    pub(crate) dead: BTreeSet<SequenceNumber>,
    pub(crate) tried: BTreeSet<SequenceNumber>,
    pub(crate) term: u64,
    pub(crate) faults: usize,
    pub(crate) refused: usize,
}

/// A shard, driven as the local engine drives it, without threads.
pub(crate) struct Driver {
    pub(crate) shard: Shard<u64>,
    pub(crate) now: Now,
    last_ticket: u64,
    pub(crate) member: MemberSlot,
    pub(crate) answers: BTreeMap<u64, Answer>,
    pub(crate) told: Told,
    pub(crate) last_refusal: Option<Error>,
}

pub(crate) fn queue() -> QueueName {
    QueueName::new("orders").unwrap()
}

/// Units of 16 KiB: everything that happens to large ones happens here within a few batches.
fn tiny() -> FileOptions {
    FileOptions {
        segment_bytes_max: 16 << 10,
        segment_bytes_first: 8 << 10,
        snapshot_after_bytes: 24 << 10,
        snapshot_room_bytes: 1 << 10,
        free_bytes_min: 0,
        holder: "a test".into(),
        salt: 7,
    }
}

impl Driver {
    pub(crate) fn open(disk: &SimDisk, now: Now) -> Result<Self, JournalFault> {
        // Nothing is remembered: every content comes from the disk.
        let options = ShardOptions { body_cache_bytes_max: 0, ..ShardOptions::default() };
        let shard = Shard::open(now, &options, |replay| {
            let disk = Arc::new(disk.clone());
            let journal = FileJournal::open(disk, Path::new("/store"), tiny(), replay)?;
            Ok(Box::new(journal) as Box<dyn Journal>)
        })?;
        let (member, answers, told) = (MemberSlot(0), BTreeMap::new(), Told::default());
        let mut driver =
            Self { shard, now, last_ticket: 0, member, answers, told, last_refusal: None };
        let join = Command::Join {
            id: MemberId(now.boot.0.into()),
            metadata: String::new(),
            ttl_ms: 600_000,
        };
        if let Some(Outcome::Joined(slot)) = driver.ask(join, Vec::new()) {
            driver.member = slot;
        }
        Ok(driver)
    }

    /// Hands a call in; its answer comes with a later [`Driver::turn`].
    pub(crate) fn submit(&mut self, command: Command, contents: Vec<Bytes>) -> u64 {
        self.last_ticket += 1;
        let (number, ticket) = (RequestNumber(0), self.last_ticket);
        let request =
            Request { member: self.member, number, answered_below: number, command, fence: None };
        let broken = self.shard.fault().is_some();
        self.shard.apply(
            self.now,
            Ticket(ticket),
            &Call { request, contents: contents.into() },
            ticket,
        );
        if broken {
            self.take();
            let answer = &self.answers[&ticket];
            assert!(matches!(answer, Err(Error::Fault(_))), "answered after a fault: {answer:?}");
        }
        ticket
    }

    fn take(&mut self) {
        for (ticket, answer) in self.shard.take_free() {
            self.answers.insert(ticket, answer.map(Unread::read));
        }
    }

    /// One turn of the writer: append, flush, upkeep, long work.
    pub(crate) fn turn(&mut self) {
        self.shard.seal();
        self.take();
        if self.shard.needs_flush() {
            match self.shard.flusher().unwrap().flush() {
                Ok(frame) => self.shard.flushed(self.now, frame),
                Err(fault) => self.shard.fail(fault),
            }
        }
        self.take();
        self.upkeep();
    }

    /// What is done between turns.
    pub(crate) fn upkeep(&mut self) {
        for _ in 0..50 {
            let busy = self.shard.upkeep(self.now);
            let job = self.shard.next_job();
            let idle = job.is_none();
            if let Some(job) = job {
                self.shard.job_done(job.run());
            }
            if idle && !busy {
                break;
            }
        }
        self.take();
    }

    pub(crate) fn ask(&mut self, command: Command, contents: Vec<Bytes>) -> Option<Outcome> {
        self.ask_for_all(command, contents).map(|reply| reply.outcome)
    }

    /// The answer, if the store is well; what went wrong is counted.
    fn ask_for_all(&mut self, command: Command, contents: Vec<Bytes>) -> Option<Reply> {
        let ticket = self.submit(command, contents);
        self.turns();
        self.answer_of(ticket)
    }

    fn turns(&mut self) {
        for _ in 0..3 {
            self.turn();
        }
    }

    fn answer_of(&mut self, ticket: u64) -> Option<Reply> {
        match self.answers.remove(&ticket) {
            Some(Ok(reply)) => return Some(reply),
            Some(Err(error @ Error::Refused(_))) => {
                self.told.refused += 1;
                self.last_refusal = Some(error);
            }
            Some(Err(Error::Fault(_) | Error::Unknown(_))) => self.told.faults += 1,
            // A full disk keeps the frame and its answers waiting; it is not answered wrongly.
            None => assert!(self.shard.is_short_of_space(), "no answer"),
            Some(Err(other)) => panic!("{other}"),
        }
        None
    }

    pub(crate) fn send(&mut self, bodies: &[Vec<u8>]) {
        let sent = self.submit_send(bodies);
        self.turns();
        self.note_sent(sent);
    }

    /// Several at once, of such a size that a frame has to be sealed before the next fits.
    fn send_burst(&mut self) {
        let sent: Vec<_> = (0..3).map(|_| self.submit_send(&[vec![b'd'; 3_000]])).collect();
        self.turns();
        for sent in sent {
            self.note_sent(sent);
        }
    }

    fn submit_send(&mut self, bodies: &[Vec<u8>]) -> (u64, Vec<Bytes>) {
        let contents: Vec<Bytes> = bodies.iter().map(|body| encode(&body.clone().into())).collect();
        let messages = contents
            .iter()
            .map(|content| NewMessage {
                content_bytes: content.len() as u32,
                ..NewMessage::default()
            })
            .collect();
        let send = Command::Send { queue: queue(), messages };
        (self.submit(send, contents.clone()), contents)
    }

    fn note_sent(&mut self, (ticket, contents): (u64, Vec<Bytes>)) {
        if let Some(Reply { outcome: Outcome::Sent(sequences), .. }) = self.answer_of(ticket) {
            self.told.sent.extend(sequences.iter().zip(contents));
        }
    }

    pub(crate) fn receive(&mut self, max: u32) -> Vec<LockToken> {
        let receive = Receive {
            from: QueuePath::main(queue()),
            session: None,
            max,
            mode: ReceiveMode::PeekLock,
            wait_ms: 0,
            lock_ms: None,
        };
        match self.ask(Command::Receive(receive), Vec::new()) {
            Some(Outcome::Received(views)) => views.iter().filter_map(MessageView::token).collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn settle(&mut self, token: LockToken, disposition: Disposition) {
        let mut contents = Vec::new();
        let overlay = (disposition != Disposition::Complete).then(|| {
            contents.push(Overlay::default().property("tries", 1).reason("chosen").encode());
            NewContent { index: 0, bytes: contents[0].len() as u32 }
        });
        self.told.tried.insert(token.sequence);
        let settlements = Few::One(Settlement { token, disposition, overlay });
        let settle = Command::Settle { from: QueuePath::main(queue()), settlements };
        let done = self.ask(settle, contents) == Some(Outcome::Settled { refused: Vec::new() });
        match disposition {
            _ if !done => return,
            Disposition::Complete => self.told.completed.insert(token.sequence),
            Disposition::DeadLetter => self.told.dead.insert(token.sequence),
            _ => false,
        };
        if !matches!(disposition, Disposition::Complete | Disposition::DeadLetter) {
            self.told.tried.remove(&token.sequence);
        }
    }

    fn lead(&mut self, round: u64) {
        let (lease, id) = (LeaseName::new("leader").unwrap(), LeaseId(round.into()));
        let acquire = Acquire {
            lease: lease.clone(),
            id,
            kind: LeaseKind::Standing,
            ttl_ms: 60_000,
            metadata: String::new(),
            wait_ms: 0,
            priority: 0,
            slots: 1,
        };
        if let Some(Outcome::Granted { term, .. }) = self.ask(Command::Acquire(acquire), vec![]) {
            assert!(term.0 > self.told.term, "term {term} after {}", self.told.term);
            self.told.term = term.0;
        }
        self.ask(Command::ReleaseLease { lease, id, successor: None }, Vec::new());
    }

    /// A fixed run that passes through everything a store does.
    pub(crate) fn workload(&mut self) {
        self.create_queue();
        for round in 0..40_u64 {
            let size = |i: u64| ((round * 131 + i * 397) % 900) as usize;
            self.send(&[vec![b'a'; size(1)], vec![b'b'; size(2)], vec![b'c'; size(3)]]);
            for (nth, token) in self.receive(2).into_iter().enumerate() {
                let how = match (round + nth as u64) % 4 {
                    0 => Disposition::Abandon { delay_ms: None },
                    1 => Disposition::DeadLetter,
                    _ => Disposition::Complete,
                };
                self.settle(token, how);
            }
            if round % 10 == 4 {
                self.send_burst();
            }
            if round % 10 == 9 {
                // Almost everything goes: units become free, or sparse enough to be emptied.
                for token in self.receive(50).into_iter().skip(1) {
                    self.settle(token, Disposition::Complete);
                }
                self.told.dead.clear();
                let from = QueuePath::dead(queue());
                self.ask(Command::Purge { from, before: None, max: 10_000 }, Vec::new());
            }
            self.lead(round + 1);
            self.now = self.now.plus_ms(1_000);
            if round % 3 == 2 {
                self.shard.mark();
                self.turn();
            }
        }
    }

    pub(crate) fn create_queue(&mut self) {
        let settings = Box::new(QueueSettings::default());
        self.ask(Command::CreateQueue { queue: queue(), settings }, Vec::new());
    }

    /// The contents of all messages, as far as they can be read.
    pub(crate) fn peek_contents(&mut self) -> Vec<Result<Bytes, String>> {
        let (from, sequence) = (QueuePath::main(queue()), SequenceNumber(0));
        let peek = Command::Peek { from, sequence, max: 10_000, session: None };
        self.ask_for_all(peek, Vec::new()).unwrap().contents.into()
    }

    fn peek(&mut self, from: QueuePath) -> BTreeMap<SequenceNumber, Bytes> {
        let sequence = SequenceNumber(0);
        let peek = Command::Peek { from, sequence, max: 10_000, session: None };
        let Some(reply) = self.ask_for_all(peek, Vec::new()) else { return BTreeMap::new() };
        let Outcome::Peeked(views) = reply.outcome else { panic!("messages") };
        let mut contents = reply.contents.into_iter();
        let mut all = BTreeMap::new();
        for view in views {
            let mut of_view = view.contents().map(|_| contents.next().unwrap().unwrap());
            all.insert(view.sequence, of_view.next().unwrap());
            of_view.for_each(drop);
        }
        all
    }
}

/// A store started again must hold what was told, and go on.
pub(crate) fn assert_kept(disk: &SimDisk, told: &Told, now: Now, what: &str) {
    let mut driver = Driver::open(disk, now).unwrap_or_else(|e| panic!("{what}: {e}"));
    driver.create_queue();
    let main = driver.peek(QueuePath::main(queue()));
    let dead = driver.peek(QueuePath::dead(queue()));
    for (sequence, body) in &told.sent {
        let found = main.get(sequence).or(dead.get(sequence));
        if told.completed.contains(sequence) {
            assert!(found.is_none(), "{what}: {sequence} was completed and is there again");
        } else if told.dead.contains(sequence) {
            assert!(dead.contains_key(sequence), "{what}: dead letter {sequence} is lost");
        } else if !told.tried.contains(sequence) {
            assert!(found.is_some(), "{what}: {sequence} was acknowledged and is lost");
        }
        assert!(found.is_none_or(|found| found == body), "{what}: {sequence} has other bytes");
    }
    driver.told.term = told.term;
    // What was not released is honoured for its whole time, then it is free.
    driver.now = driver.now.plus_ms(60_000);
    driver.shard.tick(driver.now);
    driver.lead(1_000);
    assert!(driver.told.term > told.term, "{what}: no new term");
    let last = main.keys().chain(dead.keys()).chain(told.sent.keys()).max().copied();
    driver.send(&[vec![b'z'; 100]]);
    let new = driver.told.sent.keys().next().copied();
    assert!(new > last, "{what}: number {new:?} after {last:?}");
    driver.shard.close(driver.now);
    assert!(driver.shard.fault().is_none(), "{what}: {:?}", driver.shard.fault());
}
