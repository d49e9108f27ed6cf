//! What happened, as the invariants see it.
//!
//! The server's boundary is where promises are made: a request counts from the moment it is
//! *applied*, an answer from the moment it is *said*, whether or not a packet with it arrives.
//! What was said is promised; what was applied may have happened.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use bellwether_core::name::Part;
use bellwether_core::outcome::{Counts, Totals};

use crate::invariants::{Invariants, Violation};
use crate::plan::Plan;

/// Records kept for the report of a failure.
const LAST_RECORDS: usize = 4_000;

/// A numbered request of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// The member's slot.
    pub slot: u32,
    /// The request's number.
    pub number: u64,
}

/// A queue. One that is created under the name of a deleted one is another queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Queue {
    /// Its name.
    pub index: u8,
    /// Which of that name; zero if there was none.
    pub id: u32,
}

/// Where its plan is.
impl From<Queue> for usize {
    fn from(queue: Queue) -> Self {
        queue.index.into()
    }
}

/// A message's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Spot {
    /// Which queue.
    pub queue: Queue,
    /// Which half.
    pub part: Part,
    /// Its number.
    pub sequence: u64,
}

/// The proof of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token {
    /// Of which message.
    pub spot: Spot,
    /// Delivery number.
    pub number: u32,
    /// Life of the shard.
    pub incarnation: u32,
}

/// The proof of one hold of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hold {
    /// In which queue.
    pub queue: Queue,
    /// Which session.
    pub session: u8,
    /// Number of the hold.
    pub number: u32,
    /// Life of the shard.
    pub incarnation: u32,
}

/// What a content turned out to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Body {
    /// The body of this message, to the byte.
    Of(u64),
    /// Something else.
    Wrong(String),
    /// It could not be read.
    Unreadable(String),
}

/// How a delivery was to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum How {
    /// Completed.
    Complete,
    /// Given back as failed, after so long.
    Abandon(u64),
    /// Given back unused.
    Release,
    /// Set aside.
    Defer,
    /// To the dead letters.
    DeadLetter,
}

/// One message handed out.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Delivery {
    /// Its proof.
    pub token: Token,
    /// By which request.
    pub key: Key,
    /// What it carries.
    pub body: Body,
    /// The number it had when it was sent.
    pub origin: u64,
    /// Deliveries that ended before and count.
    pub counted: u32,
    /// When it was locked, in true milliseconds; when it was said, if it is a session's.
    pub granted_ms: u64,
    /// How long.
    pub lock_ms: u64,
    /// How long the receiver wanted it locked, if not for as long as its queue says.
    pub wanted_ms: Option<u64>,
    /// Under which hold.
    pub hold: Option<Hold>,
}

/// Something that keeps one value until it gets another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cell {
    /// The state of a session; the value is the body it was made from, zero for none.
    State { queue: Queue, session: u8 },
    /// Settings of a queue that are changed now and then; see [`crate::plan::Mood`].
    Mood { queue: Queue },
}

/// Where a message stood when somebody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stands {
    /// Ready.
    Ready,
    /// Locked.
    Locked,
    /// Waits for its time.
    Later,
    /// Set aside.
    Deferred,
}

/// One message seen by the auditor.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Seen {
    /// Where.
    pub spot: Spot,
    /// What it carries.
    pub body: Body,
    /// The number it had when it was sent.
    pub origin: u64,
    /// How it stood.
    pub stands: Stands,
    /// Under which delivery it is locked.
    pub lock: Option<Token>,
    /// Deliveries that ended and count.
    pub counted: u32,
    /// It is a dead letter because of them.
    pub too_often: bool,
    /// It is a dead letter because its receivers crashed.
    pub convicted: bool,
}

/// Somebody in line for a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    /// Its slot.
    pub slot: u32,
    /// How long it may be silent.
    pub ttl_ms: u64,
}

/// One thing that happened.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "some of it is only told to people, by --verbose")]
pub(crate) enum What {
    /// The server began a life.
    Opened { incarnation: u32 },
    /// The server's process ended; what the kernel has is kept.
    Killed,
    /// The server lost power; what was not flushed may be gone.
    PowerCut,
    /// A write or flush of the log failed, for a reason that was planted or for none.
    Broken { planted: bool, fault: String },
    /// Recovery failed.
    NotOpened { planted: bool, fault: String },
    /// A flush begins: it covers everything said so far.
    Flushing,
    /// It is done.
    Flushed,

    /// A call to the disk is about to be made to fail.
    DiskCallFails,

    /// A request was applied, which says that its member has heard all answers below.
    Applied { slot: u32, answered_below: u64 },
    /// An answer was said. `durable`: it tells of something that must survive. `kept`: it must be
    /// the same when it is asked for again; if it is not durable, unless a power cut undid it.
    /// It was applied in record `as_of`.
    Answered {
        key: Key,
        durable: bool,
        kept: bool,
        ok: bool,
        digest: u64,
        why: Option<String>,
        as_of: u64,
    },

    /// A send was applied.
    SendApplied {
        key: Key,
        queue: Queue,
        ids: Vec<u64>,
        /// Hashes of their message ids; zero for none.
        hashes: Vec<u64>,
        wall_ms: u64,
        due_wall_ms: u64,
        expires_wall_ms: u64,
    },
    /// It was acknowledged; zero is a duplicate that was dropped. It was applied in record `as_of`.
    /// `volatile`, here and below: by a relaxed queue, so that a power cut may undo it (D11).
    Sent {
        as_of: u64,
        key: Key,
        queue: Queue,
        ids: Vec<u64>,
        sequences: Vec<u64>,
        session: Option<u8>,
        scheduled: bool,
        volatile: bool,
    },
    /// It was refused; it was applied in record `as_of`.
    SendRefused { key: Key, ids: Vec<u64>, as_of: u64 },
    /// Scheduled messages are taken back.
    CancelApplied { queue: Queue, sequences: Vec<u64> },

    /// A message was handed out.
    Delivered(Delivery),
    /// A settlement was applied.
    SettleApplied { token: Token, how: How },
    /// A settlement was answered; it was applied at `applied_ms`.
    Settled {
        key: Key,
        token: Token,
        how: How,
        ok: bool,
        lock_lost: bool,
        applied_ms: u64,
        volatile: bool,
    },
    /// A renewal was applied, for another duration if `lock_ms` says so.
    RenewApplied { token: Token, lock_ms: Option<u64> },
    /// A renewal was answered.
    Renewed { token: Token, ok: bool, lock_lost: bool, applied_ms: u64 },

    /// Messages are to be removed, without their being named: at most so many, and by each copy
    /// of the request if it is not remembered.
    RemoveApplied { key: Key, max: u64, remembered: bool },
    /// So many were; those that are known were handed out with it.
    Removed { key: Key, max: u64, count: u64, known: Vec<(Spot, Body)>, volatile: bool },

    /// This queue has its name now; told after a start, and when that changed.
    QueueIs { queue: Queue },
    /// A queue is to be deleted.
    DeleteApplied { queue: Queue },
    /// It was. `left`: requests that wait for something in it all the same.
    Deleted { queue: Queue, left: usize },

    /// A cell was to get a value.
    CellApplied { cell: Cell, key: Key, value: u64 },
    /// It has got it.
    CellSet { cell: Cell, key: Key },
    /// It was read, which was applied in record `as_of`.
    CellRead { cell: Cell, value: u64, as_of: u64 },

    /// A session is held.
    Held { hold: Hold, key: Key, lock_ms: u64, applied_ms: u64 },
    /// Its hold was to be started anew.
    HoldRenewApplied { hold: Hold },
    /// Its hold was started anew, or not.
    HoldRenewed { hold: Hold, ok: bool, applied_ms: u64 },
    /// Its hold was to be given up.
    HoldClosing { hold: Hold },
    /// A receive under a hold was refused, because it is over.
    HoldRefused { hold: Hold, applied_ms: u64 },

    /// So the ledger has a lease now; in full after it was `opened`, else when that changed. What
    /// it decides counts from here, whether or not anybody is ever told.
    LeaseIs { election: u8, term: u64, id: Option<u128>, slot: u32, held_ms: u64, opened: bool },
    /// A lease was granted, or a grant confirmed; or its id was changed, which does not renew it.
    Granted { election: u8, term: u64, id: u128, slot: u32, renews: bool, applied_ms: u64 },
    /// A heartbeat for a term was answered. `stood`: the lease was held under it when the
    /// heartbeat was applied.
    Kept { election: u8, term: u64, slot: u32, ok: bool, stood: bool, applied_ms: u64 },
    /// A release was applied.
    ReleaseApplied { election: u8, id: u128 },
    /// It was accepted: of those who waited in `line`, first first, the lease went to `to`.
    Passed { election: u8, successor: Option<u32>, line: Vec<Waiter>, to: Option<u32> },
    /// Somebody asks for a lease.
    AcquireApplied { election: u8, id: u128 },
    /// A request that waited was taken back; it had asked for this lease under this id.
    Withdrawn { key: Key, lease: Option<(u8, u128)> },
    /// A change of the id was applied.
    ChangeApplied { election: u8, id: u128 },
    /// A lease is to be taken from its holder.
    BreakApplied { election: u8 },
    /// A member says goodbye.
    LeaveApplied { slot: u32 },
    /// It was let go.
    Left { slot: u32 },
    /// A release was answered. `stood`: the lease was, or had last been, held under this id.
    Released { election: u8, id: u128, ok: bool, stood: bool, applied_ms: u64 },
    /// A renewal by id succeeded. `stood`: the lease was held under it.
    RenewedById { election: u8, id: u128, term: u64, stood: bool, applied_ms: u64 },

    /// A member believes this of its lease, on its own clock.
    Believes { election: u8, member: usize, term: u64, until_ms: u64, asked_ms: u64, ttl_ms: u64 },
    /// Who trusts a lease at this moment.
    Trusting { election: u8, by: Vec<(usize, u64)> },
    /// A fenced resource was written to.
    Written { election: u8, term: u64, process: u32, accepted: bool },

    /// All messages, looked at in one moment, which was record `as_of`.
    Audited { as_of: u64, messages: Vec<Seen> },
    /// One queue's counters.
    Counted { as_of: u64, queue: Queue, counts: Counts, totals: Totals },

    /// A member's process began.
    MemberUp { member: usize, process: u32 },
    /// A member's process ended.
    MemberDown { member: usize, process: u32 },
    /// Something else that helps to read a failure.
    Note(String),
    /// From here on nothing goes wrong any more.
    Healed,
    /// A message that was sent to idle consumers did not reach any.
    Probe { queue: u8, id: u64 },
    /// The world should be well again: what is still not done.
    Ended { undrained: Vec<Seen>, leaderless: Vec<u8> },
}

/// One thing that happened, and when.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Its number.
    pub index: u64,
    /// True time.
    pub at_ms: u64,
    /// The latest time the server's wall clock ever showed.
    pub wall_ms_max: u64,
    /// What.
    pub what: What,
}

/// Everything that happened, checked as it happens.
#[derive(Debug)]
pub(crate) struct History {
    invariants: Invariants,
    last: VecDeque<Record>,
    count: u64,
    digest: DefaultHasher,
    verbose: bool,
    /// The latest time the server's wall clock ever showed.
    pub wall_ms_max: u64,
    /// The first invariant that broke.
    pub violation: Option<Violation>,
}

impl History {
    /// Nothing has happened yet.
    pub(crate) fn new(plan: &Plan, verbose: bool) -> Self {
        Self {
            invariants: Invariants::new(plan),
            last: VecDeque::new(),
            count: 0,
            digest: DefaultHasher::new(),
            verbose,
            wall_ms_max: 0,
            violation: None,
        }
    }

    /// How many things happened.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// Something happened.
    pub(crate) fn record(&mut self, at_us: u64, what: What) {
        let at_ms = at_us / 1000;
        self.count += 1;
        let record = Record { index: self.count, at_ms, wall_ms_max: self.wall_ms_max, what };
        at_us.hash(&mut self.digest);
        mark(&record.what, &mut self.digest);
        if self.verbose {
            eprintln!("{}", line(&record));
        }
        if self.violation.is_none() {
            self.violation = self.invariants.see(&record);
        }
        if self.last.len() == LAST_RECORDS {
            self.last.pop_front();
        }
        self.last.push_back(record);
    }

    /// A number that two runs share in which the same things happened at the same times.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// The last things that happened, at most `count`, that mention what `about` says.
    pub(crate) fn last(&self, count: usize) -> Vec<String> {
        let skip = self.last.len().saturating_sub(count);
        self.last.iter().skip(skip).map(line).collect()
    }
}

fn line(record: &Record) -> String {
    let mut text = format!("{:>7} {:>9} ms  {:?}", record.index, record.at_ms, record.what);
    if text.len() > 600 {
        let mut end = 600;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Hashes what tells two runs apart; times and numbers do, so texts need not be.
fn mark(what: &What, digest: &mut DefaultHasher) {
    std::mem::discriminant(what).hash(digest);
    match what {
        What::Answered { key, digest: outcome, .. } => (key, outcome).hash(digest),
        What::SendApplied { key, .. } | What::SendRefused { key, .. } => key.hash(digest),
        What::Sent { sequences, .. } => sequences.hash(digest),
        What::Delivered(delivery) => delivery.hash(digest),
        What::Settled { token, ok, .. } | What::Renewed { token, ok, .. } => {
            (token, ok).hash(digest);
        }
        What::Held { hold, .. } => hold.hash(digest),
        What::CellRead { value, .. } => value.hash(digest),
        What::Removed { key, count, .. } => (key, count).hash(digest),
        What::LeaseIs { term, id, .. } => (term, id).hash(digest),
        What::Granted { term, slot, .. } => (term, slot).hash(digest),
        What::Written { term, process, .. } => (term, process).hash(digest),
        What::Audited { messages, .. } => messages.hash(digest),
        _ => {}
    }
}
