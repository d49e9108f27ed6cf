//! Whose members are whose.
//!
//! A member is told apart by its id, which others can see, and speaks under its slot, which is a
//! small number. Neither is a secret; so where principals are told apart, a member belongs to the one
//! that joined first under its id, and to nobody else will it ever answer.
//!
//! 1. An id is claimed before the ledger hears of it: nobody can come in between.
//! 2. The principal's name stands at the end of what the member says of itself, put there by the
//!    server. That is in the journal, so a restart does not change whose a member is.
//! 3. Whom no principal let in, the server itself or somebody trusted, is nobody else's.
//! 4. It is remembered for as long as the ledger remembers the member.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bellwether_core::limits;
use bellwether_core::name::{MemberId, MemberSlot};
use bellwether_core::time::BootTime;

use crate::error::Error;
use crate::handle::Bellwether;

/// Not looked through for what is forgotten before there are so many.
const PRUNE_MIN: usize = 1024;

/// What a member says of itself, with whose it is.
pub fn marked(metadata: &str, principal: &str) -> String {
    let space = if metadata.is_empty() { "" } else { " " };
    format!("{metadata}{space}(rule {principal})")
}

fn principal_of(metadata: &str) -> Option<&str> {
    let (_, last) = metadata.rsplit_once("(rule ")?;
    last.strip_suffix(')')
}

/// See the module.
#[derive(Debug, Default)]
pub struct Owners {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<MemberId, Owned>,
    by_slot: HashMap<MemberSlot, MemberId>,
    prune_at: usize,
}

#[derive(Debug)]
struct Owned {
    principal: Option<Arc<str>>,
    slot: Option<MemberSlot>,
    ttl_ms: u64,
    seen: BootTime,
}

impl Owners {
    /// Those of the members that are in the store already.
    pub async fn of(store: &Bellwether) -> Result<Self, Error> {
        let owners = Self::default();
        let now = store.clock().boot();
        for member in store.members().await? {
            let principal: Option<Arc<str>> = principal_of(&member.metadata).map(Into::into);
            // How long it may be silent is not told; nobody may for longer.
            owners.claim(member.id, principal.as_ref(), limits::LEASE_MS_INFINITE, now);
            owners.joined(member.id, member.slot);
        }
        Ok(owners)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody is about to join under this id. False if it is another one's.
    pub fn claim(
        &self,
        id: MemberId,
        principal: Option<&Arc<str>>,
        ttl_ms: u64,
        now: BootTime,
    ) -> bool {
        let mut table = self.lock();
        table.prune(now);
        match table.by_id.entry(id) {
            Entry::Occupied(known) => {
                let known = known.into_mut();
                known.seen = now;
                known.principal.as_ref() == principal
            }
            Entry::Vacant(new) => {
                let principal = principal.cloned();
                new.insert(Owned { principal, slot: None, ttl_ms, seen: now });
                true
            }
        }
    }

    /// It has joined.
    pub fn joined(&self, id: MemberId, slot: MemberSlot) {
        let mut table = self.lock();
        if let Some(owned) = table.by_id.get_mut(&id) {
            owned.slot = Some(slot);
            table.by_slot.insert(slot, id);
        }
    }

    /// It was not let in: the id is free again, unless somebody joined under it before.
    pub fn refused(&self, id: MemberId) {
        let mut table = self.lock();
        if table.by_id.get(&id).is_some_and(|owned| owned.slot.is_none()) {
            table.by_id.remove(&id);
        }
    }

    /// Whether a principal speaks for this member. Everybody speaks for nobody.
    pub fn is_of(&self, slot: MemberSlot, principal: &str, now: BootTime) -> bool {
        if slot == MemberSlot::default() {
            return true;
        }
        let mut table = self.lock();
        let Some(id) = table.by_slot.get(&slot).copied() else { return false };
        let owned = table
            .by_id
            .get_mut(&id)
            .filter(|owned| owned.principal.as_ref().is_some_and(|owner| **owner == *principal));
        owned.map(|owned| owned.seen = now).is_some()
    }
}

impl Table {
    fn prune(&mut self, now: BootTime) {
        if self.by_id.len() < self.prune_at.max(PRUNE_MIN) {
            return;
        }
        let by_slot = &mut self.by_slot;
        self.by_id.retain(|_, owned| {
            let is_remembered = owned.ttl_ms == limits::LEASE_MS_INFINITE || {
                let forgotten = owned.ttl_ms.saturating_add(limits::MEMBER_MEMORY_MS);
                now < owned.seen.plus_ms(forgotten)
            };
            if !is_remembered && let Some(slot) = owned.slot {
                by_slot.remove(&slot);
            }
            is_remembered
        });
        self.prune_at = 2 * self.by_id.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_answers_to_the_principal_that_made_it_and_to_no_other() {
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let (owners, now) = (Owners::default(), BootTime(0));
        assert!(owners.claim(MemberId(1), Some(&a), 1000, now));
        assert!(!owners.claim(MemberId(1), Some(&b), 1000, now), "before it has a slot, too");
        assert!(!owners.claim(MemberId(1), None, 1000, now));
        owners.joined(MemberId(1), MemberSlot(7));
        assert!(owners.is_of(MemberSlot(7), "a", now) && !owners.is_of(MemberSlot(7), "b", now));
        assert!(!owners.is_of(MemberSlot(8), "a", now), "nobody knows whose it is");
        assert!(owners.is_of(MemberSlot(0), "b", now), "nobody is everybody's");
        owners.refused(MemberId(1));
        assert!(owners.is_of(MemberSlot(7), "a", now), "it is there");
        assert!(owners.claim(MemberId(2), None, 1000, now));
        owners.joined(MemberId(2), MemberSlot(9));
        assert!(!owners.is_of(MemberSlot(9), "a", now), "the server's own");
    }

    #[test]
    fn what_the_ledger_forgets_is_forgotten() {
        let (a, owners): (Arc<str>, _) = ("a".into(), Owners::default());
        for id in 0..5000 {
            assert!(owners.claim(MemberId(id), Some(&a), 1000, BootTime(0)));
            owners.joined(MemberId(id), MemberSlot(id as u32 + 1));
        }
        let later = BootTime(1001 + limits::MEMBER_MEMORY_MS);
        for id in 5000..10_000 {
            owners.claim(MemberId(id), Some(&a), 1000, later);
        }
        assert!(owners.lock().by_id.len() <= 8192 && owners.lock().by_slot.is_empty());
    }

    #[test]
    fn the_last_name_in_what_a_member_says_is_the_servers() {
        assert_eq!(principal_of(&marked("pid 7 (rule root)", "worker")), Some("worker"));
        assert_eq!(principal_of(&marked("", "worker")), Some("worker"));
        assert_eq!(principal_of("pid 7"), None);
    }
}
