//! Random ranks, limits and overflows: few of each, so that they often meet.

use bellwether_core::name::Key;
use bellwether_core::rank::Rank;
use bellwether_core::settings::{Order, OrderPatch, Overflow, Rate};

use super::world::World;

const KEYS: &[&str] = &["k", "n", "o"];

impl World {
    /// Half of all messages have the usual rank; the others meet in few others.
    pub fn rank(&mut self) -> Rank {
        let key = self.maybe(3, Self::key);
        let priority = self.maybe(3, |w| w.pick(&[0, 3, 4, 5, 9, 9]).unwrap());
        let priority = if self.one_in(200) { Some(10) } else { priority };
        Rank { priority: priority.unwrap_or(4), key }
    }

    fn key(&mut self) -> Key {
        Key::new(self.pick(KEYS).unwrap()).unwrap()
    }

    fn rate(&mut self) -> Rate {
        let per_ms = self.pick(&[7, 50, 200]).unwrap();
        Rate { messages: 1 + self.chance.below(3) as u32, per_ms }
    }

    fn weights(&mut self) -> Vec<(Key, u32)> {
        let count = self.chance.below(3) as usize;
        let weighed = KEYS.iter().take(count).map(|key| Key::new(key).unwrap());
        weighed.map(|key| (key, 2 + self.chance.below(2) as u32)).collect()
    }

    fn overflow(&mut self) -> Overflow {
        match self.chance.below(3) {
            0 => Overflow::Refuse,
            1 => Overflow::DropOldest,
            _ => Overflow::SpillTo(self.queue()),
        }
    }

    pub fn order(&mut self) -> Order {
        Order {
            ageing_ms: if self.one_in(3) { None } else { Some(1 + self.chance.below(100)) },
            rate: self.maybe(12, Self::rate),
            key_rate: self.maybe(10, Self::rate),
            key_in_flight_max: self.maybe(4, |w| 1 + w.chance.below(2) as u32),
            key_weights: self.weights(),
            messages_max: self.maybe(5, |w| 1 + w.chance.below(6)),
            overflow: self.overflow(),
        }
    }

    pub fn order_patch(&mut self) -> OrderPatch {
        OrderPatch {
            ageing_ms: self.maybe(6, |w| w.maybe(2, |w| 1 + w.chance.below(100))),
            rate: self.maybe(8, |w| w.maybe(3, Self::rate)),
            key_rate: self.maybe(8, |w| w.maybe(3, Self::rate)),
            key_in_flight_max: self.maybe(6, |w| w.maybe(2, |w| 1 + w.chance.below(3) as u32)),
            key_weights: self.maybe(8, Self::weights),
            messages_max: self.maybe(6, |w| w.maybe(2, |w| 1 + w.chance.below(6))),
            overflow: self.maybe(6, Self::overflow),
        }
    }
}
