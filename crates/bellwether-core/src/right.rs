//! Rights: what may be asked of which name.
//!
//! ```text
//!   credential ─► rule ─► grants: rights on scopes ─┐
//!   command ─────────────► needs: rights on names ──┴─► all covered? else Forbidden
//! ```
//!
//! 1. What no grant covers is refused.
//! 2. A refusal is the same whether the name exists or not: nothing is looked up before.
//! 3. [`needs`] names every command: one that is added does not compile until it is decided who may
//!    ask it.
//! 4. A command that makes messages arrive elsewhere needs the right to send there: nobody moves by
//!    the server what he may not move himself.
//! 5. A list of everything needs the right on everything.

mod need;
mod scope;

pub use need::{Need, Needs, Of, needs};
pub use scope::Scope;

use std::fmt;

use crate::command::Command;
use crate::error::Refusal;
use crate::fence::Fence;
use crate::name::{Part, QueueName};

/// What one may do.
///
/// | | with queues | with elections |
/// |---|---|---|
/// | `Listen` | receive, settle, peek, count | observe |
/// | `Send` | send, cancel what was scheduled | campaign, renew, release, hand over |
/// | `Manage` | create, change, purge, delete, import | break, ask to step down |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// To take, and to look.
    Listen,
    /// To give, and to lead.
    Send,
    /// To run the place; includes the other two.
    Manage,
}

impl Right {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Listen, Self::Send, Self::Manage];

    /// Its name, as people write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Listen => "listen",
            Self::Send => "send",
            Self::Manage => "manage",
        }
    }

    /// The right of that name, in whatever case.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.word().eq_ignore_ascii_case(word))
    }

    /// Whether who has this one has that one.
    pub fn includes(self, other: Self) -> bool {
        self == other || self == Self::Manage
    }
}

/// What a right is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Realm {
    /// Queues and their messages.
    Queues,
    /// Elections and the leases behind them.
    Elections,
}

/// Some rights on some names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// On queues or on elections.
    pub realm: Realm,
    /// Which of them.
    pub scope: Scope,
    /// What.
    pub rights: Vec<Right>,
}

impl Grant {
    /// Names of jobs and schedules count as names of queues.
    fn covers_name(&self, name: &str) -> bool {
        let has = |name: QueueName| self.scope.has_queue(&name, Part::Main);
        self.realm == Realm::Queues && QueueName::new(name).is_ok_and(has)
    }

    fn covers(&self, need: &Need<'_>) -> bool {
        self.rights.iter().any(|right| right.includes(need.right))
            && match need.of {
                Of::Queue(queue, part) => {
                    self.realm == Realm::Queues && self.scope.has_queue(queue, part)
                }
                Of::Lease(lease) => self.realm == Realm::Elections && self.scope.has_lease(lease),
                Of::Job(job) => self.covers_name(job.as_str()),
                Of::Schedule(schedule) => self.covers_name(schedule.as_str()),
                Of::Every(realm) => self.realm == realm && self.scope == Scope::Everything,
            }
    }
}

/// All that somebody may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(pub Vec<Grant>);

impl Grants {
    /// Everything.
    pub fn all() -> Self {
        let everything = |realm| {
            let (scope, rights) = (Scope::Everything, vec![Right::Manage]);
            Grant { realm, scope, rights }
        };
        Self(vec![everything(Realm::Queues), everything(Realm::Elections)])
    }

    /// What is left of them for `name` and what is under that name, in both realms.
    #[must_use]
    pub fn narrowed(&self, name: &str) -> Self {
        let narrow = |grant: &Grant| {
            let scopes = grant.scope.narrowed(grant.realm, name);
            let (realm, rights) = (grant.realm, grant.rights.clone());
            scopes.into_iter().map(move |scope| Grant { realm, scope, rights: rights.clone() })
        };
        Self(self.0.iter().flat_map(narrow).collect())
    }

    /// Whether that much is granted.
    pub fn covers(&self, need: &Need<'_>) -> bool {
        self.0.iter().any(|grant| grant.covers(need))
    }

    /// Refuses what is not granted.
    pub fn check(&self, needs: &Needs<'_>) -> Result<(), Refusal> {
        match needs.iter().find(|need| !self.covers(need)) {
            None => Ok(()),
            Some(need) => Err(need.refusal()),
        }
    }

    /// Refuses a command that is not granted.
    pub fn check_command(&self, command: &Command) -> Result<(), Refusal> {
        self.check(&needs(command))
    }

    /// Refuses a fence of an election that nothing is granted on: what is said of its terms is for
    /// those who may look at it, or lead.
    pub fn check_fence(&self, fence: &Fence) -> Result<(), Refusal> {
        let need = |right| Need { right, of: Of::Lease(&fence.election) };
        if Right::ALL.into_iter().any(|right| self.covers(&need(right))) {
            return Ok(());
        }
        Err(need(Right::Listen).refusal())
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
