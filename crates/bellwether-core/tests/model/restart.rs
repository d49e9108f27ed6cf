//! Restarts: the ledger rebuilt from what it wrote down.

use bellwether_core::change::Change;
use bellwether_core::codec::{self, Reader};
use bellwether_core::command::{Command, Disposition, Request, Settlement};
use bellwether_core::content::Place;
use bellwether_core::job::Which;
use bellwether_core::ledger::{Effects, Ledger, SnapshotCursor};
use bellwether_core::message::{MessageView, State};
use bellwether_core::name::{
    LeaseName, MemberSlot, Part, QueuePath, RequestNumber, SequenceNumber, Term, Ticket,
};
use bellwether_core::outcome::{HolderInfo, LeaseInfo, LeaseState, Outcome};
use bellwether_core::time::{BootTime, Now};

use super::compare::{plain, plain_outcome, plain_view};
use super::world::{UNIT, World, nobodys, place_of};

/// A snapshot that is being taken while the ledger moves on.
pub struct Snapshot {
    cursor: SnapshotCursor,
    bytes: Vec<u8>,
    /// Frames from here on are replayed over it.
    from: u64,
}

impl World {
    /// Goes on with a snapshot, and now and then ends this life.
    pub fn random_restart(&mut self) {
        if self.snapshot.is_none() && self.chance.below(40) == 0 {
            let cursor = SnapshotCursor::new();
            self.snapshot = Some(Snapshot { cursor, bytes: Vec::new(), from: self.frame });
        }
        if self.chance.below(3) == 0
            && let Some(snapshot) = &mut self.snapshot
        {
            let (max, now) = (1 + self.chance.below(4) as usize, self.now.boot);
            self.ledger.snapshot(&mut snapshot.cursor, max, &mut |change| {
                codec::encode_change(&change, now, &mut snapshot.bytes);
            });
        }
        let done = self.snapshot.take_if(|snapshot| snapshot.cursor.is_done());
        if let Some(snapshot) = done {
            self.compare_rebuilt(&snapshot.bytes, snapshot.from);
            if self.chance.below(2) == 0 {
                self.restart(&snapshot.bytes, snapshot.from);
            }
        }
        if self.chance.below(100) == 0 {
            self.compare_rebuilt(&[], 0);
        }
        if self.chance.below(200) == 0 {
            self.restart(&[], 0);
        }
    }

    /// A ledger from a snapshot and the frames from `from` on.
    fn rebuild(&self, snapshot: &[u8], from: u64, now: Now) -> Ledger {
        let mut ledger = Self::empty_ledger();
        replay(&mut ledger, now, snapshot);
        for (frame, bytes) in self.journal.iter().filter(|(frame, _)| *frame >= from) {
            ledger.begin_frame(*frame);
            replay(&mut ledger, now, bytes);
        }
        ledger
    }

    /// This life ends and another one begins, in which everything goes on.
    fn restart(&mut self, snapshot: &[u8], from: u64) {
        // The other clock means nothing to the new life.
        self.now.boot = BootTime(self.chance.below(1_000_000));
        let mut ledger = self.rebuild(snapshot, from, self.now);
        let mut fx = Effects::default();
        // Replaying took a while.
        self.now = self.now.plus_ms(self.chance.below(2) * 700);
        self.frame += 1;
        ledger.begin_frame(self.frame);
        ledger.start(self.now, &mut fx);
        self.ledger = ledger;
        self.record(&fx);
        self.frame += 1;
        self.ledger.begin_frame(self.frame);
        self.asked.clear();
        self.snapshot = None;
        let leases = leases(&mut self.ledger, self.now);
        let left = |name: &LeaseName, term: Term| {
            let info = leases.iter().find(|info| info.name == *name);
            let mut holders = info.into_iter().flat_map(LeaseInfo::holders);
            holders.find(|holder| holder.term == term).map_or(0, |holder| holder.remaining_ms)
        };
        self.naive.restart(self.now, left);
        self.tick();
        self.compare_everything();
        // All holds end together now, and which of them ends first is nobody's promise.
        for (queue, token, _) in self.naive.all_holds() {
            self.now = self.now.plus_ms(1);
            self.tick();
            self.apply(&nobodys(Command::RenewSession { queue, token }));
        }
    }

    /// A second ledger from the same records tells the same as the one that lives, which tells the
    /// same as the naive one.
    fn compare_rebuilt(&mut self, snapshot: &[u8], from: u64) {
        // What is left of forgotten jobs does not outlive a restart, and may not outlast a tick.
        self.tick();
        self.compare_everything();
        let (now, place) = (self.now, self.place());
        let mut again = self.rebuild(snapshot, from, now);
        again.begin_frame(self.frame);
        again.start(now, &mut Effects::default());
        let mut ours = self.naive.queue_infos();
        ours.sort_by(|a, b| a.name.cmp(&b.name));
        let theirs = Self::queues(&mut again, now);
        assert_eq!(ours, theirs, "{place}: queues");
        for info in &ours {
            for part in [Part::Main, Part::Dead] {
                let path = QueuePath { queue: info.name.clone(), part };
                let ours = self.naive.views(&path);
                let theirs = peek(&mut again, now, &path);
                compare_views(&ours, &theirs, now, &place);
            }
        }
        self.compare_jobs(&mut again);
        compare_leases(&self.naive.lease_infos(), &leases(&mut again, now), &place);
        assert_eq!(again.live_bytes(UNIT), self.ledger.live_bytes(UNIT), "{place}: bytes");
        assert_eq!(again.message_count(), self.ledger.message_count(), "{place}: messages");
        for id in 1..=self.contents_ever {
            let id = bellwether_core::content::ContentId(id);
            assert_eq!(again.place(id), self.ledger.place(id), "{place}: {id:?}");
        }
        self.compare_kept(&mut again);
        self.compare_locks(&mut again);
    }

    fn compare_jobs(&self, again: &mut Ledger) {
        let list = Command::ListSchedules { from: None, max: u32::MAX };
        let theirs = Self::ask(again, self.now, list);
        let ours = self.naive.list_schedules(None, u32::MAX);
        assert_eq!(ours, theirs, "{}: schedules", self.place());
        let list = Command::ListJobs { after: None, max: u32::MAX };
        let theirs = Self::ask(again, self.now, list);
        assert_eq!(self.naive.list_jobs(None, u32::MAX), theirs, "{}: jobs", self.place());
        for job in self.naive.jobs.iter().map(|job| job.name.clone()) {
            let (from, max, which) = (0, u32::MAX, Which::All);
            let ours = self.naive.list_items(&job, from, max, which).expect("it is there");
            let theirs = Self::ask(again, self.now, Command::ListItems { job, from, max, which });
            assert_eq!(ours, plain_outcome(&theirs), "{}: items", self.place());
        }
    }

    /// A second ledger from the same records has the same in its queues.
    pub fn compare_with_rebuilt(&mut self) {
        let (now, place) = (self.now, self.place());
        let mut again = self.rebuild(&[], 0, now);
        again.start(now, &mut Effects::default());
        let ours = Self::queues(&mut self.ledger, now);
        assert_eq!(ours, Self::queues(&mut again, now), "{place}: queues");
        for info in &ours {
            for part in [Part::Main, Part::Dead] {
                let path = QueuePath { queue: info.name.clone(), part };
                let ours = peek(&mut self.ledger, now, &path);
                let theirs = peek(&mut again, now, &path);
                compare_views(&ours, &theirs, now, &place);
            }
        }
    }

    /// The journal ends at some frame: what it tells is a store that works, loses nothing it
    /// counted, and lets go of every lock in the end.
    pub fn survive_a_power_cut(&mut self) {
        let (now, place) = (self.now, self.place());
        let last = self.chance.below(self.frame);
        let mut ledger = Self::empty_ledger();
        for (frame, bytes) in self.journal.iter().filter(|(frame, _)| *frame <= last) {
            ledger.begin_frame(*frame);
            replay(&mut ledger, now, bytes);
        }
        ledger.begin_frame(last + 1);
        ledger.start(now, &mut Effects::default());
        for info in Self::queues(&mut ledger, now) {
            Self::check_totals(&info, &place);
        }
        let later = now.plus_ms(10_000);
        for _ in 0..100 {
            let mut fx = Effects::default();
            ledger.apply(later, Ticket(0), &nobodys(Command::Tick), &mut fx);
            ledger.durable(later, last + 1, &mut fx);
        }
        assert_ne!(ledger.next_deadline_ms(later), Some(0), "{place}: it comes to rest");
        for info in Self::queues(&mut ledger, later) {
            Self::check_totals(&info, &place);
            assert_eq!(info.counts.locked, 0, "{place}: locked for ever: {info:?}");
        }
    }

    /// What was answered is answered again.
    fn compare_kept(&self, again: &mut Ledger) {
        for (slot, number, expected) in self.naive.all_kept() {
            let request = Request {
                member: MemberSlot(slot),
                number: RequestNumber(number),
                answered_below: RequestNumber(0),
                command: Command::Tick,
                fence: None,
            };
            let mut fx = Effects::default();
            again.apply(self.now, Ticket(number), &request, &mut fx);
            assert!(fx.changes.is_empty(), "{}: an answer is not given twice", self.place());
            let mut answer = plain(&fx.answers[0].result);
            let mut expected = plain_outcome(&expected);
            forget_ends(&mut expected);
            answer.iter_mut().for_each(forget_ends);
            assert_eq!(answer, Ok(expected), "{}: {slot}/{number}", self.place());
        }
    }

    /// L4: locks and holds keep their tokens, for a full duration from the restart.
    fn compare_locks(&self, again: &mut Ledger) {
        let mut held = Vec::new();
        for (queue, token, lock_ms) in self.naive.all_holds() {
            held.push((lock_ms, Command::RenewSession { queue, token }));
        }
        for (from, token, lock_ms) in self.naive.all_locks() {
            let settlement =
                Settlement { token, disposition: Disposition::Complete, overlay: None };
            held.push((lock_ms, Command::Settle { from, settlements: vec![settlement].into() }));
        }
        held.sort_by_key(|(lock_ms, _)| *lock_ms);
        for (lock_ms, command) in held {
            let late = self.now.plus_ms(u64::from(lock_ms) - 1);
            let mut fx = Effects::default();
            again.apply(late, Ticket(u64::MAX), &nobodys(command.clone()), &mut fx);
            let answer = fx.answers.pop().map(|answer| answer.result);
            let is_good = match &answer {
                Some(Ok(Outcome::Renewed { .. })) => true,
                Some(Ok(Outcome::Settled { refused })) => refused.is_empty(),
                _ => false,
            };
            assert!(is_good, "L4 {}: {command:?} {answer:?}", self.place());
        }
    }
}

fn replay(ledger: &mut Ledger, now: Now, bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let change = codec::decode_change(&mut reader, now.boot).expect("what was written");
        let place: Option<Place> = match change {
            Change::Content { id, len, .. } => Some(place_of(id, len)),
            _ => None,
        };
        ledger.replay(now, &change, place);
    }
}

fn peek(ledger: &mut Ledger, now: Now, from: &QueuePath) -> Vec<MessageView> {
    let (from, sequence) = (from.clone(), SequenceNumber(0));
    let command = Command::Peek { from, sequence, max: 1000, session: None };
    match World::ask(ledger, now, command) {
        Outcome::Peeked(views) => views,
        other => panic!("{other:?}"),
    }
}

fn leases(ledger: &mut Ledger, now: Now) -> Vec<LeaseInfo> {
    match World::ask(ledger, now, Command::ListLeases { after: None, max: u32::MAX }) {
        Outcome::Leases(infos) => infos,
        other => panic!("{other:?}"),
    }
}

fn compare_views(ours: &[MessageView], theirs: &[MessageView], now: Now, place: &str) {
    let plain = |view: &MessageView| {
        let mut view = plain_view(view);
        forget_end(&mut view);
        view
    };
    let a: Vec<_> = ours.iter().map(plain).collect();
    let b: Vec<_> = theirs.iter().map(plain).collect();
    assert_eq!(a, b, "{place}: messages");
    for view in theirs {
        if let State::Locked(lock) = view.message.standing.state {
            let full = now.boot.plus_ms(lock.lock_ms.into());
            assert!(lock.until >= full, "L4 {place}: {view:?}");
        }
    }
}

fn compare_leases(ours: &[LeaseInfo], theirs: &[LeaseInfo], place: &str) {
    assert_eq!(ours.len(), theirs.len(), "{place}: leases");
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!(ours.name, theirs.name, "{place}");
        // Of several slots one that had ended may stand again, and be the oldest.
        if (ours.slots, theirs.slots) == (1, 1) {
            assert_eq!(ours.term, theirs.term, "E1 {place}");
        }
        let both = format!("{ours:?} {theirs:?}");
        for ours in ours.holders() {
            let theirs = theirs.holders().find(|theirs| theirs.term == ours.term);
            let theirs = theirs.unwrap_or_else(|| panic!("E8 {place}: {both}"));
            let told = |info: &HolderInfo| (info.id, info.holder, info.state);
            // A holder that lived in the process has gone with it, and its lease runs out.
            assert_eq!(told(&ours), told(&theirs), "E8 {place}: {both}");
            assert!(
                theirs.remaining_ms >= ours.remaining_ms || ours.state == LeaseState::Breaking,
                "E8 {place}: {both}"
            );
        }
        let (at_most, held) = (theirs.slots as usize, theirs.holders().count());
        assert!(held <= at_most, "T47 {place}: {both}");
    }
}

fn forget_end(view: &mut MessageView) {
    if let State::Locked(lock) = &mut view.message.standing.state {
        lock.until = BootTime::NEVER;
    }
}

fn forget_ends(outcome: &mut Outcome) {
    if let Outcome::Received(views) = outcome {
        views.iter_mut().for_each(forget_end);
    }
}
