//! Schedules.

use super::wire::{Wire, wire_enum, wire_struct};
use super::{BadBytes, Reader};
use crate::schedule::{Missed, ScheduleInfo, ScheduleRecord, ScheduleSettings, SteerSchedule};

wire_struct!(ScheduleSettings { rule, zone, queue, session, missed });
wire_struct!(ScheduleRecord { name, settings, content, created_at, next, last, sent, skipped });
wire_struct!(ScheduleInfo { name, settings, created_at, next, last, sent, skipped });

wire_enum!(Missed, "what becomes of missed slots", { 1 => Latest, 2 => All { max }, 3 => Skip });

wire_enum!(SteerSchedule, "what is done to a schedule", {
    1 => Pause,
    2 => Resume,
    3 => RunNow,
    4 => Delete,
});
