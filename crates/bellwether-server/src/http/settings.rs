//! A queue's settings as JSON.

use bellwether::core::name::QueueName;
use bellwether::{Durability, QueueSettings, SettingsPatch, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::maybe;
use super::failures::{FailureChange, FailureSettings};
use super::problem::{Problem, Told};
use crate::property::INTEGER_MAX;

/// How a queue behaves. What is left out has its default.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// How long a delivery holds its message.
    #[schema(minimum = 100, maximum = 604_800_000)]
    lock_ms: u32,
    /// After so many counted deliveries a message is a dead letter.
    #[schema(minimum = 1, maximum = 1_000_000)]
    deliveries_max: u32,
    /// What it does about deliveries that fail.
    failures: FailureSettings,
    /// Time-to-live of messages that name none, and the cut for those that do; null is for ever.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    ttl_ms: Option<u64>,
    /// Expired messages become dead letters instead of being dropped.
    dead_letter_expired: bool,
    /// Message ids seen within this window are not accepted again; null detects no duplicates, and
    /// that is fixed at creation.
    #[schema(minimum = 1, maximum = 604_800_000)]
    duplicate_window_ms: Option<u64>,
    /// Every message names a session and receivers accept sessions; fixed at creation.
    sessions: bool,
    /// Messages move on to this queue.
    forward_to: Option<String>,
    /// Dead letters move to this queue instead.
    forward_dead_letters_to: Option<String>,
    /// The queue is deleted after so long without use.
    #[schema(minimum = 1000, maximum = 9_007_199_254_740_991_u64)]
    delete_idle_ms: Option<u64>,
    /// What is allowed at the moment.
    status: StatusName,
    /// All contents of the queue together, dead letters included.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    size_bytes_max: u64,
    /// One message, properties and body together.
    #[schema(minimum = 1, maximum = 8_388_608)]
    message_bytes_max: u32,
    /// Whether a durable answer waits for the flush.
    durability: DurabilityName,
}

/// What a queue allows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StatusName {
    /// Everything.
    Active,
    /// No sending.
    SendDisabled,
    /// No receiving.
    ReceiveDisabled,
    /// Neither.
    Disabled,
}

/// When an acknowledgement is given.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DurabilityName {
    /// After the flush.
    Flushed,
    /// After the write; a power cut may lose the last moments.
    Relaxed,
}

impl From<Status> for StatusName {
    fn from(status: Status) -> Self {
        match status {
            Status::Active => Self::Active,
            Status::SendDisabled => Self::SendDisabled,
            Status::ReceiveDisabled => Self::ReceiveDisabled,
            Status::Disabled => Self::Disabled,
        }
    }
}

impl From<StatusName> for Status {
    fn from(status: StatusName) -> Self {
        match status {
            StatusName::Active => Self::Active,
            StatusName::SendDisabled => Self::SendDisabled,
            StatusName::ReceiveDisabled => Self::ReceiveDisabled,
            StatusName::Disabled => Self::Disabled,
        }
    }
}

impl From<Durability> for DurabilityName {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Flushed => Self::Flushed,
            Durability::Relaxed => Self::Relaxed,
        }
    }
}

impl From<DurabilityName> for Durability {
    fn from(durability: DurabilityName) -> Self {
        match durability {
            DurabilityName::Flushed => Self::Flushed,
            DurabilityName::Relaxed => Self::Relaxed,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        (&QueueSettings::default()).into()
    }
}

impl From<&QueueSettings> for Settings {
    fn from(settings: &QueueSettings) -> Self {
        let name = |queue: &Option<QueueName>| queue.as_ref().map(ToString::to_string);
        Self {
            lock_ms: settings.lock_ms,
            deliveries_max: settings.deliveries_max,
            failures: settings.failures.into(),
            ttl_ms: settings.ttl_ms,
            dead_letter_expired: settings.dead_letter_expired,
            duplicate_window_ms: settings.duplicate_window_ms,
            sessions: settings.sessions,
            forward_to: name(&settings.forward_to),
            forward_dead_letters_to: name(&settings.forward_dead_letters_to),
            delete_idle_ms: settings.delete_idle_ms,
            status: settings.status.into(),
            size_bytes_max: settings.size_bytes_max,
            message_bytes_max: settings.message_bytes_max,
            durability: settings.durability.into(),
        }
    }
}

/// A number that every JSON reader reads as it was written.
fn whole(setting: &'static str, value: u64) -> Told<u64> {
    if value > INTEGER_MAX {
        let problem = Problem::invalid(setting, "JSON numbers end at 2^53 - 1");
        return Err(problem.limit(INTEGER_MAX));
    }
    Ok(value)
}

fn target(queue: Option<&str>) -> Told<Option<QueueName>> {
    Ok(queue.map(QueueName::new).transpose()?)
}

impl Settings {
    pub(crate) fn into_settings(self) -> Told<QueueSettings> {
        let maybe_whole =
            |setting, value: Option<u64>| value.map(|value| whole(setting, value)).transpose();
        Ok(QueueSettings {
            lock_ms: self.lock_ms,
            deliveries_max: self.deliveries_max,
            failures: self.failures.into(),
            ttl_ms: maybe_whole("ttl_ms", self.ttl_ms)?,
            dead_letter_expired: self.dead_letter_expired,
            duplicate_window_ms: self.duplicate_window_ms,
            sessions: self.sessions,
            forward_to: target(self.forward_to.as_deref())?,
            forward_dead_letters_to: target(self.forward_dead_letters_to.as_deref())?,
            delete_idle_ms: maybe_whole("delete_idle_ms", self.delete_idle_ms)?,
            status: self.status.into(),
            size_bytes_max: whole("size_bytes_max", self.size_bytes_max)?,
            message_bytes_max: self.message_bytes_max,
            durability: self.durability.into(),
        })
    }
}

/// Changes to a queue's settings: what is left out stays, null clears.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::option_option, reason = "outer: whether to change; inner: the setting itself")]
pub(crate) struct SettingsChange {
    #[schema(minimum = 100, maximum = 604_800_000)]
    lock_ms: Option<u32>,
    #[schema(minimum = 1, maximum = 1_000_000)]
    deliveries_max: Option<u32>,
    failures: Option<FailureChange>,
    #[serde(deserialize_with = "maybe")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    ttl_ms: Option<Option<u64>>,
    dead_letter_expired: Option<bool>,
    /// A window can be changed, not switched on or off.
    #[schema(minimum = 1, maximum = 604_800_000)]
    duplicate_window_ms: Option<u64>,
    #[serde(deserialize_with = "maybe")]
    #[schema(value_type = Option<String>)]
    forward_to: Option<Option<String>>,
    #[serde(deserialize_with = "maybe")]
    #[schema(value_type = Option<String>)]
    forward_dead_letters_to: Option<Option<String>>,
    #[serde(deserialize_with = "maybe")]
    #[schema(value_type = Option<u64>, minimum = 1000, maximum = 9_007_199_254_740_991_u64)]
    delete_idle_ms: Option<Option<u64>>,
    status: Option<StatusName>,
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    size_bytes_max: Option<u64>,
    #[schema(minimum = 1, maximum = 8_388_608)]
    message_bytes_max: Option<u32>,
    durability: Option<DurabilityName>,
}

impl SettingsChange {
    pub(crate) fn into_patch(self) -> Told<SettingsPatch> {
        if let Some(value) = self.size_bytes_max {
            whole("size_bytes_max", value)?;
        }
        for (setting, value) in [("ttl_ms", self.ttl_ms), ("delete_idle_ms", self.delete_idle_ms)] {
            if let Some(Some(value)) = value {
                whole(setting, value)?;
            }
        }
        let to = |change: Option<Option<String>>| {
            change.map(|queue| target(queue.as_deref())).transpose()
        };
        Ok(SettingsPatch {
            lock_ms: self.lock_ms,
            deliveries_max: self.deliveries_max,
            failures: self.failures.unwrap_or_default().into(),
            ttl_ms: self.ttl_ms,
            dead_letter_expired: self.dead_letter_expired,
            duplicate_window_ms: self.duplicate_window_ms,
            forward_to: to(self.forward_to)?,
            forward_dead_letters_to: to(self.forward_dead_letters_to)?,
            delete_idle_ms: self.delete_idle_ms,
            status: self.status.map(Into::into),
            size_bytes_max: self.size_bytes_max,
            message_bytes_max: self.message_bytes_max,
            durability: self.durability.map(Into::into),
        })
    }
}
