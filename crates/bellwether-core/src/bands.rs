//! Whose turn it is: priorities, and keys that take turns.
//!
//! ```text
//!   band 9   ring:  a ─► c                 the band whose head has the highest level gives:
//!   band 4   ring:  b ─► a ─► (none) ─► d      level = priority + age of its head / ageing_ms
//!   band 0   ring:  c                      of it, the key at the front of the ring
//! ```
//!
//! Deficit round robin, and a message costs one: a key at the front gives as many as its weight
//! says and goes to the back. One that is over a limit leaves the rings at once and comes back
//! at their ends. So a pick looks at one head a band, however many keys there are.
//!
//! 1. A key is in a band's ring once, if it has a visible message there and does not rest.
//! 2. It leaves when the last of these goes, wherever it stands: a ring may show an entry whose
//!    stamp is no longer the lane's, which is passed over.
//! 3. Only while a message has a rank of its own is there any of this (`Ready`).

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::keys::{KeyId, Keys};
use crate::limits;
use crate::message::{Message, State};
use crate::ready::Lane;
use crate::table::Table;
use crate::time::WallTime;

const BANDS: usize = limits::PRIORITY_MAX as usize + 1;

/// Rings are tidied when more than half of so many entries are of the past.
const PAST_MIN: usize = 16;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bands {
    /// Lanes of a key, by its number.
    rows: Vec<Vec<KeyLane>>,
    rings: [Ring; BANDS],
    /// How many lanes there are but the usual one.
    others: usize,
    last_stamp: u32,
    /// Band and key of the last pick.
    picked: (u8, KeyId),
}

#[derive(Clone, Debug, Default)]
struct KeyLane {
    priority: u8,
    lane: Lane,
    /// Ready messages, those that are not visible yet included.
    ready: u64,
    /// Those that are visible: they have a name in the lane.
    visible: u64,
    /// What is left of its turn.
    left: u32,
    /// Of its entry in the ring; zero if it has none.
    stamp: u32,
}

#[derive(Clone, Debug, Default)]
struct Ring {
    turns: VecDeque<(KeyId, u32)>,
    /// Entries that are not of the past.
    live: usize,
}

impl Bands {
    /// With what was there before: the usual lane, and how many of its messages are ready.
    pub(crate) fn new(common: Lane, ready: u64, messages: &Table<Message>) -> Self {
        let mut bands = Self::default();
        if ready > 0 {
            let visible = common.count_that(|n| is_ready(messages, n).is_some());
            let priority = limits::PRIORITY_USUAL;
            bands.rows.push(vec![KeyLane {
                priority,
                lane: common,
                ready,
                visible,
                left: 0,
                stamp: 0,
            }]);
            bands.join(0, priority);
        }
        bands
    }

    /// Back to what it was, if nothing but the usual lane is left.
    pub(crate) fn dissolve(&mut self) -> Option<Lane> {
        if self.others > 0 {
            return None;
        }
        let usual = self.rows.first_mut().and_then(Vec::pop);
        Some(usual.map(|usual| usual.lane).unwrap_or_default())
    }

    fn lane(&mut self, key: KeyId, priority: u8) -> Option<&mut KeyLane> {
        self.rows.get_mut(key as usize)?.iter_mut().find(|lane| lane.priority == priority)
    }

    /// One more message is ready, though maybe not visible.
    pub(crate) fn enter(&mut self, key: KeyId, priority: u8) {
        if let Some(lane) = self.lane(key, priority) {
            lane.ready += 1;
            return;
        }
        if self.rows.len() <= key as usize {
            self.rows.resize_with(key as usize + 1, Vec::new);
        }
        self.rows[key as usize].push(KeyLane { priority, ready: 1, ..KeyLane::default() });
        self.others += usize::from(is_other(key, priority));
    }

    /// One is ready no more: taken, or gone. The last one takes the lane along.
    pub(crate) fn leave(&mut self, key: KeyId, priority: u8, sequence: u64) {
        let Some(lane) = self.lane(key, priority) else { return };
        lane.ready -= 1;
        // What was taken has no name any more, and what was not visible has none yet.
        let is_visible = lane.lane.contains(sequence);
        lane.visible -= u64::from(is_visible && lane.visible > 0);
        if lane.visible == 0 {
            self.leave_ring(key, priority);
        }
        let row = &mut self.rows[key as usize];
        let lanes = row.len();
        row.retain(|lane| lane.priority != priority || lane.ready > 0);
        self.others -= usize::from(row.len() < lanes && is_other(key, priority));
    }

    /// A lane has nothing to give: it leaves its ring, and what names it has are of the past.
    fn leave_ring(&mut self, key: KeyId, priority: u8) {
        let Some(lane) = self.lane(key, priority) else { return };
        (lane.lane, lane.visible) = (Lane::default(), 0);
        if std::mem::take(&mut lane.stamp) != 0 {
            self.rings[priority as usize].live -= 1;
        }
    }

    /// A message has become visible.
    pub(crate) fn insert(&mut self, key: KeyId, priority: u8, sequence: u64, rests: bool) {
        let Some(lane) = self.lane(key, priority) else { return };
        lane.lane.insert(sequence);
        lane.visible += 1;
        if !rests {
            self.join(key, priority);
        }
    }

    /// Goes to the back of the ring, unless it is in it or has nothing to give (rule 1).
    fn join(&mut self, key: KeyId, priority: u8) {
        let stamp = self.last_stamp.wrapping_add(1).max(1);
        let Some(lane) = self.lane(key, priority) else { return };
        if lane.stamp != 0 || lane.visible == 0 {
            return;
        }
        (lane.stamp, lane.left) = (stamp, 0);
        self.last_stamp = stamp;
        let ring = &mut self.rings[priority as usize];
        ring.turns.push_back((key, stamp));
        ring.live += 1;
        if ring.turns.len() > 2 * ring.live + PAST_MIN {
            let rows = &self.rows;
            ring.turns.retain(|(key, stamp)| {
                rows.get(*key as usize).is_some_and(|row| {
                    row.iter().any(|l| l.priority == priority && l.stamp == *stamp)
                })
            });
        }
    }

    /// A key is over a limit: it leaves all rings.
    pub(crate) fn rest(&mut self, key: KeyId) {
        for lane in self.rows.get_mut(key as usize).into_iter().flatten() {
            if std::mem::take(&mut lane.stamp) != 0 {
                self.rings[lane.priority as usize].live -= 1;
            }
        }
    }

    /// A key is under its limits again: it comes back at the ends of the rings.
    pub(crate) fn wake(&mut self, key: KeyId) {
        for priority in 0..=limits::PRIORITY_MAX {
            self.join(key, priority);
        }
    }

    /// All rings anew, as after a restart: of each band the key comes first whose first message is
    /// the oldest.
    pub(crate) fn rebuild(&mut self, messages: &Table<Message>, rests: impl Fn(KeyId) -> bool) {
        let mut first = Vec::new();
        for (key, row) in (0..).zip(&mut self.rows) {
            for lane in row {
                (lane.stamp, lane.left) = (0, 0);
                let next = lane.lane.first_that(|sequence| is_ready(messages, sequence).is_some());
                first.extend(next.filter(|_| !rests(key)).map(|n| (n, key, lane.priority)));
            }
        }
        self.rings = <_>::default();
        first.sort_unstable();
        for (_, key, priority) in first {
            self.join(key, priority);
        }
    }

    /// The message whose turn it is, which [`Bands::pop`] takes out.
    pub(crate) fn pick(
        &mut self,
        messages: &Table<Message>,
        keys: &Keys,
        ageing_ms: Option<u64>,
        now: WallTime,
    ) -> Option<u64> {
        let mut best: Option<(u64, Reverse<u64>)> = None;
        for priority in (0..=limits::PRIORITY_MAX).rev() {
            if self.rings[priority as usize].live == 0 {
                continue;
            }
            let Some((key, sequence, since)) = self.head(priority, messages, keys) else {
                continue;
            };
            let age = ageing_ms.map_or(0, |ms| now.0.saturating_sub(since.0) / ms);
            let age = if cfg!(planted_bug = "age_worth_nothing") { 0 } else { age };
            // Of two with the same level the one that came first.
            let level = (age.saturating_add(priority.into()), Reverse(sequence));
            if best.is_none_or(|best| best < level) {
                best = Some(level);
                self.picked = (priority, key);
            }
            if ageing_ms.is_none() {
                break;
            }
        }
        best.map(|(_, Reverse(sequence))| sequence)
    }

    /// Key, number and age of the message a band would give. Names of those that left go.
    fn head(
        &mut self,
        priority: u8,
        messages: &Table<Message>,
        keys: &Keys,
    ) -> Option<(KeyId, u64, WallTime)> {
        loop {
            let (key, stamp) = *self.rings[priority as usize].turns.front()?;
            let Some(lane) = self.lane(key, priority).filter(|lane| lane.stamp == stamp) else {
                self.rings[priority as usize].turns.pop_front();
                continue;
            };
            if let Some(first) = lane.lane.first_that(|n| is_ready(messages, n).is_some()) {
                if lane.left == 0 {
                    lane.left = keys.weight(key);
                }
                return Some((key, first, is_ready(messages, first)?));
            }
            self.leave_ring(key, priority);
        }
    }

    /// Takes out what was picked last; if it is given to somebody, it is a part of the turn.
    pub(crate) fn pop(&mut self, is_given: bool) {
        let (priority, key) = self.picked;
        let Some(lane) = self.lane(key, priority) else { return };
        lane.lane.pop();
        lane.visible = lane.visible.saturating_sub(1);
        lane.left -= u32::from(is_given);
        if lane.visible == 0 {
            self.leave_ring(key, priority);
        } else if lane.left == 0 && !cfg!(planted_bug = "turns_never_end") {
            self.rings[priority as usize].turns.rotate_left(1);
        }
    }

    /// How many lanes of other keys are in the ring of a band, and so take turns with it.
    pub(crate) fn keys_beside(&self, key: KeyId, priority: u8) -> u64 {
        let row = self.rows.get(key as usize).into_iter().flatten();
        let own = row.filter(|lane| lane.priority == priority && lane.stamp != 0).count();
        (self.rings[priority as usize].live - own) as u64
    }
}

fn is_other(key: KeyId, priority: u8) -> bool {
    (key, priority) != (0, limits::PRIORITY_USUAL)
}

/// Since when a message is ready, if it is.
fn is_ready(messages: &Table<Message>, sequence: u64) -> Option<WallTime> {
    let message = messages.get(sequence)?;
    (message.standing.state == State::Ready).then_some(message.enqueued_at)
}
