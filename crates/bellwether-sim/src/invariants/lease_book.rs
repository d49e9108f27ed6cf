//! Who holds which lease, from what the ledger really did, and how long nobody else may get it,
//! from what it said.

use std::collections::BTreeMap;

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
    slot: u32,
    held_ms: u64,
    /// When it was last to be given back or taken away: somebody else may get it in that moment.
    freed_ms: Option<u64>,
    /// When it was last to get another id, and with it a new term, but no more time.
    changed_ms: Option<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LeaseBook {
    grants: BTreeMap<u8, Grant>,
}

impl LeaseBook {
    pub(super) fn get(&self, election: u8) -> Option<&Grant> {
        self.grants.get(&election)
    }

    /// The grant that a new one must not follow yet.
    pub(super) fn too_early(&self, record: &Record) -> Option<Grant> {
        let What::LeaseIs { election, term, opened: false, .. } = &record.what else { return None };
        let grant = self.grants.get(election).copied()?;
        let now = Some(record.at_ms);
        let is_held = grant.id.is_some() && grant.freed_ms != now && grant.changed_ms != now;
        (*term != grant.term && is_held && record.at_ms < grant.until_min_ms).then_some(grant)
    }

    /// Takes note. Ask before: a grant replaces what is known of the one before it.
    pub(super) fn see(&mut self, record: &Record) {
        match &record.what {
            What::LeaseIs { election, term, id, slot, held_ms, opened } => {
                let old = self.grants.get(election).filter(|_| !*opened);
                let changed = old.filter(|old| old.changed_ms == Some(record.at_ms));
                let until_min_ms = record.at_ms + held_ms;
                let new = Grant {
                    term: *term,
                    since_ms: record.at_ms,
                    until_min_ms: changed.map_or(until_min_ms, |old| old.until_min_ms),
                    restarted: *opened,
                    id: *id,
                    slot: *slot,
                    held_ms: *held_ms,
                    freed_ms: None,
                    changed_ms: None,
                };
                let same = old.filter(|old| old.term == *term);
                let grant = same.map_or(new, |old| Grant { id: *id, ..*old });
                self.grants.insert(*election, grant);
            }
            What::Granted { election, term, renews: true, applied_ms, .. }
            | What::RenewedById { election, term, applied_ms, .. }
            | What::Kept { election, term, ok: true, applied_ms, .. } => {
                if let Some(grant) = self.grants.get_mut(election).filter(|g| g.term == *term) {
                    let until = applied_ms + grant.held_ms;
                    grant.restarted &= until < grant.until_min_ms;
                    grant.until_min_ms = grant.until_min_ms.max(until);
                }
            }
            What::ReleaseApplied { election, id } => {
                self.free(record, |of, grant| of == *election && grant.id == Some(*id));
            }
            What::BreakApplied { election } => self.free(record, |of, _| of == *election),
            What::LeaveApplied { slot } => self.free(record, |_, grant| grant.slot == *slot),
            What::ChangeApplied { election, id } => {
                if let Some(grant) = self.grants.get_mut(election).filter(|g| g.id == Some(*id)) {
                    grant.changed_ms = Some(record.at_ms);
                }
            }
            _ => {}
        }
    }

    fn free(&mut self, record: &Record, which: impl Fn(u8, &Grant) -> bool) {
        for (_, grant) in self.grants.iter_mut().filter(|(of, grant)| which(**of, grant)) {
            grant.freed_ms = Some(record.at_ms);
        }
    }
}
