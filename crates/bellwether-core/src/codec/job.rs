//! Jobs and their items.

use super::wire::{Wire, wire_enum, wire_struct};
use super::{BadBytes, Reader};
use crate::job::{
    EndJob, Ended, Ending, Failure, ItemInfo, ItemMessage, ItemState, JobInfo, JobRecord,
    JobSettings, OnFailure, Which,
};

wire_struct!(JobSettings { queue, gather_to, on_failure, deadline_ms, retention_ms });
wire_struct!(JobRecord { name, settings, gather, created_at, items, ended, gathered });
wire_struct!(JobInfo {
    name,
    settings,
    created_at,
    items,
    dispatched,
    next,
    done,
    failed,
    ended,
    gathered,
});
wire_struct!(Ended { how, at });
wire_struct!(ItemInfo { index, state, place, message });
wire_struct!(ItemMessage { queue, part, sequence, is_locked, deliveries });

wire_enum!(OnFailure, "what a failed item means", { 1 => Wait, 2 => Fail, 3 => Gaps });

wire_enum!(Ending, "an end of a job", {
    1 => Completed,
    2 => Gaps,
    3 => Failed,
    4 => Cancelled,
    5 => Overdue,
});

wire_enum!(EndJob, "a decision about a job", { 1 => Cancel, 2 => AcceptGaps, 3 => Forget });

wire_enum!(ItemState, "a state of an item", {
    1 => Pending { content },
    2 => Done { result },
    3 => Failed { content, why },
});

wire_enum!(Failure, "what became of an item", {
    1 => DeadLettered { reason },
    2 => Expired,
    3 => Removed,
    4 => QueueGone,
});

wire_enum!(Which, "which items", { 1 => All, 2 => Pending, 3 => Done, 4 => Failed });
