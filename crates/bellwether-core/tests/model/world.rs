//! One run: both implementations, one clock, one journal.

use std::collections::BTreeMap;

use bellwether_core::chance::Chance;
use bellwether_core::change::Change;
use bellwether_core::codec;
use bellwether_core::command::{Command, Request};
use bellwether_core::content::{ContentId, Place};
use bellwether_core::job::{EndJob, Which};
use bellwether_core::ledger::{Effects, Ledger};
use bellwether_core::name::{
    JobName, MemberSlot, Part, QueuePath, RequestNumber, ScheduleName, SequenceNumber, Ticket,
};
use bellwether_core::outcome::{Outcome, QueueInfo};
use bellwether_core::schedule::SteerSchedule;
use bellwether_core::time::Now;

use super::commands::Known;
use super::compare::plain;
use super::naive::{Answer, Naive};
use super::restart::Snapshot;

/// Everything lies in one unit here.
pub const UNIT: u64 = 1;
const MEMORY_BYTES_MAX: u64 = 1 << 30;

pub struct World {
    pub seed: u64,
    pub step: u32,
    pub chance: Chance,
    pub now: Now,
    pub ledger: Ledger,
    pub naive: Naive,
    pub ticket: u64,
    pub frame: u64,
    /// Every frame since the beginning.
    pub journal: Vec<(u64, Vec<u8>)>,
    pub snapshot: Option<Snapshot>,
    /// Who still waits for what.
    pub asked: BTreeMap<Ticket, Request>,
    pub known: Known,
    pub contents_ever: u64,
}

/// A request that nobody made.
pub fn nobodys(command: Command) -> Request {
    Request {
        member: MemberSlot(0),
        number: RequestNumber(0),
        answered_below: RequestNumber(0),
        command,
        fence: None,
    }
}

/// Where the harness says a content lies.
pub fn place_of(id: ContentId, len: u32) -> Place {
    Place { unit: UNIT, offset: id.0 as u32, len }
}

impl World {
    pub fn new(seed: u64) -> Self {
        let now = Now::new(1_000_000, 10_000);
        let mut world = Self {
            seed,
            step: 0,
            chance: Chance::new(seed),
            now,
            ledger: Ledger::new(MEMORY_BYTES_MAX),
            naive: Naive::new(now),
            ticket: 0,
            frame: 1,
            journal: Vec::new(),
            snapshot: None,
            asked: BTreeMap::new(),
            known: Known::default(),
            contents_ever: 0,
        };
        let mut fx = Effects::default();
        world.ledger.begin_frame(world.frame);
        world.ledger.start(now, &mut fx);
        world.record(&fx);
        world
    }

    pub fn empty_ledger() -> Ledger {
        Ledger::new(MEMORY_BYTES_MAX)
    }

    /// Some queues and members to begin with.
    pub fn begin(&mut self) {
        for _ in 0..10 {
            let request = self.first_request();
            self.apply(&request);
        }
    }

    pub fn random_step(&mut self) {
        self.step += 1;
        self.pass_time();
        if self.chance.below(30) == 0 {
            self.withdraw_somebody();
        }
        let request = self.random_request();
        self.apply(&request);
        self.check_invariants();
        self.random_restart();
    }

    /// Lets time pass, in one leap or from one deadline to the next, and everything that is due
    /// happen.
    fn pass_time(&mut self) {
        let ms = match self.chance.below(600) {
            0..420 => 0,
            420..540 => self.chance.below(40),
            540..588 => self.chance.below(400),
            588..599 => self.chance.below(4_000),
            _ => 11 * 60 * 1000,
        };
        let target = self.now.plus_ms(ms);
        if self.chance.below(2) == 0 {
            while let Some(next) = self.ledger.next_deadline_ms(self.now) {
                if self.now.plus_ms(next).boot >= target.boot {
                    break;
                }
                self.now = self.now.plus_ms(next);
                self.tick();
            }
        }
        self.now = target;
        if self.chance.below(200) == 0 {
            // Somebody sets the clock on the wall forward; backward would bring message ids back
            // that one side has forgotten and the other has not.

            let shift = self.chance.below(200);
            self.now.wall.0 += shift;
        }
        self.tick();
    }

    pub fn tick(&mut self) {
        for round in 0.. {
            if self.ledger.next_deadline_ms(self.now) != Some(0) {
                break;
            }
            assert!(round < 1000, "{}: it never comes to rest", self.place());
            self.apply(&nobodys(Command::Tick));
        }
        self.naive.now = self.now;
        assert_eq!(self.naive.due(), None, "{}: due and not done", self.place());
    }

    fn withdraw_somebody(&mut self) {
        let waiting: Vec<Ticket> = self.asked.keys().copied().collect();
        if let Some(ticket) = self.pick(&waiting) {
            // A withdrawal tells no time: it happens at the newest time told.
            self.apply(&nobodys(Command::Tick));
            let (a, b) = (self.ledger.withdraw(ticket), self.naive.drop_wait(ticket).is_some());
            assert_eq!(a, b, "{}: whether {ticket:?} waits", self.place());
            self.asked.remove(&ticket);
        }
    }

    /// Gives the request to both and compares everybody's answers.
    pub fn apply(&mut self, request: &Request) {
        self.ticket += 1;
        let ticket = Ticket(self.ticket);
        let mut fx = Effects::default();
        self.ledger.begin_frame(self.frame);
        self.ledger.apply(self.now, ticket, request, &mut fx);
        self.record(&fx);
        let mut answers = std::mem::take(&mut fx.answers);
        loop {
            fx = Effects::default();
            self.frame += 1;
            self.ledger.begin_frame(self.frame);
            self.ledger.durable(self.now, self.frame - 1, &mut fx);
            self.record(&fx);
            answers.append(&mut fx.answers);
            if fx.changes.is_empty() {
                break;
            }
        }
        self.asked.insert(ticket, request.clone());
        let mut ours: Vec<(Ticket, Answer)> =
            answers.into_iter().map(|answer| (answer.ticket, answer.result)).collect();
        let mut theirs = self.naive.step(self.now, ticket, request);
        ours.sort_by_key(|(ticket, _)| *ticket);
        theirs.sort_by_key(|(ticket, _)| *ticket);
        let a: Vec<_> = ours.iter().map(|(ticket, answer)| (*ticket, plain(answer))).collect();
        let b: Vec<_> = theirs.iter().map(|(ticket, answer)| (*ticket, plain(answer))).collect();
        if a != b {
            self.disagree(ticket, request, &a, &b);
        }
        for (ticket, answer) in ours {
            let request = self.asked.remove(&ticket).expect("an answer to a request, once");
            self.learn(&request, &answer);
        }
    }

    fn disagree(
        &self,
        ticket: Ticket,
        request: &Request,
        ours: &[(Ticket, Answer)],
        theirs: &[(Ticket, Answer)],
    ) -> ! {
        let mut different = Vec::new();
        let tickets = ours.iter().chain(theirs).map(|(ticket, _)| *ticket);
        let mut tickets: Vec<Ticket> = tickets.collect();
        tickets.sort();
        tickets.dedup();
        for ticket in tickets {
            let find = |list: &[(Ticket, Answer)]| -> Vec<String> {
                let all = list.iter().filter(|(t, _)| *t == ticket);
                all.map(|(_, answer)| format!("{answer:?}")).collect()
            };
            let (a, b) = (find(ours), find(theirs));
            if a != b {
                let asked = self.asked.get(&ticket);
                let (a, b) = (a.join("\n"), b.join("\n"));
                different.push(format!("{ticket:?} {asked:?}\nledger: {a}\nnaive:  {b}"));
            }
        }
        panic!("{}: {ticket:?} {request:?}\n{}", self.place(), different.join("\n"));
    }

    /// Where we are, and how to get here again.
    pub fn place(&self) -> String {
        format!(
            "seed {} step {} at {:?}; again with\n  BELLWETHER_MODEL_SEED={} cargo test -p \
             bellwether-core --test model\n",
            self.seed, self.step, self.now, self.seed
        )
    }

    /// Writes changes down as the journal would.
    pub fn record(&mut self, fx: &Effects) {
        if fx.changes.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        for change in &fx.changes {
            codec::encode_change(change, self.now.boot, &mut bytes);
            if let Change::Content { id, len, .. } = change {
                self.ledger.set_place(*id, place_of(*id, *len));
                self.contents_ever = self.contents_ever.max(id.0);
            }
        }
        self.journal.push((self.frame, bytes));
    }

    /// Asks the ledger something that changes nothing.
    pub fn ask(ledger: &mut Ledger, now: Now, command: Command) -> Outcome {
        let mut fx = Effects::default();
        ledger.apply(now, Ticket(u64::MAX), &nobodys(command), &mut fx);
        assert!(fx.changes.is_empty(), "looking changes nothing");
        fx.answers.pop().expect("an answer").result.expect("no refusal")
    }

    pub fn queues(ledger: &mut Ledger, now: Now) -> Vec<QueueInfo> {
        match Self::ask(ledger, now, Command::ListQueues { after: None, max: u32::MAX }) {
            Outcome::Queues(infos) => infos,
            other => panic!("{other:?}"),
        }
    }

    /// Nothing is dropped in silence (D8); returns how many messages are there.
    pub fn check_totals(info: &QueueInfo, place: &str) -> u64 {
        let (counts, totals) = (info.counts, info.totals);
        let live =
            counts.ready + counts.locked + counts.scheduled + counts.deferred + counts.dead_letters;
        let gone =
            totals.completed + totals.expired + totals.purged + totals.cancelled + totals.forwarded;
        assert_eq!(totals.sent, live + gone, "D8 {place}: {info:?}");
        live
    }

    fn check_invariants(&mut self) {
        let mut bytes = 0;
        let mut messages = 0;
        for info in self.naive.queue_infos() {
            bytes += info.counts.size_bytes;
            messages += Self::check_totals(&info, &self.place());
        }
        let bytes = bytes.checked_add_signed(self.naive.job_bytes()).unwrap();
        let bytes = bytes.checked_add_signed(self.naive.schedule_bytes()).unwrap();
        assert_eq!(self.ledger.live_bytes(UNIT), bytes, "{}: bytes", self.place());
        assert_eq!(self.ledger.live_bytes(0), 0, "{}: contents without place", self.place());
        assert_eq!(self.ledger.message_count(), messages, "{}: messages", self.place());
        if self.step.is_multiple_of(16) {
            self.compare_everything();
        }
    }

    /// Looks at every queue, message, lease and member on both sides.
    pub fn compare_everything(&mut self) {
        self.apply(&nobodys(Command::ListQueues { after: None, max: u32::MAX }));
        for info in self.naive.queue_infos() {
            for part in [Part::Main, Part::Dead] {
                let from = QueuePath { queue: info.name.clone(), part };
                let sequence = SequenceNumber(0);
                self.apply(&nobodys(Command::Peek { from, sequence, max: 1000, session: None }));
            }
        }
        self.apply(&nobodys(Command::ListLeases { after: None, max: u32::MAX }));
        self.apply(&nobodys(Command::ListMembers));
        self.apply(&nobodys(Command::ListSchedules { from: None, max: u32::MAX }));
        self.apply(&nobodys(Command::ListJobs { after: None, max: u32::MAX }));
        let jobs: Vec<JobName> = self.naive.jobs.iter().map(|job| job.name.clone()).collect();
        for job in jobs {
            let (from, max, which) = (0, u32::MAX, Which::All);
            self.apply(&nobodys(Command::ListItems { job, from, max, which }));
        }
    }

    /// When all queues are gone nothing is left of their contents.
    pub fn drain(&mut self) {
        self.compare_everything();
        for info in self.naive.queue_infos() {
            self.apply(&nobodys(Command::DeleteQueue { queue: info.name }));
        }
        let jobs: Vec<JobName> = self.naive.jobs.iter().map(|job| job.name.clone()).collect();
        for job in jobs {
            self.apply(&nobodys(Command::EndJob { job: job.clone(), how: EndJob::Cancel }));
            self.apply(&nobodys(Command::EndJob { job, how: EndJob::Forget }));
        }
        let schedules = self.naive.schedules.iter().map(|schedule| schedule.name.clone());
        let schedules: Vec<ScheduleName> = schedules.collect();
        for schedule in schedules {
            let how = SteerSchedule::Delete;
            self.apply(&nobodys(Command::SteerSchedule { schedule, how }));
        }
        self.tick();
        assert_eq!(self.ledger.message_count(), 0, "{}", self.place());
        assert_eq!(self.ledger.live_bytes(UNIT), 0, "{}", self.place());
        for id in 1..=self.contents_ever {
            let left = self.ledger.place(ContentId(id));
            assert_eq!(left, None, "{}: content {id} leaks", self.place());
        }
    }
}
