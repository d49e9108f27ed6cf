//! An election as one member sees it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_core::candidacy::{LossReason, View as CoreView};
use bellwether_core::error::Refusal;
use bellwether_core::name::{LeaseName, MemberId, Term};
use bellwether_core::outcome::LeaseInfo;
use bellwether_core::time::WallTime;
use tokio::sync::watch;

use crate::error::Error;
use crate::leases::Leases;

/// One look at a lease takes at most so long; then the next one begins.
const LOOK: Duration = Duration::from_secs(30);
/// Pause after a look that told nothing.
const PAUSE_MS: u64 = 1_000;

/// The election as this member sees it. The term is part of every state, so that two changes that
/// are seen as one do not look like none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Not leading.
    Following {
        /// Who leads, by the engine's word; `None` for nobody, or if it was not heard yet.
        leader: Option<MemberId>,
        /// The newest term heard of.
        term: Option<Term>,
        /// Why the last term of ours ended, if there was one.
        after: Option<LossReason>,
    },
    /// Leading.
    Leading {
        /// Under this term.
        term: Term,
    },
    /// The work is told to stop and has not ended.
    Stopping {
        /// The term that ends.
        term: Term,
        /// Why.
        reason: LossReason,
    },
}

impl View {
    pub(super) const NEW: Self = Self::Following { leader: None, term: None, after: None };

    /// The newest term heard of.
    pub fn term(&self) -> Option<Term> {
        match self {
            Self::Following { term, .. } => *term,
            Self::Leading { term } | Self::Stopping { term, .. } => Some(*term),
        }
    }

    /// What the candidacy announces, after this.
    pub(super) fn then(self, view: CoreView) -> Self {
        match view {
            CoreView::Following { after } => {
                Self::Following { leader: None, term: self.term(), after: Some(after) }
            }
            CoreView::Leading { term } => Self::Leading { term },
            CoreView::Stopping { term, reason } => Self::Stopping { term, reason },
        }
    }

    /// What the engine says of others; of ourselves the candidacy knows better.
    fn heard(&mut self, info: &LeaseInfo) -> bool {
        let Self::Following { leader, term, .. } = self else { return false };
        // An answer may be older than what we know of our own last term. Of several who lead the one
        // that is shown may have been there before us.
        if info.slots == 1 && term.is_some_and(|term| info.term < term) {
            return false;
        }
        let now = (info.holder, Some(info.term));
        let changed = (*leader, *term) != now;
        (*leader, *term) = now;
        changed
    }
}

/// Who leads, as the engine sees it: a hint for people and logs, never a licence to act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The member.
    pub member: MemberId,
    /// Under which term.
    pub term: Term,
    /// Since when.
    pub since: WallTime,
    /// What it says of itself.
    pub metadata: String,
}

impl Leader {
    /// What it says of itself under this name ([`Election::tag`](super::Election::tag)).
    pub fn tag(&self, key: &str) -> Option<&str> {
        let tags = self.metadata.split_whitespace().filter_map(|word| word.split_once('='));
        tags.rev().find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

/// Refuses a tag that could not be read again.
pub(super) fn check_tags(tags: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    match tags.iter().find(|(key, value)| !is_word(key) || key.contains('=') || !is_word(value)) {
        None => Ok(()),
        Some((key, value)) => {
            let why = format!(
                "{key:?}={value:?}: key and value are words without white space, and the key has no '='"
            );
            Err(Refusal::InvalidValue { what: "tag", why })
        }
    }
}

/// Looks at the lease again and again, for as long as somebody looks on.
pub(super) async fn look_on(
    leases: Arc<dyn Leases>,
    lease: LeaseName,
    view: watch::Sender<View>,
    looked_on: Arc<AtomicBool>,
) {
    let mut seen = 0;
    loop {
        let looked = tokio::select! {
            looked = leases.watch(lease.clone(), seen, LOOK) => looked,
            () = view.closed() => {
                looked_on.store(false, Ordering::SeqCst);
                // Somebody came in just now, and found us still looking.
                if view.receiver_count() == 0 || looked_on.swap(true, Ordering::SeqCst) {
                    return;
                }
                continue;
            }
        };
        match looked {
            Ok(Some(info)) => {
                seen = info.version;
                view.send_if_modified(|view| view.heard(&info));
            }
            Err(Error::Closed) => return,
            // Nobody ever asked for it, or the engine cannot be asked now.
            Ok(None) | Err(_) => {
                let clock = leases.clock();
                clock.sleep_until(clock.boot().plus_ms(PAUSE_MS)).await;
            }
        }
    }
}
