//! What was decided, and why, as numbers and as a sentence.

use std::fmt;

/// What a step of the scaler came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// How many there are, those that start included.
    pub from: u32,
    /// How many there should be.
    pub wanted: u32,
    /// Why.
    pub why: Why,
    /// What each rule wanted.
    pub wishes: Vec<Wish>,
}

impl Decision {
    /// Whether anything is to be done.
    pub fn is_change(&self) -> bool {
        self.wanted != self.from
    }
}

/// What a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// How many messages there are for each worker.
    PerWorker,
    /// How long it takes until nothing waits.
    DrainWithin,
    /// How long the oldest message has waited.
    OldestWithin,
    /// Something waits: then there is at least one.
    Waiting,
}

/// What one rule wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Which.
    pub rule: Rule,
    /// What it saw: messages, or milliseconds; [`u64::MAX`] is never.
    pub seen: u64,
    /// What that should be at most.
    pub target: u64,
    /// So many workers.
    pub wants: u32,
}

/// Why it was decided so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// More, because this rule wants most.
    Out(Wish),
    /// Fewer: all rules have agreed for so long.
    In {
        /// For how long.
        calm_ms: u64,
    },
    /// Fewer than there must be.
    BelowMinimum,
    /// More than there may be.
    AboveMaximum,
    /// The queue is paused: nobody may receive.
    Paused,
    /// Some have not begun to take messages.
    Starting {
        /// How many.
        starting: u32,
    },
    /// There is no worker, and not enough waits to start one.
    Dormant,
    /// More are wanted, and the last increase was a moment ago.
    CoolingDown {
        /// So many.
        wants: u32,
        /// For so long.
        remaining_ms: u64,
    },
    /// More are wanted than there may be.
    AtMaximum {
        /// So many.
        wants: u32,
    },
    /// Fewer would do, but have not for long enough.
    Calming {
        /// So many.
        to: u32,
        /// For so long.
        remaining_ms: u64,
    },
    /// Fewer would do for now, and this rule would soon want them back.
    WouldFlap(Wish),
    /// Fewer would do, but so many are busy.
    Busy {
        /// So many.
        busy: u32,
    },
    /// There is something to do, or was a moment ago: one stays.
    Awake,
    /// As many as are wanted.
    Steady,
}

impl Why {
    /// A word for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Out(_) => "out",
            Self::In { .. } => "in",
            Self::BelowMinimum => "below-minimum",
            Self::AboveMaximum => "above-maximum",
            Self::Paused => "paused",
            Self::Starting { .. } => "starting",
            Self::Dormant => "dormant",
            Self::CoolingDown { .. } => "cooling-down",
            Self::AtMaximum { .. } => "at-maximum",
            Self::Calming { .. } => "calming",
            Self::WouldFlap(_) => "would-flap",
            Self::Busy { .. } => "busy",
            Self::Awake => "awake",
            Self::Steady => "steady",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, wanted, why, .. } = self;
        match wanted.cmp(from) {
            std::cmp::Ordering::Greater => write!(f, "out from {from} to {wanted}: {why}"),
            std::cmp::Ordering::Less => write!(f, "in from {from} to {wanted}: {why}"),
            std::cmp::Ordering::Equal => write!(f, "keep {from}: {why}"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Out(wish) => wish.fmt(f),
            Self::In { calm_ms } => {
                write!(f, "fewer have been enough for {}", Seconds(*calm_ms))
            }
            Self::BelowMinimum => f.write_str("fewer than the minimum"),
            Self::AboveMaximum => f.write_str("more than the maximum"),
            Self::Paused => f.write_str("the queue is paused"),
            Self::Starting { starting } => write!(f, "{starting} of them are starting"),
            Self::Dormant => f.write_str("not enough waits to start one"),
            Self::CoolingDown { wants, remaining_ms } => {
                write!(f, "{wants} wanted, not for {} yet", Seconds(*remaining_ms))
            }
            Self::AtMaximum { wants } => write!(f, "{wants} wanted, but this is the maximum"),
            Self::Calming { to, remaining_ms } => {
                write!(f, "{to} would do, if that lasts {} more", Seconds(*remaining_ms))
            }
            Self::WouldFlap(wish) => write!(f, "with fewer it would soon be: {wish}"),
            Self::Busy { busy } => write!(f, "{busy} are busy, or soon would be"),
            Self::Awake => f.write_str("there was something to do a moment ago"),
            Self::Steady => f.write_str("as many as are wanted"),
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, seen, target, wants } = self;
        match rule {
            Rule::PerWorker => write!(f, "{seen} messages, {target} to a worker, want {wants}"),
            Rule::DrainWithin => {
                let (seen, target) = (Seconds(*seen), Seconds(*target));
                write!(f, "drained in {seen}, to be in {target}, wants {wants}")
            }
            Rule::OldestWithin => {
                let (seen, target) = (Seconds(*seen), Seconds(*target));
                write!(f, "the oldest waits since {seen}, to be {target}, wants {wants}")
            }
            Rule::Waiting => write!(f, "{seen} wait"),
        }
    }
}

/// Whole seconds, or tenths of a few.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("who knows when"),
            ms @ ..10_000 => write!(f, "{}.{} s", ms / 1000, ms % 1000 / 100),
            ms => write!(f, "{} s", ms / 1000),
        }
    }
}
