//! A queue's settings, their defaults and the profiles that narrow them.

use crate::error::Refusal;
use crate::limits;
use crate::name::QueueName;

mod failures;

pub use failures::{Backoff, Failures, FailuresPatch, OutagePolicy};

/// How a queue behaves. Fixed at creation: `sessions`, `duplicate_window_ms` on or off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// How long a delivery holds its message.
    pub lock_ms: u32,
    /// After so many counted deliveries a message is a dead letter.
    pub deliveries_max: u32,
    /// What it does about deliveries that fail.
    pub failures: Failures,
    /// Time-to-live of messages that name none, and the cut for those that do.
    pub ttl_ms: Option<u64>,
    /// Expired messages become dead letters instead of being dropped.
    pub dead_letter_expired: bool,
    /// Message ids seen within this window are not accepted again.
    pub duplicate_window_ms: Option<u64>,
    /// Every message names a session and receivers accept sessions.
    pub sessions: bool,
    /// Messages move on to this queue.
    pub forward_to: Option<QueueName>,
    /// Dead letters move to this queue instead.
    pub forward_dead_letters_to: Option<QueueName>,
    /// The queue is deleted after so long without use.
    pub delete_idle_ms: Option<u64>,
    /// What is allowed at the moment.
    pub status: Status,
    /// All contents of the queue together, dead letters included.
    pub size_bytes_max: u64,
    /// One message, properties and body together.
    pub message_bytes_max: u32,
    /// Whether a durable answer waits for the flush.
    pub durability: Durability,
}

/// What a queue allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Everything.
    Active,
    /// No sending.
    SendDisabled,
    /// No receiving.
    ReceiveDisabled,
    /// Neither.
    Disabled,
}

impl Status {
    /// Whether sending is allowed.
    pub fn can_send(self) -> bool {
        matches!(self, Self::Active | Self::ReceiveDisabled)
    }

    /// Whether receiving is allowed.
    pub fn can_receive(self) -> bool {
        matches!(self, Self::Active | Self::SendDisabled)
    }
}

/// When an acknowledgement is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After the flush.
    Flushed,
    /// After the write; a power cut may lose the last moments.
    Relaxed,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            lock_ms: 60_000,
            deliveries_max: 10,
            failures: Failures::default(),
            ttl_ms: None,
            dead_letter_expired: false,
            duplicate_window_ms: None,
            sessions: false,
            forward_to: None,
            forward_dead_letters_to: None,
            delete_idle_ms: None,
            status: Status::Active,
            size_bytes_max: 80 * 1024 * 1024 * 1024,
            message_bytes_max: limits::CONTENT_BYTES_MAX,
            durability: Durability::Flushed,
        }
    }
}

impl QueueSettings {
    /// Azure Service Bus's defaults (standard tier), for its doors.
    pub fn azure() -> Self {
        Self {
            size_bytes_max: 1024 * 1024 * 1024,
            message_bytes_max: 256 * 1024,
            failures: Failures::azure(),
            ..Self::default()
        }
    }

    /// Checks every value against the core's wide limits.
    pub fn check(&self) -> Result<(), Refusal> {
        let between = |what, value: u64, min: u64, max: u64| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(invalid(what, format!("{value} is not between {min} and {max}")))
            }
        };
        between(
            "lock_ms",
            self.lock_ms.into(),
            limits::LOCK_MS_MIN.into(),
            limits::LOCK_MS_MAX.into(),
        )?;
        between("deliveries_max", self.deliveries_max.into(), 1, 1_000_000)?;
        self.failures.check()?;
        between("size_bytes_max", self.size_bytes_max, 1, u64::MAX)?;
        between(
            "message_bytes_max",
            self.message_bytes_max.into(),
            1,
            limits::CONTENT_BYTES_MAX.into(),
        )?;
        if let Some(ms) = self.ttl_ms {
            between("ttl_ms", ms, 1, u64::MAX / 4)?;
        }
        if let Some(ms) = self.duplicate_window_ms {
            between("duplicate_window_ms", ms, 1, 7 * 24 * 3600 * 1000)?;
        }
        if let Some(ms) = self.delete_idle_ms {
            between("delete_idle_ms", ms, 1000, u64::MAX / 4)?;
        }
        Ok(())
    }

    /// Checks the narrower limits of Azure Service Bus on top.
    pub fn check_azure(&self) -> Result<(), Refusal> {
        self.check()?;
        if !(5_000..=300_000).contains(&self.lock_ms) {
            return Err(invalid("lock_ms", "Azure allows 5 s to 5 min".into()));
        }
        if self.duplicate_window_ms.is_some_and(|ms| ms < 20_000) {
            return Err(invalid("duplicate_window_ms", "Azure allows 20 s to 7 days".into()));
        }
        if self.delete_idle_ms.is_some_and(|ms| ms < 300_000) {
            return Err(invalid("delete_idle_ms", "Azure allows 5 min and more".into()));
        }
        Ok(())
    }
}

fn invalid(what: &'static str, why: String) -> Refusal {
    Refusal::InvalidValue { what, why }
}

/// Changes to a queue's settings; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::option_option, reason = "outer: whether to change; inner: the setting itself")]
pub struct SettingsPatch {
    /// See [`QueueSettings::lock_ms`].
    pub lock_ms: Option<u32>,
    /// See [`QueueSettings::deliveries_max`].
    pub deliveries_max: Option<u32>,
    /// See [`QueueSettings::failures`].
    pub failures: FailuresPatch,
    /// See [`QueueSettings::ttl_ms`].
    pub ttl_ms: Option<Option<u64>>,
    /// See [`QueueSettings::dead_letter_expired`].
    pub dead_letter_expired: Option<bool>,
    /// See [`QueueSettings::duplicate_window_ms`]; a window can be changed, not switched.
    pub duplicate_window_ms: Option<u64>,
    /// See [`QueueSettings::forward_to`].
    pub forward_to: Option<Option<QueueName>>,
    /// See [`QueueSettings::forward_dead_letters_to`].
    pub forward_dead_letters_to: Option<Option<QueueName>>,
    /// See [`QueueSettings::delete_idle_ms`].
    pub delete_idle_ms: Option<Option<u64>>,
    /// See [`QueueSettings::status`].
    pub status: Option<Status>,
    /// See [`QueueSettings::size_bytes_max`].
    pub size_bytes_max: Option<u64>,
    /// See [`QueueSettings::message_bytes_max`].
    pub message_bytes_max: Option<u32>,
    /// See [`QueueSettings::durability`].
    pub durability: Option<Durability>,
}

impl SettingsPatch {
    /// The settings after the change, or why it cannot be made.
    pub fn apply(&self, old: &QueueSettings) -> Result<QueueSettings, Refusal> {
        if self.duplicate_window_ms.is_some() && old.duplicate_window_ms.is_none() {
            return Err(invalid(
                "duplicate_window_ms",
                "duplicate detection is switched on at creation only".into(),
            ));
        }
        let new = QueueSettings {
            lock_ms: self.lock_ms.unwrap_or(old.lock_ms),
            deliveries_max: self.deliveries_max.unwrap_or(old.deliveries_max),
            failures: self.failures.apply(old.failures)?,
            ttl_ms: self.ttl_ms.unwrap_or(old.ttl_ms),
            dead_letter_expired: self.dead_letter_expired.unwrap_or(old.dead_letter_expired),
            duplicate_window_ms: self.duplicate_window_ms.or(old.duplicate_window_ms),
            sessions: old.sessions,
            forward_to: self.forward_to.clone().unwrap_or_else(|| old.forward_to.clone()),
            forward_dead_letters_to: self
                .forward_dead_letters_to
                .clone()
                .unwrap_or_else(|| old.forward_dead_letters_to.clone()),
            delete_idle_ms: self.delete_idle_ms.unwrap_or(old.delete_idle_ms),
            status: self.status.unwrap_or(old.status),
            size_bytes_max: self.size_bytes_max.unwrap_or(old.size_bytes_max),
            message_bytes_max: self.message_bytes_max.unwrap_or(old.message_bytes_max),
            durability: self.durability.unwrap_or(old.durability),
        };
        new.check()?;
        Ok(new)
    }
}
