//! Backups: how one is taken step by step, and what is raised when one is restored.
//!
//! ```text
//!   Backup 0, 1 … ─► State: a slice of everything there is, while the store goes on
//!   Backup i …    ─► Frames: what was written since step 0, as it lies in the journal
//!   Backup n      ─► End: everything up to that frame, and nothing of what came after
//! ```
//!
//! A backup is a snapshot as the journal takes them ([`crate::ledger::Ledger::snapshot`]): changes
//! set state, so the frames since its beginning are replayed over it, and the result is the store
//! as it stood after the last of them.
//!
//! What was granted, handed out or numbered after that frame is not in the backup, but the world may
//! have seen it: the *lost future*. So a restored store never gives out a number again that may have
//! been given out there ([`Raise`]).

use crate::change::Change;
use crate::ledger::Ledger;
use crate::name::{Incarnation, MemberSlot, SequenceNumber, Term};
use crate::time::WallTime;

/// What a step brings; its bytes travel beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupStep {
    /// A part of the state: beside it a row of changes, then the contents that these place.
    State {
        /// The frame being filled when the backup began.
        frame: u64,
        /// About how many bytes the whole state has.
        bytes: u64,
    },
    /// Frames written since the backup began: beside it the payload of each.
    Frames {
        /// Their numbers.
        numbers: Vec<u64>,
    },
    /// That was all.
    End {
        /// The last frame whose effect is in it.
        frame: u64,
    },
}

/// Terms go on at least so far above the wall clock, in milliseconds (50 days): the clock of the
/// machine that granted the lost ones may have been ahead by as much.
const TERMS_AHEAD: u64 = 1 << 32;
/// And so far above the highest in the backup, whatever the clocks say: nobody grants one lease
/// more often than that between a backup and the loss of its store.
const TERMS_STEP: u64 = 1 << 20;
/// More messages than that are not sent to one queue between a backup and the loss of its store.
const SEQUENCES_STEP: u64 = 1 << 32;
/// Nor is the store opened, or a queue deleted, so often.
const INCARNATIONS_STEP: u32 = 1 << 16;
/// Nor do so many members join.
const MEMBERS_STEP: u32 = 1 << 16;
/// Nor does a lease change so often.
const VERSIONS_STEP: u64 = 1 << 32;

/// What a restored store goes on with. Numbers that are only compared with themselves (delivery
/// numbers of one message, contents, queues) go on as they are: an incarnation of its own keeps
/// every token apart from those of the lost future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raise {
    /// Every lease is at this term at least, and every new grant above it.
    pub terms_from: Term,
    /// Tokens handed out from here on bear this incarnation or a later one.
    pub incarnation: Incarnation,
}

impl Raise {
    /// For the state of a backup that is restored at `now`. The same backup may be restored twice,
    /// and both stores be seen by the world: so the time of the restore is in the numbers, and for
    /// two in the same second `chance`.
    pub fn of(ledger: &Ledger, now: WallTime, chance: u16) -> Self {
        let above_known = ledger.highest_term().0.saturating_add(TERMS_STEP);
        let terms_from = Term(above_known.max(now.0.saturating_add(TERMS_AHEAD)));
        let seconds = u32::try_from(now.0 / 1000).unwrap_or(u32::MAX);
        let known = ledger.incarnation().0.saturating_add(INCARNATIONS_STEP);
        let incarnation = Incarnation(known.max(seconds).saturating_add(chance.into()));
        Self { terms_from, incarnation }
    }

    /// A change of the backup's state as it is written into frame `frame` of the restored store.
    pub fn raise(&self, change: Change, frame: u64) -> Change {
        match change {
            Change::Opened { .. } => Change::Opened { incarnation: self.incarnation },
            Change::TermsFrom { .. } => Change::TermsFrom { term: self.terms_from },
            Change::Lease { name, slot, mut lease } => {
                // Also one that is held: whoever comes back under its id hears of a term that is
                // above all that were granted in the lost future. No two slots have the same.
                lease.term = Term(self.terms_from.0.saturating_add(slot.into()));
                lease.version = lease.version.saturating_add(VERSIONS_STEP);
                Change::Lease { name, slot, lease }
            }
            Change::QueueTotals { id, next, totals, .. } => {
                let next = SequenceNumber(next.0.saturating_add(SEQUENCES_STEP));
                Change::QueueTotals { id, as_of: frame, next, totals }
            }
            // Of the snapshot's opening: the newest number given out.
            Change::MemberGone { slot, forgotten: true } => Change::MemberGone {
                slot: MemberSlot(slot.0.saturating_add(MEMBERS_STEP)),
                forgotten: true,
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallTime = WallTime(1_800_000_000_000);

    /// A ledger of which only these numbers count.
    fn ledger(highest: u64, incarnation: u32) -> Ledger {
        let mut ledger = Ledger::new(u64::MAX);
        let now = crate::time::Now::new(NOW.0, 0);
        ledger.replay(now, &Change::TermsFrom { term: Term(highest) }, None);
        ledger.replay(now, &Change::Opened { incarnation: Incarnation(incarnation) }, None);
        ledger
    }

    #[test]
    fn terms_go_on_above_the_clock_and_above_what_is_known() {
        let of = |highest| Raise::of(&ledger(highest, 7), NOW, 0).terms_from.0;
        assert_eq!(of(0), NOW.0 + TERMS_AHEAD);
        assert_eq!(of(NOW.0), NOW.0 + TERMS_AHEAD, "as a clock that is right grants them");
        let ahead = NOW.0 + 2 * TERMS_AHEAD;
        assert_eq!(of(ahead), ahead + TERMS_STEP, "its clock was ahead by more than fifty days");
    }

    #[test]
    fn a_second_restore_is_above_the_first() {
        let backup = ledger(NOW.0, 7);
        let (first, later) = (Raise::of(&backup, NOW, 3), Raise::of(&backup, NOW.plus_ms(1000), 3));
        assert!(later.terms_from > first.terms_from && later.incarnation > first.incarnation);
        let at_once = Raise::of(&backup, NOW, 4);
        assert_ne!(at_once.incarnation, first.incarnation, "in the same second by chance");
        // A store that was restored is backed up and restored.
        let next = ledger(first.terms_from.0 + 10, first.incarnation.0 + 10);
        let next = Raise::of(&next, NOW, 0);
        assert!(next.terms_from > first.terms_from && next.incarnation > first.incarnation);
    }

    #[test]
    fn no_two_slots_are_raised_to_the_same_term() {
        let raise = Raise::of(&ledger(NOW.0, 7), NOW, 0);
        let now = crate::time::Now::new(NOW.0, 0);
        let name = crate::name::LeaseName::new("l").unwrap();
        let (lease, beaten_at, terms_from) = (None, None, Term(0));
        let at = crate::lease::LeaseAt { name: &name, lease, now, beaten_at, terms_from };
        let lease = Box::new(at.pause(true).lease);
        let raised = [0, 2].map(|slot| {
            let change = Change::Lease { name: name.clone(), slot, lease: lease.clone() };
            match raise.raise(change, 1) {
                Change::Lease { lease, .. } => lease.term,
                other => panic!("{other:?}"),
            }
        });
        assert!(raise.terms_from <= raised[0] && raised[0] < raised[1], "{raised:?}");
    }

    #[test]
    fn numbers_at_their_end_stay_there() {
        let raise = Raise::of(&ledger(u64::MAX, u32::MAX), WallTime(u64::MAX), u16::MAX);
        assert_eq!((raise.terms_from.0, raise.incarnation.0), (u64::MAX, u32::MAX));
    }
}
