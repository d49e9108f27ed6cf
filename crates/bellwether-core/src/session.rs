//! Sessions of one queue: ordered groups of messages, each locked as one.
//!
//! 1. A session exists while it has messages, a hold or a state.
//! 2. One receiver at a time holds it. Hold numbers are the ledger's, not the session's: a
//!    session that was forgotten and comes again must not know an old hold as its own.
//! 3. Its messages are given out in the order of their numbers. A message that waits for a retry
//!    holds back everything behind it.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::Hold;
use crate::content::ContentId;
use crate::name::{DeliveryNumber, SessionId};
use crate::ready::LaneId;
use crate::time::BootTime;

/// One session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// Its name.
    pub id: SessionId,
    /// Number of its newest hold.
    pub number: DeliveryNumber,
    /// The hold that stands, and until when.
    pub hold: Option<(Hold, BootTime)>,
    /// Its state; zero is none.
    pub state: ContentId,
    /// Messages of it in the queue and its dead letters, in whatever state.
    pub messages: u32,
    /// Numbers handed out under the hold.
    pub locked: BTreeSet<u64>,
    /// Numbers that wait for a retry.
    pub delayed: BTreeSet<u64>,
    /// Numbers that are ready but not yet visible, because that is not durable yet.
    pub unseen: BTreeSet<u64>,
    /// Where it stands among the free ones, if it is free.
    offered_as: Option<u64>,
}

/// All sessions of one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    by_name: BTreeMap<SessionId, LaneId>,
    by_lane: BTreeMap<LaneId, Session>,
    next_lane: LaneId,
    /// Free sessions with something to receive, oldest message first.
    offered: BTreeSet<(u64, LaneId)>,
}

impl Sessions {
    /// The lane of a session, which is made if it was not there.
    pub(crate) fn lane(&mut self, id: &SessionId) -> LaneId {
        if let Some(lane) = self.by_name.get(id) {
            return *lane;
        }
        self.next_lane += 1;
        let lane = self.next_lane;
        self.by_name.insert(id.clone(), lane);
        self.by_lane.insert(
            lane,
            Session {
                id: id.clone(),
                number: DeliveryNumber(0),
                hold: None,
                state: ContentId(0),
                messages: 0,
                locked: BTreeSet::new(),
                delayed: BTreeSet::new(),
                unseen: BTreeSet::new(),
                offered_as: None,
            },
        );
        lane
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The lane of a session, if it is there.
    pub(crate) fn find(&self, id: &SessionId) -> Option<LaneId> {
        self.by_name.get(id).copied()
    }

    /// A session by its lane.
    pub(crate) fn get(&self, lane: LaneId) -> Option<&Session> {
        self.by_lane.get(&lane)
    }

    /// Sessions by lane, from `lane` on.
    pub(crate) fn from(&self, lane: LaneId) -> impl Iterator<Item = (LaneId, &Session)> {
        self.by_lane.range(lane..).map(|(lane, session)| (*lane, session))
    }

    /// A session by its lane, to change it.
    pub(crate) fn get_mut(&mut self, lane: LaneId) -> Option<&mut Session> {
        self.by_lane.get_mut(&lane)
    }

    /// Sessions by name, after `after`.
    pub(crate) fn after<'a>(
        &'a self,
        after: Option<&SessionId>,
    ) -> impl Iterator<Item = &'a Session> + use<'a> {
        let from =
            after.map_or(std::ops::Bound::Unbounded, |id| std::ops::Bound::Excluded(id.clone()));
        self.by_name.range((from, std::ops::Bound::Unbounded)).map(|(_, lane)| &self.by_lane[lane])
    }

    /// The free session whose first message is the oldest.
    pub(crate) fn first_offered(&self) -> Option<LaneId> {
        self.offered.first().map(|(_, lane)| *lane)
    }

    /// Looks again whether a session is free and has something to give; `first` is its first
    /// ready message. Forgets a session that has become nothing (rule 1).
    pub(crate) fn refresh(&mut self, lane: LaneId, first: Option<u64>) {
        let Some(session) = self.by_lane.get_mut(&lane) else { return };
        if let Some(old) = session.offered_as.take() {
            self.offered.remove(&(old, lane));
        }
        if session.hold.is_none() {
            if let Some(first) = first.filter(|first| !session.is_blocked_before(*first)) {
                session.offered_as = Some(first);
                self.offered.insert((first, lane));
            }
            if session.messages == 0 && session.state.0 == 0 {
                self.by_name.remove(&session.id);
                self.by_lane.remove(&lane);
            }
        }
    }
}

impl Session {
    /// Whether a message that cannot be given out yet stands before `sequence` (rule 3).
    pub(crate) fn is_blocked_before(&self, sequence: u64) -> bool {
        #[cfg(planted_bug = "session_skips_ahead")]
        if sequence > 0 {
            return false;
        }
        [&self.delayed, &self.unseen]
            .into_iter()
            .any(|held_back| held_back.first().is_some_and(|first| *first < sequence))
    }
}
