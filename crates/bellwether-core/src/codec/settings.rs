//! Settings of queues, and changes to them.

use super::wire::{Wire, wire_enum, wire_struct};
use super::{BadBytes, Reader};
use crate::settings::{Durability, QueueSettings, SettingsPatch, Status};

wire_struct!(QueueSettings {
    lock_ms,
    deliveries_max,
    ttl_ms,
    dead_letter_expired,
    duplicate_window_ms,
    sessions,
    forward_to,
    forward_dead_letters_to,
    delete_idle_ms,
    status,
    size_bytes_max,
    message_bytes_max,
    durability,
});

wire_struct!(SettingsPatch {
    lock_ms,
    deliveries_max,
    ttl_ms,
    dead_letter_expired,
    duplicate_window_ms,
    forward_to,
    forward_dead_letters_to,
    delete_idle_ms,
    status,
    size_bytes_max,
    message_bytes_max,
    durability,
});

wire_enum!(Status, "a status", {
    1 => Active,
    2 => SendDisabled,
    3 => ReceiveDisabled,
    4 => Disabled,
});

wire_enum!(Durability, "a durability", { 1 => Flushed, 2 => Relaxed });
