//! Turns: priorities, keys, and what holds them back.
//!
//! 1. The ring holds a turn for each priority and key that has a ready message, in the order in
//!    which they came to have one. Whoever has had its turn goes to the end; whoever is over a
//!    limit is out of it, and comes to the end when it no longer is.
//! 2. Of each priority the first in the ring gives its message with the smallest number. Of these
//!    the one goes whose priority and age together are highest, and of equals the smallest number.

use bellwether_core::error::Refusal;
use bellwether_core::job::Failure;
use bellwether_core::limits;
use bellwether_core::message::State;
use bellwether_core::name::Key;
use bellwether_core::note::NoteState;
use bellwether_core::rank::Rank;
use bellwether_core::settings::{Order, Overflow, Rate};

use super::queues::{Message, Queue};
use super::{Event, Naive};

/// A priority and a key that take their turn.
#[derive(Clone)]
pub struct Turn {
    pub rank: Rank,
    /// Messages it has had of this turn.
    pub had: u32,
}

/// Hand-outs under a rate, each at its time: what is left of the tokens is worked out from them.
#[derive(Clone, Default)]
pub struct Spent {
    pub at: Vec<u64>,
}

impl Spent {
    /// Tokens at a time, in parts of a `per_ms`th.
    fn parts(&self, rate: Rate, now: u64) -> u64 {
        let (burst, each) = (u64::from(rate.messages), u64::from(rate.per_ms));
        let (mut parts, mut last) = (burst * each, 0);
        for at in &self.at {
            parts = (parts + (at - last) * burst).min(burst * each) - each;
            last = *at;
        }
        (parts + (now - last) * burst).min(burst * each)
    }

    fn next(&self, rate: Rate, now: u64) -> Option<u64> {
        let parts = self.parts(rate, now);
        (0..=u64::from(rate.per_ms))
            .find(|ms| parts + ms * u64::from(rate.messages) >= u64::from(rate.per_ms))
            .filter(|ms| *ms > 0)
            .map(|ms| now + ms)
    }
}

/// A key and what limits remember of it.
#[derive(Clone)]
pub struct KeyBook {
    pub key: Key,
    pub spent: Spent,
    /// No token until then, and the message that took the last.
    pub rests: Option<(u64, u64)>,
}

impl Queue {
    fn is_out(&self, rank: &Rank) -> bool {
        let Some(key) = &rank.key else { return false };
        let is_resting = self.keys.iter().any(|book| book.key == *key && book.rests.is_some());
        let held = |m: &&Message| {
            !m.dead && m.rank.key.as_ref() == Some(key) && matches!(m.state, State::Locked(_))
        };
        let in_flight = self.messages.iter().filter(held).count();
        let max = self.settings.order.key_in_flight_max;
        is_resting || max.is_some_and(|max| in_flight >= max as usize)
    }

    /// Looks who is in the ring and who is out of it. To be called after anything that may have
    /// changed that.
    pub fn settle_ring(&mut self) {
        let ring = std::mem::take(&mut self.ring);
        let stays = |turn: &Turn| self.gives(&turn.rank) && !self.is_out(&turn.rank);
        self.ring = ring.into_iter().filter(stays).collect();
        let was_out = std::mem::take(&mut self.out);
        self.out = self.keys_out();
        for key in was_out {
            if !self.out.contains(&key) {
                self.key_returns(&key);
            }
        }
    }

    fn keys_out(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.messages.iter().filter_map(|m| m.rank.key.clone()).collect();
        keys.extend(self.keys.iter().map(|book| book.key.clone()));
        keys.sort();
        keys.dedup();
        keys.retain(|key| self.is_out(&Rank { priority: 0, key: Some(key.clone()) }));
        keys
    }

    /// Whether it has a message to give.
    fn gives(&self, rank: &Rank) -> bool {
        let is = |m: &Message| !m.dead && m.rank == *rank && m.state == State::Ready && m.visible;
        self.messages.iter().any(is)
    }

    /// A message is visible: who has a message to give comes to the end of the ring.
    pub fn join_ring(&mut self, rank: &Rank) {
        let is_in = self.ring.iter().any(|turn| turn.rank == *rank);
        if !is_in && self.gives(rank) && !self.is_out(rank) {
            self.ring.push(Turn { rank: rank.clone(), had: 0 });
        }
    }

    /// A key may again: it comes to the end of the ring, of every priority.
    pub fn key_returns(&mut self, key: &Key) {
        for priority in 0..=limits::PRIORITY_MAX {
            self.join_ring(&Rank { priority, key: Some(key.clone()) });
        }
    }

    /// The ring from nothing: by the first message of each.
    pub fn ring_anew(&mut self) {
        self.ring.clear();
        self.out = self.keys_out();
        for m in self.by_number(false) {
            let rank = self.messages[m].rank.clone();
            if self.messages[m].state == State::Ready && self.messages[m].visible {
                self.join_ring(&rank);
            }
        }
    }

    pub fn order_changes(&mut self, old: &Order) {
        let new = &self.settings.order;
        if new.rate != old.rate {
            self.spent = Spent::default();
            self.paced_at = None;
        }
        let is_same = new.key_rate == old.key_rate
            && new.key_in_flight_max == old.key_in_flight_max
            && new.key_weights == old.key_weights;
        if !is_same {
            self.keys.clear();
            self.ring_anew();
        }
    }
}

impl Naive {
    /// The message whose turn it is, if there is one and it may go. What has expired goes.
    pub fn next_in_turn(&mut self, q: usize) -> Option<usize> {
        loop {
            let now = self.now.wall.0;
            let queue = &mut self.queues[q];
            let mut best: Option<(u64, u64)> = None;
            for priority in 0..=limits::PRIORITY_MAX {
                let Some(sequence) = queue.head(priority) else { continue };
                let m = queue.find(false, sequence).unwrap();
                let age = now.saturating_sub(queue.messages[m].enqueued_at.0);
                let gained = queue.settings.order.ageing_ms.map_or(0, |ms| age / ms);
                let level = gained + u64::from(priority);
                let is_better = best.is_none_or(|(other, number)| {
                    level > other || (level == other && sequence < number)
                });
                if is_better {
                    best = Some((level, sequence));
                }
            }
            let (_, sequence) = best?;
            let m = queue.find(false, sequence).unwrap();
            if queue.messages[m].expires_at > self.now.wall {
                return (!self.is_paced(q)).then_some(m);
            }
            self.expire(q, m);
        }
    }

    /// Whether the queue has no token; then it will be looked at again when it has.
    pub fn is_paced(&mut self, q: usize) -> bool {
        let queue = &mut self.queues[q];
        let Some(rate) = queue.settings.order.rate else { return false };
        let next = queue.spent.next(rate, self.now.boot.0);
        queue.paced_at = next.or(queue.paced_at);
        next.is_some()
    }

    /// A message is about to be handed out: it is a part of its turn, and takes its tokens.
    pub fn begin_delivery(&mut self, q: usize, m: usize) {
        let now = self.now.boot.0;
        let queue = &mut self.queues[q];
        let (rank, sequence) = (queue.messages[m].rank.clone(), queue.messages[m].sequence);
        let order = queue.settings.order.clone();
        if order.rate.is_some() {
            queue.spent.at.push(now);
        }
        if queue.settings.sessions {
            return;
        }
        let weight = rank.key.as_ref().map_or(1, |key| order.weight(key));
        if let Some(at) = queue.ring.iter().position(|turn| turn.rank == rank) {
            queue.ring[at].had += 1;
            if queue.ring[at].had >= weight {
                let mut turn = queue.ring.remove(at);
                turn.had = 0;
                queue.ring.push(turn);
            }
        }
        if let (Some(rate), Some(key)) = (order.key_rate, rank.key) {
            if !queue.keys.iter().any(|book| book.key == key) {
                let (key, spent) = (key.clone(), Spent::default());
                queue.keys.push(KeyBook { key, spent, rests: None });
            }
            let book = queue.keys.iter_mut().find(|book| book.key == key).unwrap();
            book.spent.at.push(now);
            book.rests = book.spent.next(rate, now).map(|until| (until, sequence));
        }
    }

    /// When queues and keys have a token again.
    pub fn pace_events(&self) -> impl Iterator<Item = (u64, Event)> {
        self.queues.iter().flat_map(|queue| {
            let id = queue.id;
            let keys = queue.keys.iter().filter_map(move |book| {
                let (until, number) = book.rests?;
                Some((until, Event::Key { queue: id, number }))
            });
            keys.chain(queue.paced_at.map(|at| (at, Event::Pace { queue: id })))
        })
    }

    pub fn key_wakes(&mut self, q: usize, number: u64) {
        let queue = &mut self.queues[q];
        let is_it = |book: &&mut KeyBook| book.rests.is_some_and(|(_, last)| last == number);
        let book = queue.keys.iter_mut().find(is_it).unwrap();
        book.rests = None;
        queue.settle_ring();
    }

    /// Whether anything goes at a rate: then time passes from one deadline to the next.
    pub fn has_rates(&self) -> bool {
        let is_at_rate = |order: &Order| order.rate.is_some() || order.key_rate.is_some();
        self.queues.iter().any(|queue| is_at_rate(&queue.settings.order))
    }

    /// Whether a send of so many finds room, or room is made for it.
    pub fn check_room(
        &self,
        q: usize,
        messages: &[bellwether_core::message::NewMessage],
    ) -> Result<(), Refusal> {
        let queue = &self.queues[q];
        let Some(max) = queue.settings.order.messages_max else { return Ok(()) };
        let over = (queue.live() + messages.len() as u64).saturating_sub(max);
        let has_room = match &queue.settings.order.overflow {
            _ if over == 0 => true,
            Overflow::Refuse => false,
            Overflow::DropOldest => {
                let ready = queue.messages.iter().filter(|m| !m.dead && m.state == State::Ready);
                over <= ready.count() as u64 && messages.len() as u64 <= max
            }
            Overflow::SpillTo(target) => self.queue_named(target).is_ok_and(|t| {
                let target = &self.queues[t];
                let bytes: u64 = messages.iter().map(|new| u64::from(new.content_bytes)).sum();
                let room = target.settings.order.messages_max.unwrap_or(u64::MAX);
                t != q
                    && target.settings.status.can_send()
                    && target.size() + bytes <= target.settings.size_bytes_max
                    && target.live() + over <= room
                    && messages.iter().all(|new| {
                        new.due.is_none_or(|due| due <= self.now.wall)
                            && (new.session.is_some() || !target.settings.sessions)
                            && new.content_bytes <= target.settings.message_bytes_max
                    })
            }),
        };
        if has_room { Ok(()) } else { Err(self.too_many(q)) }
    }

    pub fn too_many(&self, q: usize) -> Refusal {
        let queue = &self.queues[q];
        let messages_max = queue.settings.order.messages_max.unwrap();
        Refusal::QueueBusy { queue: queue.name.clone(), messages_max, retry_after_ms: 0 }
    }

    /// Drops the oldest that waits, if the queue is full and does that.
    /// Items wait for room: none is dropped or goes elsewhere as soon as it comes.
    pub fn check_items_room(&self, q: usize, items: u64) -> Result<(), Refusal> {
        let queue = &self.queues[q];
        let max = queue.settings.order.messages_max;
        if max.is_some_and(|max| queue.live() + items > max) {
            Err(self.too_many(q))
        } else {
            Ok(())
        }
    }

    pub fn shed_one(&mut self, q: usize) {
        let queue = &mut self.queues[q];
        let is_full = queue.settings.order.messages_max.is_some_and(|max| queue.live() >= max);
        if is_full && queue.settings.order.overflow == Overflow::DropOldest {
            let waits = |m: &usize| queue.messages[*m].state == State::Ready;
            let oldest = queue.by_number(false).into_iter().find(waits).unwrap();
            let message = queue.messages.remove(oldest);
            queue.totals.shed += 1;
            queue.settle_ring();
            self.left.push((message.content, NoteState::Gone));
            self.item_gone(&message, Failure::Removed);
            self.forget_sessions(q);
        }
    }
}

impl Queue {
    /// The number of the message a priority would give.
    fn head(&self, priority: u8) -> Option<u64> {
        let rank = &self.ring.iter().find(|turn| turn.rank.priority == priority)?.rank;
        let of = |m: &Message| m.rank == *rank && m.state == State::Ready && m.visible;
        let mut numbers = self.by_number(false).into_iter().map(|m| &self.messages[m]);
        numbers.find(|m| of(m)).map(|m| m.sequence)
    }

    /// Of those that are ready and not visible, the one that became so first.
    pub fn first_unseen(&self) -> Option<usize> {
        let unseen =
            |m: &usize| self.messages[*m].state == State::Ready && !self.messages[*m].visible;
        (0..self.messages.len()).filter(unseen).min_by_key(|m| self.messages[*m].stamp)
    }

    /// Messages, dead letters apart.
    pub fn live(&self) -> u64 {
        self.messages.iter().filter(|m| !m.dead).count() as u64
    }
}
