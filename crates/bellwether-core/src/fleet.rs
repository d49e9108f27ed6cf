//! Election without any store: one member's view of its fleet, without clock, thread or socket.
//!
//! ```text
//!   Listening ─► Following ─ the strategy says: stand ─► Asking ─ a majority supports ─► Leading
//!                   ▲                                      │   (without the majority rule: at once)
//!                   └── outranked, majority lost, too long ┴─────────────────────────────────┘
//! ```
//!
//! Who shall stand is the strategy's affair ([`crate::lowest`], [`crate::bully`], [`crate::ring`]);
//! who is here, what is believed, and the majority rule are the same for all three.
//!
//! 1. *Listen first.* A member that starts supports nobody and does not stand for a while: what an
//!    earlier life of it promised has run out by then, and it has heard who leads.
//! 2. *Two who lead find each other.* Everybody tells everybody at every beat what it claims; of two
//!    claims the one that is outranked is given up.
//! 3. *The majority rule.* A member supports one claim at a time, for 105 % of the silence from when
//!    it was asked; whoever claims counts on it for 80 % from before it asked, and leads only while
//!    it counts on a majority, itself included. Two majorities share a member, so no two members
//!    are trusted at the same moment while clock rates differ by less than 1.31, there are no more
//!    ids than were configured, and an id is used by one process at a time.
//! 4. *A deposed leader takes nothing back.* Support is not given back when a claim is given up; it
//!    runs out. Until then the old leader's work may end in order, and nobody leads.
//!
//! Without the majority rule every part of a divided network has a leader. The number of a reign is
//! for people: it is kept nowhere, and no resource can be fenced with it.

mod roster;
mod steps;
mod support;

use std::fmt;

use crate::bully::Bully;
use crate::chance::Chance;
use crate::error::Refusal;
use crate::limits;
use crate::lowest::Lowest;
use crate::ring::Ring;
use crate::time::BootTime;
use roster::Roster;
use support::Support;

/// A member's number in its fleet: unique among those who run, and the same after a restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetId(pub u64);

impl fmt::Debug for FleetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for FleetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// How a fleet finds its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The lowest id that is heard leads.
    LowestId,
    /// The highest id that answers leads, and a higher one that returns deposes it.
    Bully,
    /// The highest id on the ring leads; who leads is not deposed by who returns.
    Ring,
}

impl Strategy {
    /// Whether `a` goes before `b`.
    pub fn outranks(self, a: FleetId, b: FleetId) -> bool {
        match self {
            Self::LowestId => a < b,
            Self::Bully | Self::Ring => a > b,
        }
    }

    /// Whether a member may stand against a leader that it outranks.
    pub fn deposes(self) -> bool {
        self != Self::Ring
    }
}

/// How one member takes part. All members of a fleet must agree on everything but `me` and `life`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who.
    pub me: FleetId,
    /// Tells this start of the member from its earlier ones.
    pub life: u64,
    /// How the leader is found.
    pub strategy: Strategy,
    /// How many ids the fleet has at most, if its leader needs more than half of them.
    pub majority_of: Option<u32>,
    /// How often a member says that it is here.
    pub beat_ms: u64,
    /// How long a member may be silent before it counts as gone.
    pub silence_ms: u64,
    /// How long a member follows a leader that it outranks before it stands against it: one that
    /// comes and goes does not change the leader every time.
    pub hold_ms: u64,
}

impl Config {
    /// Refuses what cannot work.
    pub fn check(&self) -> Result<(), Refusal> {
        let refuse = |what, why| Err(Refusal::InvalidValue { what, why });
        if self.beat_ms < limits::FLEET_BEAT_MS_MIN {
            let (beat, min) = (self.beat_ms, limits::FLEET_BEAT_MS_MIN);
            return refuse("beat_ms", format!("{beat} ms is shorter than {min} ms"));
        }
        if self.silence_ms > limits::FLEET_SILENCE_MS_MAX {
            let (silence, max) = (self.silence_ms, limits::FLEET_SILENCE_MS_MAX);
            return refuse("silence_ms", format!("{silence} ms is longer than {max} ms"));
        }
        if self.silence_ms / 4 < self.beat_ms {
            let why = format!(
                "{} ms has no room for four beats of {} ms: a lost one would look like a death",
                self.silence_ms, self.beat_ms
            );
            return refuse("silence_ms", why);
        }
        if self.hold_ms > limits::WAIT_MS_MAX {
            let why = format!("{} ms is longer than {} ms", self.hold_ms, limits::WAIT_MS_MAX);
            return refuse("hold_ms", why);
        }
        match self.majority_of {
            Some(0) => refuse("majority_of", "a fleet has at least one member".to_owned()),
            Some(ids) if ids as usize > limits::FLEET_MEMBERS_MAX => {
                let max = limits::FLEET_MEMBERS_MAX;
                refuse(
                    "majority_of",
                    format!("{ids} is more than {max}, the most a fleet can have"),
                )
            }
            _ => Ok(()),
        }
    }

    /// How long a supporter keeps its word, and a member listens before it takes part.
    pub(crate) fn promise_ms(&self) -> u64 {
        self.silence_ms * limits::LEASE_GRACE_PERCENT / 100
    }

    /// How long a supporter's word is counted on.
    pub(crate) fn trust_ms(&self) -> u64 {
        self.silence_ms * limits::LEASE_TRUST_PERCENT / 100
    }

    /// How long an answer is waited for.
    pub(crate) fn answer_ms(&self) -> u64 {
        self.silence_ms / 4
    }
}

/// What a member says of itself at every beat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Claim {
    /// It does not lead.
    #[default]
    None,
    /// It asks for support.
    Asking,
    /// It leads; the number of its reign.
    Leading(u64),
}

/// What members say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// I am here.
    Beat {
        /// Which beat of this life.
        count: u64,
        /// What I claim; a claim asks for support.
        claim: Claim,
        /// The highest number of a reign I know of.
        seen: u64,
    },
    /// I support the claim in that beat, and no other for a while.
    Support {
        /// The life that asked.
        life: u64,
        /// The beat that asked.
        count: u64,
        /// The highest number of a reign I know of.
        seen: u64,
    },
    /// I am leaving and claim nothing any more.
    Farewell,
    /// Bully: is anybody there who outranks me?
    Election,
    /// Bully: I am, leave it to me.
    Answer,
    /// Bully: I lead.
    Coordinator {
        /// The number of the reign.
        reign: u64,
    },
    /// Ring: the highest id so far.
    Token {
        /// To be acknowledged under.
        number: u64,
        /// Whose id it is.
        candidate: FleetId,
        /// Steps since that member sent it.
        hops: u32,
    },
    /// Ring: who leads.
    Elected {
        /// To be acknowledged under.
        number: u64,
        /// Who.
        leader: FleetId,
        /// The number of the reign.
        reign: u64,
        /// Steps since that member sent it.
        hops: u32,
    },
    /// Ring: that arrived.
    Received {
        /// What.
        number: u64,
    },
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Take part from now on.
    Start,
    /// Time has passed.
    Wake,
    /// A member said something.
    Heard {
        /// Who.
        from: FleetId,
        /// In which life.
        life: u64,
        /// What.
        word: Word,
    },
    /// Leave; whatever ran because this member led has ended.
    Leave,
}

/// What the shell must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Say something to one member. It may be lost.
    Send {
        /// To whom.
        to: FleetId,
        /// What.
        word: Word,
    },
    /// Say something to everybody the shell can reach.
    SendAll(Word),
    /// Tell whoever looks on; only changes are told.
    Announce(View),
    /// Nothing will follow.
    Closed,
}

/// The fleet as this member sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Who leads and the number of the reign, if this member knows of anybody.
    pub leader: Option<(FleetId, u64)>,
    /// Why this member could not lead at the moment, whoever else may.
    pub obstacle: Option<Obstacle>,
}

/// Why a member may not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It has just started.
    Listening,
    /// Another process uses its id.
    DuplicateId,
    /// There are more ids than the majority rule was told of: two majorities could miss each other.
    TooManyMembers,
    /// It does not hear a majority.
    NoMajority,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listening => "it has just started and listens who is there",
            Self::DuplicateId => {
                "another process of the fleet uses the same id; give every member its own"
            }
            Self::TooManyMembers => {
                "the fleet has more ids than `majority_of` says; raise it everywhere, or give a \
                 replacement the id of the member it replaces"
            }
            Self::NoMajority => "it does not hear a majority of the fleet",
        })
    }
}

/// What a strategy sees when it decides.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The time.
    pub now: BootTime,
    /// This member.
    pub me: FleetId,
    /// Others that were ever heard and not forgotten, in order.
    pub known: Vec<FleetId>,
    /// Others that are here, in order.
    pub present: Vec<FleetId>,
    /// Who leads, and since when this member has known.
    pub leader: Option<(FleetId, BootTime)>,
    /// What this member claims.
    pub claim: Claim,
    /// Whether nothing stands against its leading.
    pub may_stand: bool,
    /// How long to wait for an answer.
    pub answer_ms: u64,
    /// How long a member may be silent.
    pub silence_ms: u64,
    /// How long to follow a leader that one outranks.
    pub hold_ms: u64,
}

impl Scene {
    /// Whether this member should try to lead: nobody does, or one that it outranks, for long
    /// enough, under a strategy that deposes.
    pub(crate) fn wants_to_lead(&self, strategy: Strategy) -> bool {
        self.may_stand
            && self.claim == Claim::None
            && self.leader.is_none_or(|(leader, since)| {
                strategy.deposes()
                    && strategy.outranks(self.me, leader)
                    && self.now >= since.plus_ms(self.hold_ms)
            })
    }
}

/// What a strategy is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Time has passed, or the scene has changed.
    Wake,
    /// A member said something.
    Heard {
        /// Who.
        from: FleetId,
        /// What.
        word: Word,
    },
    /// This member leads from now on.
    Leads {
        /// The number of the reign.
        reign: u64,
    },
}

/// What a strategy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Say something.
    Send {
        /// To whom.
        to: FleetId,
        /// What.
        word: Word,
    },
    /// This member shall lead.
    Stand,
}

/// The strategy in force, with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rules {
    Lowest(Lowest),
    Bully(Bully),
    Ring(Ring),
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    config: Config,
    rules: Rules,
    roster: Roster,
    support: Support,
    state: State,
    listening_until: BootTime,
    beat_due: BootTime,
    beats: u64,
    stepped_at: BootTime,
    claim: Claim,
    /// Asking ends here.
    asking_until: BootTime,
    /// Trust in the reign that is or was; zero without one.
    trusted_until: BootTime,
    leader: Option<(FleetId, BootTime)>,
    /// Somebody else used our id; forgotten after a silence.
    duplicate_until: BootTime,
    seen: u64,
    view: View,
    actions: Vec<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Running,
    Closed,
}

impl Fleet {
    /// A member that has not started. Its chance comes from `seed`.
    pub fn new(config: Config, seed: u64) -> Self {
        let rules = match config.strategy {
            Strategy::LowestId => Rules::Lowest(Lowest),
            Strategy::Bully => Rules::Bully(Bully::default()),
            Strategy::Ring => Rules::Ring(Ring::new(Chance::new(seed))),
        };
        Self {
            rules,
            roster: Roster::new(config.silence_ms),
            support: Support::new(&config),
            state: State::Idle,
            listening_until: BootTime(0),
            beat_due: BootTime::NEVER,
            beats: 0,
            stepped_at: BootTime(0),
            claim: Claim::None,
            asking_until: BootTime::NEVER,
            trusted_until: BootTime(0),
            leader: None,
            duplicate_until: BootTime(0),
            seen: 0,
            view: View::default(),
            actions: Vec::new(),
            config,
        }
    }

    /// Takes note of what happened and says what to do. What the time demands comes first.
    pub fn step(&mut self, now: BootTime, event: Event) -> Vec<Action> {
        self.end_trust(now);
        self.take(now, event);
        if self.state == State::Running {
            self.do_due(now);
        }
        self.stepped_at = now;
        std::mem::take(&mut self.actions)
    }

    /// When to call [`Fleet::step`] with [`Event::Wake`], if nothing else happens before.
    pub fn next_wake(&self) -> Option<BootTime> {
        (self.state == State::Running).then(|| self.wake_at())
    }

    /// Whether this member leads, and with the majority rule surely alone. Stays true for what is
    /// left of the trust when a reign under that rule ends, so that the work can end in order.
    pub fn is_trusted(&self, now: BootTime) -> bool {
        now < self.trusted_until
    }

    /// The last moment of trust, on this member's own clock: [`BootTime::NEVER`] while it leads
    /// without the majority rule, which gives nothing to trust in.
    pub fn trusted_until(&self) -> BootTime {
        self.trusted_until
    }

    /// The fleet as this member sees it.
    pub fn view(&self) -> View {
        self.view
    }

    /// The other members that are here.
    pub fn present(&self, now: BootTime) -> Vec<FleetId> {
        self.roster.present(now).collect()
    }
}
