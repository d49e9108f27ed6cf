//! What one member's heartbeats renew, as a whole: what a heartbeat must know of the set, its digest
//! and whether anything in it may have ended, is there without a look at each lease.
//!
//! 1. The digest is that of the leases in it ([`crate::member::digest`]): a sum, so it moves with
//!    whatever comes and goes.
//! 2. No bound lease in it ends before [`Renewing::first_end`], which is as late as the last heartbeat
//!    and the shortest ttl say.

use std::collections::BTreeMap;

use crate::lease::{Hold, Lease};
use crate::member::digest;
use crate::name::{LeaseName, Term};
use crate::time::BootTime;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Renewing {
    /// One for each slot of a lease that the member holds.
    leases: BTreeMap<LeaseName, Vec<Renewed>>,
    count: usize,
    digest: u64,
    /// How many of them last how long after a renewal.
    held_ms: BTreeMap<u64, u32>,
    /// Each of them was renewed then or later.
    floor: BootTime,
}

#[derive(Clone, Copy, Debug)]
struct Renewed {
    term: Term,
    held_ms: u64,
}

impl Renewing {
    pub(super) fn contains(&self, name: &LeaseName, term: Term) -> bool {
        self.leases.get(name).is_some_and(|held| held.iter().any(|renewed| renewed.term == term))
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&LeaseName, Term)> {
        let held = self.leases.iter();
        held.flat_map(|(name, held)| held.iter().map(move |renewed| (name, renewed.term)))
    }

    /// Puts a term in, renewed when it says itself or by the member's heartbeat at `beaten_at`.
    pub(super) fn insert(&mut self, name: &LeaseName, lease: &Lease, beaten_at: BootTime) {
        self.remove(name, lease.term);
        let renewed_at = match lease.hold {
            Hold::Held { renewed_at, .. } => renewed_at.max(beaten_at),
            Hold::Free | Hold::Broken { .. } => beaten_at,
        };
        let is_first = self.leases.is_empty();
        self.floor = if is_first { renewed_at } else { self.floor.min(renewed_at) };
        // One that stands by itself ends whatever the heartbeats do: it must be looked at.
        let held_ms = if lease.kind.is_bound() { lease.held_ms() } else { 0 };
        *self.held_ms.entry(held_ms).or_default() += 1;
        self.count += 1;
        self.digest = self.digest.wrapping_add(digest([(name, lease.term)]));
        self.leases.entry(name.clone()).or_default().push(Renewed { term: lease.term, held_ms });
    }

    /// Takes a term out; whether it was in.
    pub(super) fn remove(&mut self, name: &LeaseName, term: Term) -> bool {
        let Some(held) = self.leases.get_mut(name) else { return false };
        let Some(at) = held.iter().position(|renewed| renewed.term == term) else { return false };
        let held_ms = held.swap_remove(at).held_ms;
        if held.is_empty() {
            self.leases.remove(name);
        }
        self.count -= 1;
        self.digest = self.digest.wrapping_sub(digest([(name, term)]));
        if let Some(count) = self.held_ms.get_mut(&held_ms) {
            *count -= 1;
            if *count == 0 {
                self.held_ms.remove(&held_ms);
            }
        }
        true
    }

    /// A heartbeat renewed all of them.
    pub(super) fn beaten(&mut self, at: BootTime) {
        self.floor = at;
    }

    /// The first moment at which one of them may have ended; `None` if there is none.
    pub(super) fn first_end(&self) -> Option<BootTime> {
        self.held_ms.first_key_value().map(|(held_ms, _)| self.floor.plus_ms(*held_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::LeaseKind;
    use crate::name::{LeaseId, MemberSlot};
    use crate::time::WallTime;

    fn name(text: &str) -> LeaseName {
        LeaseName::new(text).unwrap()
    }

    fn lease(term: u64, ttl_ms: u64, renewed_at: u64) -> Lease {
        Lease {
            term: Term(term),
            hold: Hold::Held { id: LeaseId(1), renewed_at: BootTime(renewed_at) },
            kind: LeaseKind::Bound,
            ttl_ms,
            member: MemberSlot(1),
            metadata: String::new(),
            granted_at: WallTime(0),
            version: 1,
            step_down_asked: false,
            successor: MemberSlot(0),
            paused: false,
            slots: 1,
        }
    }

    #[test]
    fn the_digest_is_that_of_what_is_in_it() {
        let mut renewing = Renewing::default();
        let (a, b) = (name("a"), name("b"));
        renewing.insert(&a, &lease(1, 1_000, 0), BootTime(0));
        renewing.insert(&b, &lease(2, 1_000, 0), BootTime(0));
        renewing.insert(&a, &lease(3, 1_000, 0), BootTime(0));
        renewing.insert(&a, &lease(3, 1_000, 0), BootTime(0));
        assert_eq!(renewing.digest(), digest([(&a, Term(1)), (&a, Term(3)), (&b, Term(2))]));
        assert_eq!(renewing.iter().count(), renewing.len());
        assert!(renewing.remove(&b, Term(2)) && renewing.remove(&a, Term(1)));
        assert_eq!(renewing.digest(), digest([(&a, Term(3))]));
        assert!(renewing.contains(&a, Term(3)) && !renewing.contains(&a, Term(1)));
        assert_eq!((renewing.len(), renewing.remove(&b, Term(2))), (1, false));
    }

    #[test]
    fn nothing_ends_before_the_shortest_after_the_oldest_renewal() {
        let mut renewing = Renewing::default();
        assert_eq!(renewing.first_end(), None);
        renewing.insert(&name("long"), &lease(1, 10_000, 500), BootTime(0));
        assert_eq!(renewing.first_end(), Some(BootTime(500 + 10_500)));
        renewing.insert(&name("short"), &lease(1, 1_000, 700), BootTime(600));
        assert_eq!(renewing.first_end(), Some(BootTime(500 + 1_050)));
        renewing.beaten(BootTime(800));
        assert_eq!(renewing.first_end(), Some(BootTime(800 + 1_050)));
        renewing.insert(&name("old"), &lease(1, 2_000, 100), BootTime(800));
        assert_eq!(renewing.first_end(), Some(BootTime(800 + 1_050)), "the heartbeat counts");
        assert!(renewing.remove(&name("short"), Term(1)));
        assert_eq!(renewing.first_end(), Some(BootTime(800 + 2_100)));
        let standing = Lease { kind: LeaseKind::Standing, ..lease(1, 1_000, 900) };
        renewing.insert(&name("standing"), &standing, BootTime(800));
        assert_eq!(renewing.first_end(), Some(BootTime(800)), "it must be looked at");
    }
}
