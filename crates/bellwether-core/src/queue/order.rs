//! Whose turn it is in one queue, and what holds it back.

use std::cmp::Reverse;

use crate::bucket::Bucket;
use crate::keys::{KeyId, Keys, Rest};
use crate::limits;
use crate::message::{Message, State};
use crate::name::{At, Part, SequenceNumber};
use crate::outcome::Cause;
use crate::ready::LaneId;
use crate::settings::Order;
use crate::time::{BootTime, Now};

use super::Queue;

/// Departures are counted for so long and as long before, to say how fast messages leave.
const METER_MS: u64 = 10_000;

/// How fast messages leave, for whoever asks when there will be room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    since: BootTime,
    left: u64,
    left_before: u64,
}

impl Meter {
    /// One has left.
    pub(crate) fn count(&mut self, now: BootTime) {
        self.turn(now);
        self.left += 1;
    }

    fn turn(&mut self, now: BootTime) {
        let ms = self.since.ms_until(now);
        if ms >= METER_MS {
            self.left_before = if ms < 2 * METER_MS { self.left } else { 0 };
            (self.since, self.left) = (now, 0);
        }
    }

    /// In how long about so many will have left, if they leave as they did lately.
    pub(crate) fn estimate_ms(mut self, count: u64, now: BootTime) -> u64 {
        const LEAST: u64 = 10;
        const MOST: u64 = 60_000;
        self.turn(now);
        let left = self.left + self.left_before;
        if left == 0 {
            return MOST;
        }
        let ms = self.since.ms_until(now) + if self.left_before > 0 { METER_MS } else { 0 };
        (count.saturating_mul(ms.max(1)) / left).clamp(LEAST, MOST)
    }
}

impl Queue {
    /// The message whose turn it is in a lane. It may have left in the meantime.
    #[inline]
    pub(crate) fn next_ready(&mut self, part: Part, lane: LaneId, now: Now) -> Option<u64> {
        let Self { main, keys, settings, .. } = self;
        match &mut main.ready.bands {
            Some(bands) if part == Part::Main && lane == 0 => {
                bands.pick(&main.messages, keys, settings.order.ageing_ms, now.wall)
            }
            _ => self.shelf(part).ready.first(lane),
        }
    }

    /// Takes that message out of its lane, given to somebody or not.
    #[inline]
    pub(crate) fn pop_ready(&mut self, part: Part, lane: LaneId, is_given: bool) {
        let ready = &mut self.shelf_mut(part).ready;
        match &mut ready.bands {
            Some(bands) if lane == 0 => bands.pop(is_given),
            _ => {
                ready.pop(lane);
            }
        }
    }

    /// Puts a ready message into its lane, which it returns.
    pub(crate) fn show(&mut self, at: At, message: &Message) -> LaneId {
        let lane = self.lane(at.part, message);
        let Self { main, keys, settings, .. } = self;
        match &mut main.ready.bands {
            Some(bands) if at.part == Part::Main && lane == 0 => {
                let (_, key, priority) = keys.read(message.mark);
                let rests = keys.rests(key, &settings.order);
                bands.insert(key, priority, at.sequence.0, rests);
            }
            _ => self.shelf_mut(at.part).ready.insert(lane, at.sequence.0),
        }
        lane
    }

    /// Whether a message takes part in the turns: only then is there anything to keep.
    #[inline]
    fn takes_turns(&self, at: At, message: &Message) -> bool {
        (Keys::is_ranked(message.mark) || self.main.ready.bands.is_some())
            && at.part == Part::Main
            && !self.settings.sessions
    }

    /// A message has entered a state.
    #[inline]
    pub(super) fn enter_turns(&mut self, at: At, message: &Message) {
        if !self.takes_turns(at, message) {
            return;
        }
        let (_, key, priority) = self.keys.read(message.mark);
        match message.standing.state {
            State::Ready => {
                let before = self.main.tally.ready - 1;
                self.main.ready.divide(before, &self.main.messages).enter(key, priority);
            }
            State::Locked(_) if self.keys.count_in_flight(key, true, &self.settings.order) => {
                if let Some(bands) = &mut self.main.ready.bands {
                    bands.rest(key);
                }
            }
            _ => {}
        }
    }

    /// A message leaves a state. True if its key was held back by that.
    #[inline]
    pub(super) fn leave_turns(&mut self, at: At, message: &Message) -> bool {
        if !self.takes_turns(at, message) {
            return false;
        }
        let (_, key, priority) = self.keys.read(message.mark);
        match message.standing.state {
            State::Ready => {
                if let Some(bands) = &mut self.main.ready.bands {
                    bands.leave(key, priority, at.sequence.0);
                    self.main.ready.unite();
                }
                false
            }
            State::Locked(_) if self.keys.count_in_flight(key, false, &self.settings.order) => {
                #[cfg(not(planted_bug = "key_never_wakes"))]
                if let Some(bands) = &mut self.main.ready.bands {
                    bands.wake(key);
                }
                true
            }
            _ => false,
        }
    }

    /// When the queue gives out the next message; `None` if it may now.
    #[inline]
    pub(crate) fn paced_until(&mut self, now: Now) -> Option<BootTime> {
        let rate = self.settings.order.rate.filter(|_| !cfg!(planted_bug = "rate_ignored"))?;
        self.bucket.get_or_insert_with(|| Bucket::new(rate, now.boot)).next(rate, now.boot)
    }

    /// A message was handed out. Returns its key and when that has a token again, if it has none
    /// left.
    #[inline]
    pub(crate) fn charge(&mut self, now: Now, at: At, message: &Message) -> Option<(KeyId, Rest)> {
        let Order { rate, key_rate, .. } = self.settings.order;
        if let Some(rate) = rate {
            self.bucket.get_or_insert_with(|| Bucket::new(rate, now.boot)).take(rate, now.boot);
        }
        let key_rate = key_rate.filter(|_| self.takes_turns(at, message))?;
        let (_, key, _) = self.keys.read(message.mark);
        let rest = self.keys.charge(key, key_rate, at.sequence.0, now.boot)?;
        if let Some(bands) = &mut self.main.ready.bands {
            bands.rest(key);
        }
        Some((key, rest))
    }

    /// A moment of a key has come. True if it has a token again.
    pub(crate) fn wake_key(&mut self, key: KeyId, rest: Rest) -> bool {
        let is_awake = self.keys.wake(key, rest) && !self.keys.rests(key, &self.settings.order);
        if is_awake && let Some(bands) = &mut self.main.ready.bands {
            bands.wake(key);
        }
        is_awake
    }

    /// The settings are others than they were: limits begin anew, and all keys take their places
    /// again.
    pub(crate) fn reorder(&mut self, old: &Order) {
        let Self { main, keys, settings, .. } = self;
        let new = &settings.order;
        if new.rate != old.rate {
            self.bucket = None;
            self.paced_at = None;
        }
        let of_keys =
            |order: &Order| (order.key_rate, order.key_in_flight_max, order.key_weights.clone());
        if of_keys(new) != of_keys(old) {
            keys.reset(new);
            if let Some(bands) = &mut main.ready.bands {
                bands.rebuild(&main.messages, |key| keys.rests(key, new));
            }
        }
    }

    /// Key and priority a message is given out by; the same for all where they do not count.
    pub(crate) fn turn_of(&self, part: Part, message: &Message) -> (KeyId, u8) {
        if part == Part::Dead || self.settings.sessions {
            return (0, 0);
        }
        let (_, key, priority) = self.keys.read(message.mark);
        (key, priority)
    }

    /// What keeps a ready message by its rank, or by limits.
    pub(crate) fn explain_turn(
        &self,
        now: Now,
        sequence: SequenceNumber,
        message: &Message,
        causes: &mut Vec<Cause>,
    ) {
        let order = &self.settings.order;
        let at = |until: BootTime| now.wall.plus_ms(now.boot.ms_until(until));
        let paced = order.rate.zip(self.bucket);
        let paced = paced.and_then(|(rate, mut bucket)| bucket.next(rate, now.boot));
        causes.extend(paced.map(|until| Cause::RateLimited { until: at(until) }));
        let (key, priority) = self.turn_of(Part::Main, message);
        if self.settings.sessions {
            return;
        }
        let rests = self.keys.rests_until(key);
        causes.extend(rests.map(|until| Cause::KeyRateLimited { until: at(until) }));
        let in_flight = self.keys.in_flight(key);
        if order.key_in_flight_max.is_some_and(|max| in_flight >= max) {
            causes.push(Cause::KeyAtLimit { in_flight });
        }
        let level = |sequence, message: &Message| {
            let age = now.wall.0.saturating_sub(message.enqueued_at.0);
            let (_, priority) = self.turn_of(Part::Main, message);
            (order.ageing_ms.map_or(0, |ms| age / ms) + u64::from(priority), Reverse(sequence))
        };
        let own = level(sequence.0, message);
        let looked_at = self.main.messages.range(0).take(limits::EXPLAIN_MESSAGES_MAX);
        let higher = looked_at.filter(|(n, other)| {
            other.standing.state == State::Ready
                && self.turn_of(Part::Main, other).1 != priority
                && level(*n, other) > own
        });
        let messages = higher.count() as u64;
        if messages > 0 {
            causes.push(Cause::BehindPriority { messages });
        }
        let keys = self.main.ready.bands.as_ref().map_or(0, |b| b.keys_beside(key, priority));
        if keys > 0 {
            causes.push(Cause::TakesTurns { keys });
        }
    }

    /// How many messages there are, dead letters apart.
    pub(crate) fn messages_in(&self) -> u64 {
        self.main.messages.len() as u64
    }

    /// Whether so many more are too many.
    pub(crate) fn is_crowded_by(&self, more: u64) -> bool {
        self.settings.order.messages_max.is_some_and(|max| self.messages_in() + more > max)
    }
}
