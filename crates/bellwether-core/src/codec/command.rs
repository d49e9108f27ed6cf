//! Requests and commands.

use super::lease::get_slots;
use super::wire::{Wire, wire_enum, wire_struct};
use super::{BadBytes, Reader};
use crate::command::{
    Acquire, Command, Disposition, HeldSet, Imported, LeaseKind, Loss, NewContent, Receive,
    ReceiveMode, ReleaseReason, Request, Resting, Settlement,
};
use crate::fence::Fence;

/// Stands before a command that is asked under a fence. Far from the tags of the commands: it is
/// none, and stands before one of them, not before another fence.
const FENCED: u8 = 127;

wire_struct!(Fence { election, term });

impl Wire for Request {
    fn put(&self, out: &mut Vec<u8>) {
        super::encode_request_as(self, self.member, self.number, self.answered_below, out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let (member, number, answered_below) = (Wire::get(r)?, Wire::get(r)?, Wire::get(r)?);
        let fence = r.take_if(FENCED).then(|| Wire::get(r)).transpose()?;
        Ok(Self { member, number, answered_below, command: Wire::get(r)?, fence })
    }
}

/// What is asked, behind its fence.
pub(super) fn put_asked(request: &Request, out: &mut Vec<u8>) {
    if let Some(fence) = &request.fence {
        out.push(FENCED);
        fence.put(out);
    }
    request.command.put(out);
}

wire_enum!(Command, "a command", {
    1 => CreateQueue { queue, settings },
    2 => UpdateQueue { queue, patch },
    3 => DeleteQueue { queue },
    4 => Purge { from, before, max },
    5 => DescribeQueue { queue },
    6 => ListQueues { after, max },
    7 => Send { queue, messages },
    8 => Cancel { queue, sequences },
    9 => Receive(receive),
    10 => ReceiveDeferred { from, session, sequences, mode },
    11 => Peek { from, sequence, max, session },
    12 => Settle { from, settlements },
    13 => RenewLocks { from, tokens, lock_ms },
    14 => Redrive { queue, to, sequences, max },
    15 => AcceptSession { queue, session, wait_ms },
    16 => RenewSession { queue, token },
    17 => CloseSession { queue, token },
    18 => SetSessionState { queue, token, state },
    19 => GetSessionState { queue, token },
    20 => ListSessions { queue, after, max },
    21 => Join { id, metadata, ttl_ms },
    22 => Heartbeat { held },
    23 => Leave,
    24 => ListMembers,
    25 => Acquire(acquire),
    26 => RenewLease { lease, id },
    27 => ChangeLease { lease, id, to },
    28 => ReleaseLease { lease, id, successor },
    29 => BreakLease { lease, period_ms },
    30 => TouchLease { lease },
    31 => AskStepDown { lease },
    32 => DescribeLease { lease },
    33 => WatchLease { lease, seen, wait_ms },
    34 => ListLeases { after, max },
    35 => Tick,
    36 => DescribeSession { queue, session },
    37 => Explain { queue, sequence },
    38 => Import { to, messages },
    39 => Remove { from, sequences },
    40 => Backup { id, step },
    41 => LeaseHistory { lease, max },
    42 => Lost { how },
    50 => StepDown { lease, id, successor, reason },
    51 => HandOver { lease, to },
    52 => PauseLease { lease, keep_leader },
    53 => ResumeLease { lease },
    54 => AwaitTurn { lease, wait_ms },
    55 => MemberHealth { after, max },
    60 => CreateJob { job, settings, items, gather },
    61 => Dispatch { job, first, messages, items },
    62 => CompleteItem { from, token, result },
    63 => EndJob { job, how },
    64 => AwaitJob { job, wait_ms },
    65 => ListJobs { after, max },
    66 => ListItems { job, from, max, which },
    67 => CreateSchedule { schedule, settings, content },
    68 => SteerSchedule { schedule, how },
    69 => ListSchedules { from, max },
});

wire_struct!(Receive { from, session, max, mode, wait_ms, lock_ms });
wire_struct!(Settlement { token, disposition, overlay });
wire_struct!(NewContent { index, bytes });
wire_struct!(Imported {
    content,
    overlay,
    id_hash,
    session,
    enqueued_at,
    expires_at,
    state,
    deliveries,
    failures,
    crashes,
    releases,
    reason,
});
wire_enum!(Resting, "how a message rests", {
    1 => Ready,
    2 => Scheduled { due },
    3 => Delayed { due },
    4 => Deferred,
});
/// Set in the byte of a lease's kind where the number of slots stands behind it. So an ask for one
/// slot is written as ever.
const SLOTS: u8 = 16;

impl Wire for Acquire {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { lease, id, kind, ttl_ms, metadata, wait_ms, priority, slots } = self;
        lease.put(out);
        id.put(out);
        let at = out.len();
        kind.put(out);
        if *slots != 1 {
            out[at] |= SLOTS;
            slots.put(out);
        }
        ttl_ms.put(out);
        metadata.put(out);
        wait_ms.put(out);
        priority.put(out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let (lease, id) = (Wire::get(r)?, Wire::get(r)?);
        let (kind, slots) = get_kind(r)?;
        let (ttl_ms, metadata) = (Wire::get(r)?, Wire::get(r)?);
        let (wait_ms, priority) = (Wire::get(r)?, Wire::get(r)?);
        Ok(Self { lease, id, kind, ttl_ms, metadata, wait_ms, priority, slots })
    }
}

/// A kind, and how many slots.
fn get_kind(r: &mut Reader<'_>) -> Result<(LeaseKind, u32), BadBytes> {
    const EXPECTED: &str = "a kind of lease";
    let offset = r.position();
    let byte = r.byte(EXPECTED)?;
    let kind = match byte & !SLOTS {
        1 => LeaseKind::Bound,
        2 => LeaseKind::Standing,
        3 => LeaseKind::Connected,
        _ => return Err(BadBytes { expected: EXPECTED, offset }),
    };
    let slots = if byte & SLOTS == 0 { 1 } else { get_slots(r)? };
    Ok((kind, slots))
}

wire_enum!(ReceiveMode, "a way to receive", { 1 => PeekLock, 2 => ReceiveAndDelete });

wire_enum!(Disposition, "an end of a delivery", {
    1 => Complete,
    2 => Abandon { delay_ms },
    3 => Release,
    4 => Defer,
    5 => DeadLetter,
});

wire_enum!(LeaseKind, "a kind of lease", { 1 => Bound, 2 => Standing, 3 => Connected });

wire_enum!(Loss, "how a member was lost", { 1 => Died, 2 => Disconnected });

wire_enum!(ReleaseReason, "a reason to release", {
    1 => Asked,
    2 => Shutdown,
    3 => Finished,
    4 => Failed,
    5 => Stalled,
    6 => HandedOver,
});

impl Wire for HeldSet {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Same { count, digest } => {
                out.push(1);
                count.put(out);
                out.extend_from_slice(&digest.to_le_bytes());
            }
            Self::List(leases) => {
                out.push(2);
                leases.put(out);
            }
        }
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        const EXPECTED: &str = "a set of leases";
        let offset = r.position();
        match r.byte(EXPECTED)? {
            1 => {
                let count = u32::get(r)?;
                let digest = u64::from_le_bytes(r.array("a digest")?);
                Ok(Self::Same { count, digest })
            }
            2 => Wire::get(r).map(Self::List),
            _ => Err(BadBytes { expected: EXPECTED, offset }),
        }
    }
}
