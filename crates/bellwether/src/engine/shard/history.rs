//! Who led when: the last terms of every lease, in memory and bounded.
//!
//! Fed by every change of a lease that goes into the journal or comes out of it. So it goes back as far
//! as the journal does when the store is opened, and no further than the limits here.

use std::collections::{BTreeMap, VecDeque};

use bellwether_core::change::Change;
use bellwether_core::lease::{Hold, Lease};
use bellwether_core::ledger::Ledger;
use bellwether_core::name::{LeaseName, Term};
use bellwether_core::outcome::{LeftAs, TermInfo};

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
    pub(super) fn note(&mut self, change: &Change, ledger: &Ledger) {
        let Change::Lease { name, lease } = change else { return };
        let left_as = match lease.hold {
            Hold::Free => LeftAs::Released,
            Hold::Held { .. } => LeftAs::Held,
            Hold::Broken { .. } => LeftAs::Broken,
        };
        let terms = self.by_lease.entry(name.clone()).or_default();
        if let Some(known) = terms.iter_mut().rev().find(|known| known.term == lease.term) {
            known.left_as = left_as;
            return;
        }
        terms.push_back(term_info(lease, left_as, ledger));
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

    /// The last terms of a lease, the newest first.
    pub(super) fn of(&self, name: &LeaseName, max: usize) -> Vec<TermInfo> {
        let terms = self.by_lease.get(name).into_iter().flatten();
        terms.rev().take(max).cloned().collect()
    }

    /// Forgets a term, if it is still remembered: then it is the oldest of its lease.
    fn forget(&mut self, name: &LeaseName, term: Term) {
        let Some(terms) = self.by_lease.get_mut(name) else { return };
        terms.pop_front_if(|oldest| oldest.term == term);
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
