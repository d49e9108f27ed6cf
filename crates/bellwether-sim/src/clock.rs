//! A member's boot clock: it runs at a rate of its own and counts from a start of its own.

use bellwether_core::time::BootTime;

const MILLION: u128 = 1_000_000;

/// One machine's boot clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriftingClock {
    /// Microseconds it counts in a million true ones.
    pub rate_ppm: u64,
    /// What it showed when the world began.
    pub offset_ms: u64,
}

impl DriftingClock {
    /// What it shows.
    pub(crate) fn at(&self, true_us: u64) -> BootTime {
        let ticked = u128::from(true_us) * u128::from(self.rate_ppm) / MILLION / 1000;
        BootTime(self.offset_ms + ticked as u64)
    }

    /// The first true time at which it shows `boot`.
    pub(crate) fn when(&self, boot: BootTime) -> u64 {
        let ticks_us = u128::from(boot.0.saturating_sub(self.offset_ms)) * 1000;
        let true_us = (ticks_us * MILLION).div_ceil(u128::from(self.rate_ppm));
        u64::try_from(true_us).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_when_it_is_said_to_be() {
        for rate_ppm in [400_000, 900_001, 1_000_000, 1_099_999] {
            let clock = DriftingClock { rate_ppm, offset_ms: 77 };
            for boot in [77, 78, 1_000, 123_457] {
                let at = clock.when(BootTime(boot));
                assert!(clock.at(at) >= BootTime(boot));
                assert!(at == 0 || clock.at(at - 1) < BootTime(boot));
            }
        }
    }
}
