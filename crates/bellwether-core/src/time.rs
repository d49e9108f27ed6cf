//! The two times, never mixed.
//!
//! * [`WallTime`] is what people mean by "at nine o'clock": schedules and time-to-live. It may jump.
//! * [`BootTime`] counts from the machine's start, suspend included: locks and leases. It never
//!   jumps, and it means nothing to another machine or after a restart, so it is never written
//!   down; what is written down is a duration.
//!
//! Both count milliseconds. A rule gets both in one [`Now`], stamped once by the engine.

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(pub u64);

/// Milliseconds since the machine was started, suspend included (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(pub u64);

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For schedules and time-to-live.
    pub wall: WallTime,
    /// For locks and leases.
    pub boot: BootTime,
}

impl WallTime {
    /// Later than any time that will come.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time `ms` later; saturates at [`WallTime::NEVER`].
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

impl BootTime {
    /// Later than any time that will come.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time `ms` later; saturates at [`BootTime::NEVER`].
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// How long until `later`; zero if it has passed.
    pub const fn ms_until(self, later: Self) -> u64 {
        later.0.saturating_sub(self.0)
    }
}

impl Now {
    /// A reading for tests and simulations.
    pub const fn new(wall_ms: u64, boot_ms: u64) -> Self {
        Self { wall: WallTime(wall_ms), boot: BootTime(boot_ms) }
    }

    /// Both clocks moved on by `ms`.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self { wall: self.wall.plus_ms(ms), boot: self.boot.plus_ms(ms) }
    }
}
