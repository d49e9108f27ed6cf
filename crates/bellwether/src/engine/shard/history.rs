//! Who led when: the last terms of every lease, in memory and bounded.
//!
//! Fed by every change of a lease that goes into the journal or comes out of it. So it goes back as far
//! as the journal does when the store is opened, and no further than the limits here.

use std::collections::{BTreeMap, VecDeque};

use bellwether_core::change::Change;
use bellwether_core::lease::{Hold, Lease, LeaseAt};
use bellwether_core::ledger::Ledger;
use bellwether_core::name::{LeaseName, Term};
use bellwether_core::outcome::{LeaseState, LeftAs, TermInfo};

/// Of all leases together the last so many grants are remembered; each says up to 4096 bytes of its
/// holder.
const TERMS_MAX: usize = 4096;
/// Of these, of one lease.
const TERMS_OF_ONE_MAX: usize = 100;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct History {
    by_lease: BTreeMap<LeaseName, VecDeque<TermInfo>>,
    /// The last grants of all leases, the oldest first.
    grants: VecDeque<(LeaseName, Term)>,
}

impl History {
    /// A change was made that `ledger` shows already.
    #[inline]
    pub(super) fn note(&mut self, change: &Change, ledger: &Ledger) {
        match change {
            Change::Lease { name, lease, .. } => self.note_lease(name, lease, ledger),
            Change::TermEnded { name, term, at, by } => {
                let terms = self.by_lease.get_mut(name).into_iter().flatten();
                if let Some(ended) = terms.rev().find(|known| known.term == *term) {
                    ended.left_as = LeftAs::Ended { at: *at, by: *by };
                }
            }
            _ => {}
        }
    }

    fn note_lease(&mut self, name: &LeaseName, lease: &Lease, ledger: &Ledger) {
        // Paused before anybody asked for it.
        if lease.term == Term(0) {
            return;
        }
        let left_as = match lease.hold {
            Hold::Free => LeftAs::Released,
            Hold::Held { .. } => LeftAs::Held,
            Hold::Broken { .. } => LeftAs::Broken,
        };
        let terms = self.by_lease.entry(name.clone()).or_default();
        if let Some(known) = terms.iter_mut().rev().find(|known| known.term == lease.term) {
            // Its record may be written again after its end, which was told better.
            if !matches!(known.left_as, LeftAs::Ended { .. }) {
                known.left_as = left_as;
            }
            return;
        }
        // Slots come out of a snapshot in their own order.
        let place = terms.iter().rposition(|known| known.term < lease.term).map_or(0, |at| at + 1);
        terms.insert(place, term_info(lease, left_as, ledger));
        if terms.len() > TERMS_OF_ONE_MAX {
            terms.pop_front();
        }
        self.grants.push_back((name.clone(), lease.term));
        if self.grants.len() > TERMS_MAX
            && let Some((name, term)) = self.grants.pop_front()
        {
            self.forget(&name, term);
        }
    }

    /// The last terms of a lease, the newest first. One that ran out may stand again: renewed late,
    /// or honoured once more after a restart.
    pub(super) fn of(&self, name: &LeaseName, held: &[LeaseAt<'_>], max: usize) -> Vec<TermInfo> {
        let terms = self.by_lease.get(name).into_iter().flatten();
        let mut terms: Vec<TermInfo> = terms.rev().take(max).cloned().collect();
        for at in held.iter().filter(|at| at.state() == LeaseState::Leased) {
            if let Some(standing) = terms.iter_mut().find(|info| info.term == at.term()) {
                standing.left_as = LeftAs::Held;
            }
        }
        terms
    }

    /// Forgets a term, if it is still remembered.
    fn forget(&mut self, name: &LeaseName, term: Term) {
        let Some(terms) = self.by_lease.get_mut(name) else { return };
        terms.retain(|known| known.term != term);
        if terms.is_empty() {
            self.by_lease.remove(name);
        }
    }
}

fn term_info(lease: &Lease, left_as: LeftAs, ledger: &Ledger) -> TermInfo {
    TermInfo {
        term: lease.term,
        kind: lease.kind,
        granted_at: lease.granted_at,
        holder: ledger.member_id(lease.member),
        metadata: lease.metadata.clone(),
        left_as,
    }
}
