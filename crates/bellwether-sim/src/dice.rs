//! Chance with the shapes that a world needs: shares, ranges, long tails.

use bellwether_core::chance::Chance;

/// Chance from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Chance);

impl Dice {
    /// Dice that depend on nothing but `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        // Neighbouring seeds must not look alike from the first throw on.
        let mixed = chance.bits();
        Self(Chance::new(mixed))
    }

    /// Other dice, which these determine.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.0.bits())
    }

    /// 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `end`; zero if `end` is.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, share: u64) -> bool {
        self.0.below(100) < share
    }

    /// True in so many of a thousand cases.
    pub(crate) fn per_mille(&mut self, share: u64) -> bool {
        self.0.below(1000) < share
    }

    /// Mostly below `usual`, now and then several times as long, seldom twenty times.
    pub(crate) fn around(&mut self, usual: u64) -> u64 {
        match self.0.below(100) {
            0..80 => self.between(usual / 8, usual),
            80..98 => self.between(usual, usual.saturating_mul(4)),
            _ => self.between(usual, usual.saturating_mul(20)),
        }
    }

    /// One of them.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.0.below(from.len() as u64) as usize]
    }
}
