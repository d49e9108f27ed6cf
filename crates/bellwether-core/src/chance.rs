//! Chance, from a seed: the same seed gives the same run.

/// A small generator (splitmix64). For jitter and for telling ids apart, not for secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// Chance that depends on nothing but `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end`; zero if `end` is.
    pub fn below(&mut self, end: u64) -> u64 {
        // Multiplying up spreads evenly enough for jitter, and needs no division by zero.
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// Between half of `ms` and `ms`: who started together drifts apart.
    pub fn jitter_ms(&mut self, ms: u64) -> u64 {
        ms / 2 + self.below(ms - ms / 2 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence_comes_out() {
        let mut chance = Chance::new(1_234_567);
        assert_eq!(chance.bits(), 6_457_827_717_110_365_317);
        assert_eq!(chance.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn jitter_stays_between_half_and_full() {
        let mut chance = Chance::new(7);
        assert_eq!((chance.below(0), chance.jitter_ms(0)), (0, 0));
        let jitters: Vec<u64> = (0..1000).map(|_| chance.jitter_ms(100)).collect();
        assert_eq!((jitters.iter().min(), jitters.iter().max()), (Some(&50), Some(&100)));
    }
}
