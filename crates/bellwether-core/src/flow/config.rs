//! How a pump behaves.

use crate::chance::Chance;
use crate::name::LockToken;

/// How a pump behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowConfig {
    /// Handlers at once.
    pub concurrency: u32,
    /// Messages that may wait, locked, for a handler. With none a message is only taken for a free
    /// handler.
    pub prefetch: u32,
    /// Messages asked for at once.
    pub receive_max: u32,
    /// How long a receive waits for its first message.
    pub wait_ms: u64,
    /// How long the lock of a running handler, or of a waiting message, is kept by renewals; zero
    /// for never.
    pub renew_max_ms: u64,
    /// A handler that ends well completes its message.
    pub auto_settle: bool,
    /// How long a failed message stays away.
    pub retry: Retry,
    /// How long running handlers may go on after a stop before they are told to end.
    pub stop_grace_ms: u64,
    /// Chance: what spreads delays, different for every pump.
    pub seed: u64,
}

impl Default for FlowConfig {
    fn default() -> Self {
        Self {
            concurrency: 1,
            prefetch: 0,
            receive_max: 32,
            wait_ms: 30_000,
            renew_max_ms: 5 * 60 * 1000,
            auto_settle: true,
            retry: Retry::default(),
            stop_grace_ms: 30_000,
            seed: 0,
        }
    }
}

/// How long a failed message stays away: growing with its delivery count, because a bare abandon
/// burns all tries in the first second of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// After the first delivery; zero leaves it to the queue, always: at once, unless its settings
    /// say otherwise.
    pub base_ms: u64,
    /// After each further one so many times longer.
    pub factor: u32,
    /// Never longer.
    pub max_ms: u64,
    /// Shortened by chance by up to so many percent, so that what failed together does not come
    /// back together.
    pub jitter_percent: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self { base_ms: 1_000, factor: 2, max_ms: 5 * 60 * 1000, jitter_percent: 20 }
    }
}

impl Retry {
    /// The queue decides ([`crate::settings::Failures::retry`]).
    pub const BY_QUEUE: Self = Self { base_ms: 0, factor: 1, max_ms: 0, jitter_percent: 0 };

    /// The delay after a message's `deliveries`th delivery failed.
    pub fn delay_ms(&self, deliveries: u32, seed: u64, token: LockToken) -> u64 {
        let growth = u64::from(self.factor).saturating_pow(deliveries.saturating_sub(1));
        let ms = self.base_ms.saturating_mul(growth).min(self.max_ms);
        jittered(ms, u64::from(self.jitter_percent.min(100)), seed, token.to_u128())
    }
}

/// `ms`, less up to `percent` of it. The same seed and salt give the same answer.
pub(super) fn jittered(ms: u64, percent: u64, seed: u64, salt: u128) -> u64 {
    let spread_ms = ms / 100 * percent + ms % 100 * percent / 100;
    let high = Chance::new((salt >> 64) as u64).bits();
    let low = Chance::new(salt as u64).bits().rotate_left(32);
    ms - Chance::new(seed ^ high ^ low).below(spread_ms.saturating_add(1))
}
