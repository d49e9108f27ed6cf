//! Refusals.

use super::wire::{Wire, wire_enum};
use super::{BadBytes, Reader};
use crate::error::{LeaseRefusal, Operation, Refusal};
use crate::right::Right;

wire_enum!(Refusal, "a refusal", {
    1 => QueueNotFound(queue),
    2 => QueueDisabled { queue, operation },
    3 => QueueFull { queue, size_bytes_max },
    4 => Busy { retry_after_ms },
    5 => DiskFull,
    6 => InvalidName { what, why },
    7 => InvalidValue { what, why },
    8 => TooLarge { what, bytes, bytes_max },
    9 => TooMany { what, max },
    10 => SessionRequired(queue),
    11 => SessionNotSupported(queue),
    12 => SessionLocked(session),
    13 => SessionLost(session),
    14 => LockLost(sequence),
    15 => MessageNotFound(sequence),
    16 => MemberGone,
    17 => Lease(refusal),
    18 => Forbidden { right, on },
    19 => Fenced { election, term, newest },
    60 => JobNotFound(job),
    61 => JobEnded(job),
    62 => JobOpen(job),
    63 => ScheduleNotFound(schedule),
});

wire_enum!(Right, "a right", { 1 => Listen, 2 => Send, 3 => Manage });

wire_enum!(Operation, "an operation", { 1 => Send, 2 => Receive });

wire_enum!(LeaseRefusal, "a refusal about a lease", {
    1 => Held { lease, term },
    2 => Breaking(lease),
    3 => Broken(lease),
    4 => BreakingCannotChange(lease),
    5 => IdMismatch(lease),
    6 => NotPresent(lease),
    7 => TermOver { lease, term },
    8 => NotGranted(lease),
    9 => Paused(lease),
    10 => NotInLine { lease, member },
    20 => OtherSlots { lease, slots, asked },
});
