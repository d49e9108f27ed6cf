//! Who holds which lease, from what the ledger really did, and how long nobody else may get it,
//! from what it said.

use std::collections::BTreeMap;

use bellwether_core::limits::LEASE_GRACE_PERCENT;

use crate::history::{Record, What};

/// The newest grant of one lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) term: u64,
    /// When it was decided.
    pub(super) since_ms: u64,
    /// Nobody else before then.
    pub(super) until_min_ms: u64,
    /// That time counts from a restart.
    pub(super) restarted: bool,
    /// `None` if it was given back.
    id: Option<u128>,
    ttl_ms: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LeaseBook {
    grants: BTreeMap<u8, Grant>,
}

fn held_ms(ttl_ms: u64) -> u64 {
    ttl_ms * LEASE_GRACE_PERCENT / 100
}

impl LeaseBook {
    pub(super) fn get(&self, election: u8) -> Option<&Grant> {
        self.grants.get(&election)
    }

    /// The grant that a new one must not follow yet.
    pub(super) fn too_early(&self, record: &Record) -> Option<Grant> {
        let What::LeaseIs { election, term, opened: false, .. } = &record.what else { return None };
        let grant = self.grants.get(election).copied()?;
        let is_held = grant.id.is_some() && record.at_ms < grant.until_min_ms;
        (*term != grant.term && is_held).then_some(grant)
    }

    /// Takes note. Ask before: a grant replaces what is known of the one before it.
    pub(super) fn see(&mut self, record: &Record) {
        match &record.what {
            What::LeaseIs { election, term, id, ttl_ms, opened } => {
                let old = self.grants.get(election).filter(|old| old.term == *term && !*opened);
                let new = Grant {
                    term: *term,
                    since_ms: record.at_ms,
                    until_min_ms: record.at_ms + held_ms(*ttl_ms),
                    restarted: *opened,
                    id: *id,
                    ttl_ms: *ttl_ms,
                };
                let grant = old.map_or(new, |old| Grant { id: *id, ..*old });
                self.grants.insert(*election, grant);
            }
            What::Granted { election, term, applied_ms, .. }
            | What::RenewedById { election, term, applied_ms, .. }
            | What::Kept { election, term, ok: true, applied_ms, .. } => {
                if let Some(grant) = self.grants.get_mut(election).filter(|g| g.term == *term) {
                    let until = applied_ms + held_ms(grant.ttl_ms);
                    grant.restarted &= until < grant.until_min_ms;
                    grant.until_min_ms = grant.until_min_ms.max(until);
                }
            }
            // Somebody else gets it in the same moment.
            What::ReleaseApplied { election, id } => {
                if let Some(grant) = self.grants.get_mut(election).filter(|g| g.id == Some(*id)) {
                    grant.id = None;
                }
            }
            _ => {}
        }
    }
}
