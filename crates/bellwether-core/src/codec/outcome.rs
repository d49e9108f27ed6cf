//! Outcomes.

use super::wire::{Wire, wire_enum, wire_struct};
use super::{BadBytes, Reader};
use crate::backup::BackupStep;
use crate::name::SequenceNumber;
use crate::outcome::{
    Beat, Cause, Counts, EndedBy, Explanation, Holder, LeaseState, LeftAs, MemberHealth,
    MemberInfo, Outcome, QueueInfo, Sequences, SessionHold, SessionInfo, TermInfo, Totals,
};

wire_enum!(Outcome, "an outcome", {
    1 => Done,
    2 => QueueCreated { existed },
    3 => Queue(info),
    4 => Queues(infos),
    5 => Sent(sequences),
    6 => Count(count),
    7 => Received(views),
    8 => Peeked(views),
    9 => Settled { refused },
    10 => Renewed { lock_ms, refused },
    11 => Session(hold),
    12 => SessionState(content, place),
    13 => Sessions(sessions),
    14 => Joined(slot),
    15 => Beat(beat),
    16 => Members(members),
    17 => Granted { term, ttl_ms },
    18 => Breaking { remaining_ms },
    19 => Lease(info),
    20 => Leases(infos),
    21 => SessionInfo(info),
    22 => Explained(explanation),
    23 => Backup(step),
    24 => Terms(terms),
    30 => MemberHealth(members),
    31 => Turn { next },
    60 => JobCreated { existed },
    61 => Dispatched { sent },
    62 => Job(info),
    63 => Jobs(infos),
    64 => Items(items),
    65 => ScheduleCreated { existed },
    66 => Schedules(infos),
});

wire_struct!(TermInfo { term, kind, granted_at, holder, metadata, left_as });
wire_enum!(LeftAs, "what became of a term", {
    1 => Held,
    2 => Released,
    3 => Broken,
    4 => Ended { at, by },
});
wire_enum!(EndedBy, "what ended a term", {
    1 => Released { reason },
    2 => Goodbye,
    3 => Died,
    4 => RanOut,
    5 => Broken,
    6 => ChangedId,
    7 => Disconnected,
});

wire_enum!(BackupStep, "a step of a backup", {
    1 => State { frame, bytes },
    2 => Frames { numbers },
    3 => End { frame },
});

impl Wire for Sequences {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Run { first, count } => {
                out.push(1);
                first.put(out);
                count.put(out);
            }
            Self::List(list) => {
                out.push(2);
                list.put(out);
            }
        }
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        const EXPECTED: &str = "sequence numbers";
        let offset = r.position();
        let bad = BadBytes { expected: EXPECTED, offset };
        match r.byte(EXPECTED)? {
            1 => {
                let (first, count) = (SequenceNumber::get(r)?, u32::get(r)?);
                // A run past the last number there is could not be walked.
                first.0.checked_add(count.into()).ok_or(bad)?;
                Ok(Self::Run { first, count })
            }
            2 => Wire::get(r).map(Self::List),
            _ => Err(bad),
        }
    }
}

wire_struct!(SessionHold { token, lock_ms });
wire_struct!(SessionInfo { id, messages, hold, waits_for, state, place });
wire_struct!(Holder { member, remaining_ms });
wire_struct!(Explanation { part, causes });
wire_enum!(Cause, "what keeps a message", {
    1 => DeadLetter { reason },
    2 => Expired { at },
    3 => Scheduled { due },
    4 => Delayed { due },
    5 => Locked(holder),
    6 => Deferred,
    7 => Paused,
    8 => SessionHeld(holder),
    9 => SessionWaits { sequence },
    10 => Behind { messages },
});
wire_struct!(Beat { resync, lost, step_down });
wire_struct!(QueueInfo { name, settings, created_at, counts, totals });
wire_struct!(Counts { ready, locked, scheduled, deferred, dead_letters, size_bytes });
wire_struct!(Totals {
    sent,
    duplicates,
    completed,
    expired,
    purged,
    cancelled,
    forwarded,
    dead_lettered,
});
wire_struct!(MemberInfo { id, slot, metadata, joined_at, leases });
wire_struct!(MemberHealth { info, ttl_ms, silent_ms, waits_for });
wire_enum!(LeaseState, "a lease's state", {
    1 => Available,
    2 => Leased,
    3 => Expired,
    4 => Breaking,
    5 => Broken,
});
