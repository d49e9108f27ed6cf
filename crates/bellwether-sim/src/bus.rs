//! What everything in the world shares: the time, the order of events, chance, the history.

use std::any::Any;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use bellwether::Error;
use bellwether::engine::{Call, Reply};
use bellwether::journal::{Job, JournalFault};
use bellwether_core::name::MemberId;

use crate::dice::Dice;
use crate::history::{History, What};
use crate::network::Network;
use crate::plan::Plan;
use crate::stats::Stats;

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Packet {
    /// From which member.
    pub member: usize,
    /// Which of its processes.
    pub process: u32,
    /// By which the process finds back to what it asked.
    pub tag: u64,
    /// The request.
    pub call: Call,
}

/// Somebody has gone, or gone on: what it waits for is no longer wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Withdrawal {
    /// Which member.
    pub member: usize,
    /// Which of its processes.
    pub process: u32,
    /// Which of its requests; `None` for all.
    pub tag: Option<u64>,
}

impl Withdrawal {
    /// Whether it is about this request.
    pub(crate) fn is_of(&self, packet: &Packet) -> bool {
        (self.member, self.process) == (packet.member, packet.process)
            && self.tag.is_none_or(|tag| tag == packet.tag)
    }
}

/// What the server's writer takes out of its inbox.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A request.
    Call(Rc<Packet>),
    /// The end of one.
    Withdraw(Withdrawal),
}

/// An answer on its way.
#[derive(Debug)]
pub(crate) struct Answer {
    /// To which process of the member.
    pub process: u32,
    /// To which of its requests.
    pub tag: u64,
    /// The answer.
    pub result: Result<Reply, Error>,
}

/// A write to a fenced resource on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// Which resource: that of this election.
    pub election: u8,
    /// The fence.
    pub term: u64,
    /// Who writes.
    pub process: u32,
}

/// Something that happens to the server.
pub(crate) enum ServerEvent {
    /// The writer wakes up.
    Step,
    /// A flush comes to its end.
    FlushEnds,
    /// Long work is done.
    JobRuns(Box<dyn Job>),
    /// The writer hears of it.
    JobDone(Box<dyn Any + Send>),
    /// The writer hears of a failed flush.
    FaultTold(JournalFault),
    /// The process is ended after a fault.
    Exit,
}

impl std::fmt::Debug for ServerEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Step => "Step",
            Self::FlushEnds => "FlushEnds",
            Self::JobRuns(_) => "JobRuns",
            Self::JobDone(_) => "JobDone",
            Self::FaultTold(_) => "FaultTold",
            Self::Exit => "Exit",
        })
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// See [`crate::plan::FaultPlan`] for these.
    Kill,
    Power,
    ServerPause,
    Disk,
    Wall,
    MemberKill,
    MemberPause,
    Partition,
    StepDown,
}

/// One event.
#[derive(Debug)]
pub(crate) enum Event {
    /// A packet reaches the server.
    ToServer(Item),
    /// An answer reaches a member.
    ToMember(usize, Rc<Answer>),
    /// A write reaches a resource.
    ToResource(Write),
    /// Of this life of the server.
    Server(u32, ServerEvent),
    /// The server is started.
    ServerStarts,
    /// A member has something to do.
    MemberWakes(usize),
    /// A member's process starts.
    MemberStarts(usize),
    /// Something goes wrong.
    Fault(Fault),
    /// The server dies once more, soon after its start.
    Relapse {
        /// By a power cut.
        power: bool,
    },
    /// The auditor looks, and does so from time to time if it is a regular look.
    Audit {
        /// Another one follows.
        regular: bool,
    },
    /// Faults end.
    Heal,
}

struct Entry {
    at_us: u64,
    order: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at_us, self.order) == (other.at_us, other.order)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_us, self.order).cmp(&(other.at_us, other.order))
    }
}

/// See the module.
pub(crate) struct Bus {
    /// True time.
    pub now_us: u64,
    /// What the seed decided.
    pub plan: Rc<Plan>,
    /// Chance.
    pub dice: Dice,
    /// What happened.
    pub history: History,
    /// How often.
    pub stats: Stats,
    /// The way between members and server.
    pub network: Network,
    /// Nothing goes wrong any more.
    pub healed: bool,
    /// The last message's number.
    pub last_id: u64,
    /// Messages on their way, about.
    pub backlog: u64,
    /// Who the members are: the id of each one's newest process.
    pub ids: Vec<MemberId>,
    /// Messages that were sent to those who wait, until somebody has them: their queues, and
    /// their sessions.
    pub probes: BTreeMap<u64, (u8, Option<u8>)>,
    /// What the server's wall clock shows beyond the true time.
    pub wall_ahead_ms: u64,
    order: u64,
    events: BinaryHeap<Reverse<Entry>>,
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bus").field("now_us", &self.now_us).finish_non_exhaustive()
    }
}

impl Bus {
    /// Before anything happens.
    pub(crate) fn new(plan: Rc<Plan>, verbose: bool) -> Self {
        let mut dice = Dice::new(plan.seed ^ 0x5eed_0000);
        Self {
            now_us: 0,
            dice: dice.fork(),
            history: History::new(&plan, verbose),
            stats: Stats::default(),
            network: Network::new(&plan),
            healed: false,
            last_id: 0,
            backlog: 0,
            ids: vec![MemberId(0); plan.members.len()],
            probes: BTreeMap::new(),
            wall_ahead_ms: 1_700_000_000_000,
            order: 0,
            events: BinaryHeap::new(),
            plan,
        }
    }

    /// True time in milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    /// What the server's wall clock shows.
    pub(crate) fn wall_ms(&self) -> u64 {
        self.now_ms() + self.wall_ahead_ms
    }

    /// Lets something happen after `us`.
    pub(crate) fn after(&mut self, us: u64, event: Event) {
        self.at(self.now_us + us, event);
    }

    /// Lets something happen at a time.
    pub(crate) fn at(&mut self, at_us: u64, event: Event) {
        self.order += 1;
        let entry = Entry { at_us: at_us.max(self.now_us), order: self.order, event };
        self.events.push(Reverse(entry));
    }

    /// The next event; the time moves on to it.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let Reverse(entry) = self.events.pop()?;
        self.now_us = entry.at_us;
        self.stats.events += 1;
        Some(entry.event)
    }

    /// Whom somebody wants to lead next, if it cares: anybody, whether or not it waits.
    pub(crate) fn successor(&self, dice: &mut Dice) -> Option<MemberId> {
        dice.percent(50).then(|| dice.pick(&self.ids))
    }

    /// Something happened.
    pub(crate) fn record(&mut self, what: What) {
        self.history.wall_ms_max = self.history.wall_ms_max.max(self.wall_ms());
        self.history.record(self.now_us, what);
    }

    /// Something that helps to read a failure.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        self.record(What::Note(text()));
    }
}
