//! One lease: who may act under a name, until when, and under which term.
//!
//! ```text
//!               acquire               time runs out
//!   Available ───────────► Leased ───────────────────► Expired ───┐
//!       ▲                  │    ▲                        │  │     │ acquire: Leased, new term
//!       │            break │    └── renew, if Standing ──┘  │ break
//!       │                  ▼          time runs out         ▼     │
//!       │               Breaking ───────────────────────► Broken ─┘
//!       │
//!       ├── release under its id, from every other state
//!       └── touch, from Expired and Broken
//! ```
//!
//! 1. The state is derived from the record and the time at every look; nothing has to run for a
//!    lease to end.
//! 2. Terms only grow. A grant after release, expiry or break, and a change of id, begins a new
//!    one; the same acquire repeated after a lost answer does not.
//! 3. A bound lease is granted anew only after 105 % of its ttl, while its holder trusts 80 %,
//!    counted from before it asked: beliefs cannot overlap.
//! 4. A paused lease is granted to nobody; who holds it goes on, and the same acquire repeated is
//!    still confirmed.
//! 5. A lease may have several slots: then this is one of them, with a holder and a term of its own.
//!    Which one an action is about, and what they have in common, the ledger says (`ledger/slots.rs`).
//! 6. `version` grows with everything an onlooker could see and stays with a renewal in time, so
//!    that an equal version means there is nothing to write down.
//!
//! The rules decide and change nothing: each returns the record as it would be. Write it down
//! durably before the answer leaves.

use crate::command::{Acquire, LeaseKind};
use crate::error::{LeaseRefusal, Refusal};
use crate::limits;
use crate::name::{LeaseId, LeaseName, MemberSlot, Term};
use crate::outcome::{LeaseState, Outcome};
use crate::time::{BootTime, Now, WallTime};

/// One lease as the ledger keeps it. The five states of [`LeaseState`] are derived from it and
/// the time ([`LeaseAt::state`]); nothing has to run for a lease to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The newest term; only grows.
    pub term: Term,
    /// How it was left by the last action.
    pub hold: Hold,
    /// Kept by heartbeat or by its own renewals.
    pub kind: LeaseKind,
    /// Its duration.
    pub ttl_ms: u64,
    /// The member that holds or held it; zero for none.
    pub member: MemberSlot,
    /// What the holder says of itself.
    pub metadata: String,
    /// When the newest term began.
    pub granted_at: WallTime,
    /// Grows with every visible change.
    pub version: u64,
    /// Somebody asked the holder to step down.
    pub step_down_asked: bool,
    /// Who shall have it next, if that member waits then; zero for whoever is first in line. The
    /// wish ends with the next grant.
    pub successor: MemberSlot,
    /// Nobody is granted it until it is resumed; whoever holds it goes on.
    pub paused: bool,
    /// How many may hold it at once. Each has a record of its own, for its slot; what is said to all
    /// of them, a pause and who shall follow, stands in that of the first slot.
    pub slots: u32,
}

/// How a lease was left by the last action on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nobody holds it, and nobody's id is remembered.
    Free,
    /// Held under `id` since `renewed_at`, when the last renewal was processed.
    Held {
        /// The holder's id.
        id: LeaseId,
        /// Never written down: after a restart it counts from the restart.
        renewed_at: BootTime,
    },
    /// Broken or being broken.
    Broken {
        /// The id it was held under.
        id: LeaseId,
        /// When the break is complete. Never written down: its remaining length is.
        until: BootTime,
    },
}

impl Hold {
    /// The id it is or was held under, until it is forgotten.
    pub fn id(self) -> Option<LeaseId> {
        match self {
            Self::Free => None,
            Self::Held { id, .. } | Self::Broken { id, .. } => Some(id),
        }
    }
}

/// A name and its lease, if it ever had one, looked at in one moment.
#[derive(Clone, Copy, Debug)]
pub struct LeaseAt<'a> {
    /// The name, for refusals.
    pub name: &'a LeaseName,
    /// The record; `None` for a name without history.
    pub lease: Option<&'a Lease>,
    /// The moment.
    pub now: Now,
    /// The holding member's last heartbeat that renewed this lease. One heartbeat renews all
    /// leases of a member without touching their records; one that came after this lease had
    /// ended did not renew it and must not be given here.
    pub beaten_at: Option<BootTime>,
    /// No new term is below this one ([`crate::change::Change::TermsFrom`]).
    pub terms_from: Term,
}

/// What a rule decided: the record as it will be, and the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The record.
    pub lease: Lease,
    /// The answer.
    pub outcome: Outcome,
}

/// Why a leased object may not be read or written so (all `412` at Azure's door).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseRefusal {
    /// It is leased and no id was shown (`LeaseIdMissing`).
    IdMissing,
    /// It is leased under another id (`LeaseIdMismatchWithBlobOperation`).
    IdMismatch,
    /// An id was shown and nobody holds it (`LeaseNotPresentWithBlobOperation`).
    NotPresent,
}

/// Checks a duration before anything is looked up: a value out of range is wrong in every state.
pub fn check_ttl(kind: LeaseKind, ttl_ms: u64) -> Result<(), Refusal> {
    let range = limits::LEASE_MS_MIN..=limits::LEASE_MS_MAX;
    let why = match (ttl_ms, kind) {
        (limits::LEASE_MS_INFINITE, LeaseKind::Standing) => return Ok(()),
        (limits::LEASE_MS_INFINITE, LeaseKind::Bound | LeaseKind::Connected) => {
            "a lease bound to a member ends with it and cannot be infinite".to_owned()
        }
        _ if range.contains(&ttl_ms) => return Ok(()),
        _ => format!("{ttl_ms} ms is not between {} and {} ms", range.start(), range.end()),
    };
    Err(Refusal::InvalidValue { what: "ttl_ms", why })
}

/// Checks how many shall be able to hold it at once, before anything is looked up.
pub fn check_slots(kind: LeaseKind, slots: u32) -> Result<(), Refusal> {
    let why = match (slots, kind) {
        (1, _) => return Ok(()),
        (0, _) => "a lease has at least one".to_owned(),
        (_, LeaseKind::Standing) => {
            "only a lease bound to a member may have more than one; one that stands by itself has \
             one holder"
                .to_owned()
        }
        _ if slots <= limits::SLOTS_MAX => return Ok(()),
        _ => format!("{slots} is more than {}", limits::SLOTS_MAX),
    };
    Err(Refusal::InvalidValue { what: "slots", why })
}

impl Lease {
    /// How long after its last renewal nobody else is granted it.
    pub(crate) fn held_ms(&self) -> u64 {
        match self.kind {
            _ if self.ttl_ms == limits::LEASE_MS_INFINITE => u64::MAX,
            LeaseKind::Standing => self.ttl_ms,
            #[cfg(not(planted_bug = "expire_early"))]
            LeaseKind::Bound | LeaseKind::Connected => {
                self.ttl_ms.saturating_mul(limits::LEASE_GRACE_PERCENT).div_ceil(100)
            }
            #[cfg(planted_bug = "expire_early")]
            LeaseKind::Bound | LeaseKind::Connected => self.ttl_ms * 70 / 100,
        }
    }

    fn granted(&self) -> Outcome {
        Outcome::Granted { term: self.term, ttl_ms: self.ttl_ms }
    }

    /// The next version of it, with another hold.
    fn left(&self, hold: Hold) -> Self {
        Self { hold, version: self.version + 1, ..self.clone() }
    }
}

impl LeaseAt<'_> {
    /// In which of the five states it is.
    pub fn state(&self) -> LeaseState {
        let ended = self.ends_at() <= self.now.boot;
        match self.hold() {
            Hold::Free => LeaseState::Available,
            Hold::Held { .. } if ended => LeaseState::Expired,
            Hold::Held { .. } => LeaseState::Leased,
            Hold::Broken { .. } if ended => LeaseState::Broken,
            Hold::Broken { .. } => LeaseState::Breaking,
        }
    }

    /// When somebody else can be granted it without anybody acting: the lease's next deadline.
    /// [`BootTime::NEVER`] if it is infinite or free.
    pub fn ends_at(&self) -> BootTime {
        match self.hold() {
            Hold::Free => BootTime::NEVER,
            Hold::Held { .. } => self.renewed_at().plus_ms(self.lease.map_or(0, Lease::held_ms)),
            Hold::Broken { until, .. } => until,
        }
    }

    /// How long it still holds; zero if nobody holds it, [`u64::MAX`] if it never ends.
    pub fn remaining_ms(&self) -> u64 {
        match self.holder() {
            None => 0,
            Some(_) if self.ends_at() == BootTime::NEVER => u64::MAX,
            Some(_) => self.now.boot.ms_until(self.ends_at()),
        }
    }

    /// Who holds it now: under which id, and the member, zero for none. A record may still name
    /// the last holder when nobody holds the lease; this does not.
    pub fn holder(&self) -> Option<(LeaseId, MemberSlot)> {
        match self.state() {
            LeaseState::Leased | LeaseState::Breaking => {
                Some((self.id()?, self.lease.map_or(MemberSlot(0), |lease| lease.member)))
            }
            LeaseState::Available | LeaseState::Expired | LeaseState::Broken => None,
        }
    }

    /// The newest term; zero if there never was one.
    pub fn term(&self) -> Term {
        self.lease.map_or(Term(0), |lease| lease.term)
    }

    /// Grants it, or confirms a grant whose answer was lost. `member` is whose heartbeat will
    /// keep it. The duration must have passed [`check_ttl`].
    pub fn acquire(&self, ask: &Acquire, member: MemberSlot) -> Result<Decision, LeaseRefusal> {
        let same_id = self.id() == Some(ask.id);
        match self.state() {
            LeaseState::Leased if same_id => {}
            LeaseState::Breaking if same_id => {
                return Err(LeaseRefusal::Breaking(self.name.clone()));
            }
            LeaseState::Leased | LeaseState::Breaking => {
                let term = self.lease.map_or(Term(0), |lease| lease.term);
                return Err(LeaseRefusal::Held { lease: self.name.clone(), term });
            }
            LeaseState::Available | LeaseState::Expired | LeaseState::Broken => {
                if self.is_paused() {
                    return Err(LeaseRefusal::Paused(self.name.clone()));
                }
                return Ok(self.grant(ask, member));
            }
        }
        let lease = self.present()?;
        let mut again = Lease {
            hold: Hold::Held { id: ask.id, renewed_at: self.now.boot },
            kind: ask.kind,
            ttl_ms: ask.ttl_ms,
            member,
            metadata: ask.metadata.clone(),
            ..lease.clone()
        };
        let seen = |lease: &Lease| (lease.kind, lease.ttl_ms, lease.member);
        if seen(&again) != seen(lease) || again.metadata != lease.metadata {
            again.version += 1;
        }
        Ok(Decision { outcome: again.granted(), lease: again })
    }

    fn grant(&self, ask: &Acquire, member: MemberSlot) -> Decision {
        let lease = Lease {
            term: self.next_term(),
            hold: Hold::Held { id: ask.id, renewed_at: self.now.boot },
            kind: ask.kind,
            ttl_ms: ask.ttl_ms,
            member,
            metadata: ask.metadata.clone(),
            granted_at: self.now.wall,
            version: self.lease.map_or(1, |lease| lease.version + 1),
            step_down_asked: false,
            successor: MemberSlot(0),
            paused: false,
            slots: ask.slots,
        };
        Decision { outcome: lease.granted(), lease }
    }

    /// The wall clock counts too, not only the last term: terms must grow past those that were
    /// granted before the name was deleted, or after a copy of the folder was made. A restored
    /// backup brings a floor of its own, for the clock may be another machine's.
    fn next_term(&self) -> Term {
        #[cfg(planted_bug = "reuse_term")]
        if let Some(lease) = self.lease {
            return lease.term;
        }
        let next = self.lease.map_or(1, |lease| lease.term.0 + 1);
        Term(next.max(self.now.wall.0)).max(self.terms_from)
    }

    /// Starts its time anew. Renewing a standing lease that ended and was not touched since keeps
    /// its term: nobody held it in between. A bound one needs a new term.
    pub fn renew(&self, id: LeaseId) -> Result<Decision, LeaseRefusal> {
        if self.id() != Some(id) {
            return Err(LeaseRefusal::IdMismatch(self.name.clone()));
        }
        let lease = self.present()?;
        let hold = Hold::Held { id, renewed_at: self.now.boot };
        let renewed = match self.state() {
            LeaseState::Leased => Lease { hold, ..lease.clone() },
            #[cfg(not(planted_bug = "late_renew_accepted"))]
            LeaseState::Expired if lease.kind.is_bound() => {
                return Err(LeaseRefusal::TermOver { lease: self.name.clone(), term: lease.term });
            }
            LeaseState::Expired => lease.left(hold),
            LeaseState::Breaking | LeaseState::Broken => {
                return Err(LeaseRefusal::Broken(self.name.clone()));
            }
            LeaseState::Available => return Err(LeaseRefusal::IdMismatch(self.name.clone())),
        };
        Ok(Decision { outcome: renewed.granted(), lease: renewed })
    }

    /// Gives it another id and a new term; neither its duration nor its time changes.
    pub fn change(&self, id: LeaseId, to: LeaseId) -> Result<Decision, LeaseRefusal> {
        let current = self.id();
        match self.state() {
            LeaseState::Available | LeaseState::Expired | LeaseState::Broken => {
                return Err(LeaseRefusal::NotPresent(self.name.clone()));
            }
            LeaseState::Breaking if current == Some(id) => {
                return Err(LeaseRefusal::BreakingCannotChange(self.name.clone()));
            }
            LeaseState::Leased if current == Some(id) || current == Some(to) => {}
            LeaseState::Breaking | LeaseState::Leased => {
                return Err(LeaseRefusal::IdMismatch(self.name.clone()));
            }
        }
        let lease = self.present()?;
        if current == Some(to) {
            return Ok(Decision { outcome: lease.granted(), lease: lease.clone() });
        }
        let changed = Lease {
            term: self.next_term(),
            granted_at: self.now.wall,
            step_down_asked: false,
            successor: MemberSlot(0),
            ..lease.left(Hold::Held { id: to, renewed_at: self.renewed_at() })
        };
        Ok(Decision { outcome: changed.granted(), lease: changed })
    }

    /// Gives it back; the id is forgotten.
    pub fn release(&self, id: LeaseId) -> Result<Decision, LeaseRefusal> {
        if self.id() != Some(id) {
            return Err(LeaseRefusal::IdMismatch(self.name.clone()));
        }
        let lease = Lease { step_down_asked: false, ..self.present()?.left(Hold::Free) };
        Ok(Decision { lease, outcome: Outcome::Done })
    }

    /// Takes it from its holder, after `period_ms` or what is left, whichever is shorter; an
    /// infinite lease without a period ends at once. The holder may act on until then.
    pub fn break_hold(&self, period_ms: Option<u64>) -> Result<Decision, LeaseRefusal> {
        let lease = self.present()?;
        let Some(id) = self.id() else {
            return Err(LeaseRefusal::NotPresent(self.name.clone()));
        };
        let remaining_ms = match (period_ms, self.remaining_ms()) {
            (None, u64::MAX) => 0,
            (None, left) => left,
            (Some(period), left) => period.min(left),
        };
        let hold = match self.state() {
            LeaseState::Broken => lease.hold,
            _ => Hold::Broken { id, until: self.now.boot.plus_ms(remaining_ms) },
        };
        let lease = if hold == lease.hold { lease.clone() } else { lease.left(hold) };
        Ok(Decision { lease, outcome: Outcome::Breaking { remaining_ms } })
    }

    /// The leased object was written: if the lease has ended its id is forgotten, and its former
    /// holder can tell. `None` if nothing changes.
    pub fn touch(&self) -> Option<Lease> {
        match self.state() {
            LeaseState::Expired | LeaseState::Broken => Some(self.lease?.left(Hold::Free)),
            LeaseState::Available | LeaseState::Leased | LeaseState::Breaking => None,
        }
    }

    /// Leaves a word for the holder; it decides. A wish who shall follow replaces an earlier one;
    /// without one the earlier stands.
    pub fn ask_step_down(&self, successor: Option<MemberSlot>) -> Result<Decision, LeaseRefusal> {
        let lease = self.present()?;
        if self.holder().is_none() {
            return Err(LeaseRefusal::NotPresent(self.name.clone()));
        }
        // One that is being broken ends anyway: only who follows can still be said.
        let asked = lease.step_down_asked || self.state() == LeaseState::Leased;
        let successor = successor.unwrap_or(lease.successor);
        let lease = if (asked, successor) == (lease.step_down_asked, lease.successor) {
            lease.clone()
        } else {
            Lease { step_down_asked: asked, successor, ..lease.left(lease.hold) }
        };
        Ok(Decision { lease, outcome: Outcome::Done })
    }

    /// Somebody shall be next, or nobody in particular any more (zero). `None` if that stands so.
    pub fn name_successor(&self, successor: MemberSlot) -> Option<Lease> {
        let lease = self.lease.filter(|lease| lease.successor != successor)?;
        Some(Lease { successor, ..lease.left(lease.hold) })
    }

    /// From here on nobody is granted it, also under a name that has no history yet. Whoever holds
    /// it is asked to step down, unless it shall be kept.
    pub fn pause(&self, keep_leader: bool) -> Decision {
        let unheard_of = || Lease {
            term: Term(0),
            hold: Hold::Free,
            kind: LeaseKind::Bound,
            ttl_ms: 0,
            member: MemberSlot(0),
            metadata: String::new(),
            granted_at: self.now.wall,
            version: 0,
            step_down_asked: false,
            successor: MemberSlot(0),
            paused: false,
            slots: 1,
        };
        let lease = self.lease.cloned().unwrap_or_else(unheard_of);
        let asks = !keep_leader && self.state() == LeaseState::Leased;
        let asked = lease.step_down_asked || asks;
        let lease = if lease.paused && asked == lease.step_down_asked {
            lease
        } else {
            Lease { paused: true, step_down_asked: asked, ..lease.left(lease.hold) }
        };
        Decision { lease, outcome: Outcome::Done }
    }

    /// It may be granted again. `None` if it was not paused.
    pub fn resume(&self) -> Option<Lease> {
        let lease = self.lease.filter(|lease| lease.paused)?;
        Some(Lease { paused: false, ..lease.left(lease.hold) })
    }

    /// Whether nobody may be granted it.
    pub fn is_paused(&self) -> bool {
        self.lease.is_some_and(|lease| lease.paused)
    }

    /// Whether the leased object may be written by one who shows `id`. A write that may happen
    /// must [`LeaseAt::touch`] the lease.
    pub fn may_write(&self, id: Option<LeaseId>) -> Result<(), UseRefusal> {
        match (id, self.holder()) {
            (None, Some(_)) => Err(UseRefusal::IdMissing),
            _ => self.may_read(id),
        }
    }

    /// Whether the leased object may be read by one who shows `id`. Without one it always may.
    pub fn may_read(&self, id: Option<LeaseId>) -> Result<(), UseRefusal> {
        match (id, self.holder()) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(UseRefusal::NotPresent),
            (Some(id), Some((held, _))) if id == held => Ok(()),
            (Some(_), Some(_)) => Err(UseRefusal::IdMismatch),
        }
    }

    fn present(&self) -> Result<&Lease, LeaseRefusal> {
        self.lease.ok_or_else(|| LeaseRefusal::NotPresent(self.name.clone()))
    }

    fn hold(&self) -> Hold {
        self.lease.map_or(Hold::Free, |lease| lease.hold)
    }

    /// The id it is or was held under, until it is forgotten.
    pub(crate) fn id(&self) -> Option<LeaseId> {
        self.hold().id()
    }

    /// Only a bound lease is kept by its member's heartbeat.
    fn renewed_at(&self) -> BootTime {
        match self.lease.map(|lease| (lease.hold, lease.kind)) {
            Some((Hold::Held { renewed_at, .. }, kind)) if kind.is_bound() => {
                renewed_at.max(self.beaten_at.unwrap_or(renewed_at))
            }
            Some((Hold::Held { renewed_at, .. }, _)) => renewed_at,
            _ => BootTime::NEVER,
        }
    }
}
