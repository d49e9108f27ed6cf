//! Who was granted which lease, and how long nobody else may be.

use std::collections::BTreeMap;

use bellwether_core::limits::LEASE_GRACE_PERCENT;

use crate::history::{Record, What};

/// The newest grant of one lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) term: u64,
    pub(super) id: u128,
    pub(super) said_ms: u64,
    /// Nobody else before then; zero if that is not known.
    pub(super) until_min_ms: u64,
    /// That time counts from a restart.
    pub(super) restarted: bool,
    ttl_ms: u64,
    /// It was not decided before then.
    applied_ms: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LeaseBook {
    grants: BTreeMap<u8, Grant>,
    /// When a release was last applied, by id: a copy of an old ask may be granted, released and
    /// granted once more before the first of it is said.
    released: BTreeMap<(u8, u128), u64>,
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
        let What::Granted { election, term, .. } = &record.what else { return None };
        let grant = self.grants.get(election).copied()?;
        let released = self.released.get(&(*election, grant.id));
        let is_held = released.is_none_or(|at| *at < grant.applied_ms);
        let early = *term > grant.term && is_held && record.at_ms < grant.until_min_ms;
        early.then_some(grant)
    }

    /// Takes note. Ask before: a grant replaces what is known of the one before it.
    pub(super) fn see(&mut self, record: &Record) {
        match &record.what {
            What::Granted { election, term, id, ttl_ms, applied_ms, .. } => {
                let until = applied_ms + held_ms(*ttl_ms);
                match self.grants.get_mut(election) {
                    Some(grant) if *term < grant.term => {}
                    Some(grant) if *term == grant.term => {
                        grant.until_min_ms = grant.until_min_ms.max(until);
                    }
                    _ => {
                        let grant = Grant {
                            term: *term,
                            id: *id,
                            said_ms: record.at_ms,
                            until_min_ms: until,
                            restarted: false,
                            ttl_ms: *ttl_ms,
                            applied_ms: *applied_ms,
                        };
                        self.grants.insert(*election, grant);
                    }
                }
            }
            What::Kept { election, term, ok: true, applied_ms, .. } => {
                if let Some(grant) = self.grants.get_mut(election).filter(|g| g.term == *term) {
                    let until = applied_ms + held_ms(grant.ttl_ms);
                    grant.until_min_ms = grant.until_min_ms.max(until);
                    grant.restarted = false;
                }
            }
            What::RenewedById { election, id, ok: true, applied_ms } => {
                if let Some(grant) = self.grants.get_mut(election).filter(|g| g.id == *id) {
                    let until = applied_ms + held_ms(grant.ttl_ms);
                    grant.until_min_ms = grant.until_min_ms.max(until);
                }
            }
            What::ReleaseApplied { election, id } => {
                self.released.insert((*election, *id), record.at_ms);
            }
            What::Killed | What::PowerCut => {
                for grant in self.grants.values_mut() {
                    // It may have been somebody else's already, who was never told.
                    if grant.until_min_ms <= record.at_ms {
                        grant.until_min_ms = 0;
                    }
                }
            }
            What::Opened { .. } => {
                for grant in self.grants.values_mut().filter(|grant| grant.until_min_ms != 0) {
                    grant.until_min_ms = record.at_ms + held_ms(grant.ttl_ms);
                    grant.restarted = true;
                }
            }
            _ => {}
        }
    }
}
