//! One queue: its messages, its dead letters, its sessions, and what waits for them.

use std::collections::{BTreeMap, VecDeque};

use crate::command::ReceiveMode;
use crate::error::Refusal;
use crate::fixed::FixedMap;
use crate::message::{Message, Standing, State};
use crate::name::{
    At, MemberSlot, Part, QueueId, QueueName, RequestNumber, SequenceNumber, SessionId,
    SessionToken, Ticket,
};
use crate::outage::Outage;
use crate::outcome::{Counts, QueueInfo, Totals};
use crate::ready::{LaneId, Ready};
use crate::session::Sessions;
use crate::settings::QueueSettings;
use crate::stats::Activity;
use crate::table::Table;
use crate::time::{BootTime, Now, WallTime};

/// One queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) id: QueueId,
    pub(crate) name: QueueName,
    pub(crate) settings: QueueSettings,
    pub(crate) created_at: WallTime,
    /// The last number given out.
    pub(crate) last: SequenceNumber,
    pub(crate) main: Shelf,
    pub(crate) dead: Shelf,
    pub(crate) sessions: Sessions,
    pub(crate) seen: Seen,
    /// When its oldest id is looked at, to be forgotten.
    pub(crate) seen_armed: Option<WallTime>,
    pub(crate) totals: Totals,
    /// `totals` counts up to this frame.
    pub(crate) totals_as_of: u64,
    pub(crate) activity: Activity,
    /// Bytes of all contents, messages and dead letters and session states together.
    pub(crate) size_bytes: u64,
    /// Those who wait for a session, in order.
    pub(crate) accepts: BTreeMap<Ticket, AcceptDemand>,
    /// Whether what all its messages need is away.
    pub(crate) outage: Outage,
    /// When it was last used, for `delete_idle_ms`.
    pub(crate) used_at: BootTime,
}

/// One half of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf {
    pub(crate) messages: Table<Message>,
    pub(crate) ready: Ready,
    /// Those who wait for messages, in order.
    pub(crate) demands: BTreeMap<(LaneId, Ticket), Demand>,
    pub(crate) tally: Tally,
}

/// How many messages of a shelf are in which state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) ready: u64,
    pub(crate) locked: u64,
    pub(crate) scheduled: u64,
    pub(crate) deferred: u64,
}

impl Tally {
    pub(crate) fn of(&mut self, state: &State) -> &mut u64 {
        match state {
            State::Ready => &mut self.ready,
            State::Locked(_) => &mut self.locked,
            State::Scheduled { .. } | State::Delayed { .. } => &mut self.scheduled,
            State::Deferred => &mut self.deferred,
        }
    }
}

/// A waiting receive. Never journaled: whoever waits asks again after a restart.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    pub(crate) member: MemberSlot,
    pub(crate) number: RequestNumber,
    pub(crate) max: u32,
    pub(crate) mode: ReceiveMode,
    pub(crate) lock_ms: u32,
    pub(crate) until: BootTime,
}

/// A waiting wish for a session.
#[derive(Clone, Debug)]
pub(crate) struct AcceptDemand {
    pub(crate) member: MemberSlot,
    pub(crate) number: RequestNumber,
    pub(crate) session: Option<SessionId>,
    pub(crate) until: BootTime,
}

impl Queue {
    pub(crate) fn new(
        id: QueueId,
        name: QueueName,
        settings: QueueSettings,
        created_at: WallTime,
        used_at: BootTime,
    ) -> Self {
        Self {
            id,
            name,
            settings,
            created_at,
            last: SequenceNumber(0),
            main: Shelf::default(),
            dead: Shelf::default(),
            sessions: Sessions::default(),
            seen: Seen::default(),
            seen_armed: None,
            totals: Totals::default(),
            totals_as_of: 0,
            activity: Activity::default(),
            size_bytes: 0,
            accepts: BTreeMap::new(),
            outage: Outage::default(),
            used_at,
        }
    }

    pub(crate) fn shelf(&self, part: Part) -> &Shelf {
        match part {
            Part::Main => &self.main,
            Part::Dead => &self.dead,
        }
    }

    pub(crate) fn shelf_mut(&mut self, part: Part) -> &mut Shelf {
        match part {
            Part::Main => &mut self.main,
            Part::Dead => &mut self.dead,
        }
    }

    /// Whether messages wait in the lanes of their sessions. Dead letters, and messages that name
    /// a session in a queue without sessions, are given out one by one.
    pub(crate) fn has_lanes(&self, part: Part) -> bool {
        self.settings.sessions && part == Part::Main
    }

    /// The lane a message waits in: its session's, or the common one.
    pub(crate) fn lane(&self, part: Part, message: &Message) -> LaneId {
        if self.has_lanes(part) { message.session } else { 0 }
    }

    /// Whether a replayed frame still counts up the totals (see `change.rs`).
    pub(crate) fn counts_in(&self, frame: u64) -> bool {
        frame > self.totals_as_of
    }

    /// A message has entered a state.
    pub(crate) fn enter(&mut self, at: At, message: &Message) {
        let state = &message.standing.state;
        *self.shelf_mut(at.part).tally.of(state) += 1;
        let lane = self.lane(at.part, message);
        let Some(session) = self.sessions.get_mut(lane) else { return };
        match state {
            State::Locked(_) => {
                session.locked.insert(at.sequence.0);
            }
            State::Delayed { .. } => {
                session.delayed.insert(at.sequence.0);
                self.refresh_session(lane);
            }
            State::Ready | State::Scheduled { .. } | State::Deferred => {}
        }
    }

    /// A message leaves a state. True if it held back what stands behind it in its lane.
    pub(crate) fn leave(&mut self, at: At, message: &Message) -> bool {
        let state = &message.standing.state;
        *self.shelf_mut(at.part).tally.of(state) -= 1;
        let lane = self.lane(at.part, message);
        let Some(session) = self.sessions.get_mut(lane) else { return false };
        match state {
            State::Locked(_) => session.locked.remove(&at.sequence.0),
            State::Delayed { .. } => session.delayed.remove(&at.sequence.0),
            State::Ready | State::Scheduled { .. } | State::Deferred => false,
        };
        matches!(state, State::Delayed { .. })
    }

    /// Counts what a new standing says has happened.
    pub(crate) fn count_standing(&mut self, old: &Standing, new: &Standing) {
        let activity = &mut self.activity;
        match (&old.state, &new.state) {
            (State::Locked(before), State::Locked(after)) if old.number == new.number => {
                activity.locks_renewed += u64::from(before.until < after.until);
            }
            (_, State::Locked(_)) => activity.delivered += 1,
            (State::Locked(_), _) if new.crashes > old.crashes => activity.locks_lost += 1,
            (State::Locked(_), _) if new.failures > old.failures => activity.abandoned += 1,
            (State::Locked(_), _) if new.releases > old.releases => activity.released += 1,
            (State::Locked(_), State::Deferred) => activity.deferred += 1,
            _ => {}
        }
    }

    /// A message is ready, but not to be seen yet.
    pub(crate) fn hide(&mut self, at: At, message: &Message) {
        let lane = self.lane(at.part, message);
        if let Some(session) = self.sessions.get_mut(lane) {
            session.unseen.insert(at.sequence.0);
            self.refresh_session(lane);
        }
    }

    pub(crate) fn next_sequence(&self) -> SequenceNumber {
        SequenceNumber(self.last.0 + 1)
    }

    /// How many messages there are, dead letters included.
    pub(crate) fn len(&self) -> u64 {
        (self.main.messages.len() + self.dead.messages.len()) as u64
    }

    pub(crate) fn info(&self) -> QueueInfo {
        let tally = self.main.tally;
        QueueInfo {
            name: self.name.clone(),
            settings: self.settings.clone(),
            created_at: self.created_at,
            counts: Counts {
                ready: tally.ready,
                locked: tally.locked,
                scheduled: tally.scheduled,
                deferred: tally.deferred,
                dead_letters: self.dead.messages.len() as u64,
                size_bytes: self.size_bytes,
            },
            totals: self.totals,
        }
    }

    /// The lane of a held session; refused if the hold has ended.
    pub(crate) fn held_lane(&self, now: Now, token: &SessionToken) -> Result<LaneId, Refusal> {
        let lost = || Refusal::SessionLost(token.session.clone());
        let lane = self.sessions.find(&token.session).ok_or_else(lost)?;
        let session = self.sessions.get(lane).ok_or_else(lost)?;
        match session.hold {
            Some((hold, until))
                if session.number == token.number
                    && hold.incarnation == token.incarnation
                    && until > now.boot =>
            {
                Ok(lane)
            }
            _ => Err(lost()),
        }
    }

    /// Looks again whether a session is free; call after anything that may have changed it.
    pub(crate) fn refresh_session(&mut self, lane: LaneId) {
        let first = if self.settings.sessions { self.first_ready(lane) } else { None };
        self.sessions.refresh(lane, first);
    }

    /// The first message of a lane that is really there and ready; drops names of those that left.
    pub(crate) fn first_ready(&mut self, lane: LaneId) -> Option<u64> {
        loop {
            let sequence = self.main.ready.first(lane)?;
            match self.main.messages.get(sequence) {
                Some(message) if message.standing.state == State::Ready => return Some(sequence),
                _ => self.main.ready.pop(lane),
            };
        }
    }
}

/// Message ids seen lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    when: FixedMap<u128, WallTime>,
    order: VecDeque<(WallTime, u128)>,
    /// How many have left `order`: positions count from the first one ever, so that a snapshot
    /// that is being taken does not skip any when some are forgotten.
    forgotten: u64,
}

impl Seen {
    /// Whether an id was seen within the window before `now`.
    pub(crate) fn contains(&self, id_hash: u128, now: WallTime, window_ms: u64) -> bool {
        self.when.get(&id_hash).is_some_and(|at| at.plus_ms(window_ms) > now)
    }

    /// An id was seen. What a snapshot already knows better is replayed without effect.
    pub(crate) fn insert(&mut self, id_hash: u128, at: WallTime) {
        if self.when.get(&id_hash).is_none_or(|known| *known < at) {
            self.when.insert(id_hash, at);
            self.order.push_back((at, id_hash));
        }
    }

    /// Forgets ids older than the window, at most `max` of them.
    pub(crate) fn forget(&mut self, now: WallTime, window_ms: u64, max: usize) {
        for _ in 0..max {
            let Some((at, id_hash)) = self.order.front().copied() else { return };
            if at.plus_ms(window_ms) > now {
                return;
            }
            self.order.pop_front();
            self.forgotten += 1;
            // Seen again since: the younger entry stands further back.
            if self.when.get(&id_hash) == Some(&at) {
                self.when.remove(&id_hash);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// When the oldest was seen.
    pub(crate) fn oldest(&self) -> Option<WallTime> {
        self.order.front().map(|(at, _)| *at)
    }

    /// Entries from a position on, oldest first, each with its position.
    pub(crate) fn from(&self, position: u64) -> impl Iterator<Item = (u64, WallTime, u128)> {
        let skipped = position.saturating_sub(self.forgotten) as usize;
        let entries = self.order.iter().enumerate().skip(skipped);
        entries.map(|(index, (at, id_hash))| (self.forgotten + index as u64, *at, *id_hash))
    }
}
