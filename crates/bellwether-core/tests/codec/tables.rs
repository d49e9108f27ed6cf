//! Random values of every struct and enum.
//!
//! The tables name every variant and field once more: one that is added to a type and not here
//! does not compile.

use super::random::{Random, Rng};
use bellwether_core::backup::BackupStep;
use bellwether_core::change::{self, Change, Departure, KeptOutcome};
use bellwether_core::command::{
    Acquire, Command, Disposition, HeldSet, Imported, LeaseKind, Loss, NewContent, Receive,
    ReceiveMode, ReleaseReason, Request, Resting, Settlement,
};
use bellwether_core::error::{LeaseRefusal, Operation, Refusal};
use bellwether_core::fence::Fence;
use bellwether_core::job::{
    EndJob, Ended, Ending, Failure, ItemInfo, ItemMessage, ItemState, JobInfo, JobRecord,
    JobSettings, OnFailure, Which,
};
use bellwether_core::lease::{self, Lease};
use bellwether_core::message::{Lock, Message, MessageView, NewMessage, Reason, State};
use bellwether_core::name::{At, LockToken, Part, QueuePath, SessionToken};
use bellwether_core::outcome::{
    Beat, Cause, Counts, EndedBy, Explanation, Holder, HolderInfo, LeaseInfo, LeaseState, LeftAs,
    MemberHealth, MemberInfo, Outcome, QueueInfo, SessionHold, SessionInfo, TermInfo, Totals,
};
use bellwether_core::right::Right;
use bellwether_core::schedule::{
    Missed, ScheduleInfo, ScheduleRecord, ScheduleSettings, SteerSchedule,
};
use bellwether_core::settings::{Durability, QueueSettings, SettingsPatch, Status};

macro_rules! random_struct {
    ($name:ty { $($field:ident),+ $(,)? }) => {
        impl Random for $name {
            fn variant(_: usize, rng: &mut Rng) -> Self {
                Self { $($field: Random::random(rng)),+ }
            }
        }
    };
}

macro_rules! random_enum {
    ($name:ty {
        $($variant:ident $({ $($field:ident),+ $(,)? })? $(( $($inner:ident),+ ))?),+ $(,)?
    }) => {
        impl Random for $name {
            const VARIANTS: usize = [$(stringify!($variant)),+].len();

            fn variant(variant: usize, rng: &mut Rng) -> Self {
                // Whatever is missing in the table is missing in this match.
                let _ = |value: &Self| match value {
                    $(Self::$variant { .. } => {})+
                };
                let makers: [fn(&mut Rng) -> Self; Self::VARIANTS] = [$(|_rng| {
                    $($(let $field = Random::random(_rng);)+)?
                    $($(let $inner = Random::random(_rng);)+)?
                    Self::$variant $({ $($field),+ })? $(( $($inner),+ ))?
                }),+];
                makers[variant](rng)
            }
        }
    };
}

random_enum!(Change {
    Opened { incarnation },
    Queue { id, name, settings, created_at },
    QueueGone { id },
    QueueTotals { id, as_of, next, totals },
    Content { id, index, len },
    ContentAt { id, place },
    Message { at, message, session, arrived },
    Standing { at, standing },
    Gone { at, why },
    Duplicate { queue },
    Seen { queue, id_hash, at },
    Session { queue, session, number, hold, state },
    Member { slot, id, metadata, ttl_ms, joined_at },
    MemberGone { slot, forgotten },
    Kept { member, number, answered_below, outcome },
    Lease { name, slot, lease },
    TermsFrom { term },
    TermEnded { name, term, at, by },
    Job { id, record },
    JobGone { id },
    Items { job, first, count, state },
    Schedule { record },
    ScheduleGone { name },
});
random_struct!(change::Hold { member, lock_ms, incarnation });
random_enum!(Departure { Completed, Expired, Purged, Cancelled, Forwarded, DeadLettered, Moved });
random_enum!(KeptOutcome { Plain(outcome), Deliveries { queue, part, tokens } });

random_struct!(Lease {
    term,
    hold,
    kind,
    ttl_ms,
    member,
    metadata,
    granted_at,
    version,
    step_down_asked,
    successor,
    paused,
    slots,
});
random_enum!(lease::Hold { Free, Held { id, renewed_at }, Broken { id, until } });

random_struct!(LockToken { sequence, number, incarnation });
random_struct!(SessionToken { session, number, incarnation });
random_struct!(At { queue, part, sequence });
random_struct!(QueuePath { queue, part });
random_enum!(Part { Main, Dead });

random_struct!(Message { content, enqueued_at, expires_at, origin, session, source, standing });
random_enum!(State { Ready, Scheduled { due }, Delayed { due }, Locked(lock), Deferred });
random_struct!(Lock { until, lock_ms, member, incarnation, deferred });
random_enum!(Reason {
    None,
    Application,
    MaxDeliveryCountExceeded,
    TtlExpired,
    MaxTransferHopCountExceeded,
    ForwardTargetUnavailable,
    SessionIdIsNull,
});
random_struct!(NewMessage { content_bytes, id_hash, session, ttl_ms, due });
random_struct!(MessageView { sequence, message, session, places });

random_struct!(QueueSettings {
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
random_struct!(SettingsPatch {
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
random_enum!(Status { Active, SendDisabled, ReceiveDisabled, Disabled });
random_enum!(Durability { Flushed, Relaxed });

random_enum!(Refusal {
    QueueNotFound(queue),
    QueueDisabled { queue, operation },
    QueueFull { queue, size_bytes_max },
    Busy { retry_after_ms },
    DiskFull,
    InvalidName { what, why },
    InvalidValue { what, why },
    TooLarge { what, bytes, bytes_max },
    TooMany { what, max },
    SessionRequired(queue),
    SessionNotSupported(queue),
    SessionLocked(session),
    SessionLost(session),
    LockLost(sequence),
    MessageNotFound(sequence),
    MemberGone,
    Lease(refusal),
    Forbidden { right, on },
    Fenced { election, term, newest },
    JobNotFound(job),
    JobEnded(job),
    JobOpen(job),
    ScheduleNotFound(schedule),
});
random_enum!(Right { Listen, Send, Manage });
random_enum!(Operation { Send, Receive });
random_enum!(LeaseRefusal {
    Held { lease, term },
    Breaking(lease),
    Broken(lease),
    BreakingCannotChange(lease),
    IdMismatch(lease),
    NotPresent(lease),
    TermOver { lease, term },
    NotGranted(lease),
    Paused(lease),
    NotInLine { lease, member },
    OtherSlots { lease, slots, asked },
});

random_enum!(Outcome {
    Done,
    QueueCreated { existed },
    Queue(info),
    Queues(infos),
    Sent(sequences),
    Count(count),
    Received(views),
    Peeked(views),
    Settled { refused },
    Renewed { lock_ms, refused },
    Session(hold),
    SessionState(content, place),
    Sessions(sessions),
    Joined(slot),
    Beat(beat),
    Members(members),
    Granted { term, ttl_ms },
    Breaking { remaining_ms },
    Lease(info),
    Leases(infos),
    SessionInfo(info),
    Explained(explanation),
    Backup(step),
    Terms(terms),
    MemberHealth(members),
    Turn { next },
    JobCreated { existed },
    Dispatched { sent },
    Job(info),
    Jobs(infos),
    Items(items),
    ScheduleCreated { existed },
    Schedules(infos),
});
random_struct!(SessionHold { token, lock_ms });
random_struct!(SessionInfo { id, messages, hold, waits_for, state, place });
random_struct!(Holder { member, remaining_ms });
random_struct!(Explanation { part, causes });
random_enum!(Cause {
    DeadLetter { reason },
    Expired { at },
    Scheduled { due },
    Delayed { due },
    Locked(holder),
    Deferred,
    Paused,
    SessionHeld(holder),
    SessionWaits { sequence },
    Behind { messages },
});
random_struct!(Beat { resync, lost, step_down });
random_struct!(QueueInfo { name, settings, created_at, counts, totals });
random_struct!(Counts { ready, locked, scheduled, deferred, dead_letters, size_bytes });
random_struct!(Totals {
    sent,
    duplicates,
    completed,
    expired,
    purged,
    cancelled,
    forwarded,
    dead_lettered,
});
random_struct!(MemberInfo { id, slot, metadata, joined_at, leases });
random_struct!(MemberHealth { info, ttl_ms, silent_ms, waits_for });
impl Random for LeaseInfo {
    fn variant(_: usize, rng: &mut Rng) -> Self {
        let slots = Random::random(rng);
        Self {
            name: Random::random(rng),
            kind: Random::random(rng),
            state: Random::random(rng),
            term: Random::random(rng),
            id: Random::random(rng),
            holder: Random::random(rng),
            metadata: Random::random(rng),
            ttl_ms: Random::random(rng),
            remaining_ms: Random::random(rng),
            granted_at: Random::random(rng),
            version: Random::random(rng),
            step_down_asked: Random::random(rng),
            paused: Random::random(rng),
            successor: Random::random(rng),
            waiting: Random::random(rng),
            slots,
            // One slot has one holder, and no other is written.
            others: if slots == 1 { Vec::new() } else { Random::random(rng) },
        }
    }
}
random_struct!(HolderInfo {
    term,
    state,
    id,
    holder,
    metadata,
    remaining_ms,
    granted_at,
    step_down_asked,
});
random_enum!(LeaseState { Available, Leased, Expired, Breaking, Broken });

random_struct!(Fence { election, term });
random_struct!(Request { member, number, answered_below, command, fence });
random_enum!(Command {
    CreateQueue { queue, settings },
    UpdateQueue { queue, patch },
    DeleteQueue { queue },
    Purge { from, before, max },
    DescribeQueue { queue },
    ListQueues { after, max },
    Send { queue, messages },
    Cancel { queue, sequences },
    Receive(receive),
    ReceiveDeferred { from, session, sequences, mode },
    Peek { from, sequence, max, session },
    Settle { from, settlements },
    RenewLocks { from, tokens, lock_ms },
    Redrive { queue, to, sequences, max },
    AcceptSession { queue, session, wait_ms },
    RenewSession { queue, token },
    CloseSession { queue, token },
    SetSessionState { queue, token, state },
    GetSessionState { queue, token },
    ListSessions { queue, after, max },
    Join { id, metadata, ttl_ms },
    Heartbeat { held },
    Leave,
    ListMembers,
    Acquire(acquire),
    RenewLease { lease, id },
    ChangeLease { lease, id, to },
    ReleaseLease { lease, id, successor },
    BreakLease { lease, period_ms },
    TouchLease { lease },
    AskStepDown { lease },
    DescribeLease { lease },
    WatchLease { lease, seen, wait_ms },
    ListLeases { after, max },
    Tick,
    DescribeSession { queue, session },
    Explain { queue, sequence },
    Import { to, messages },
    Remove { from, sequences },
    Backup { id, step },
    LeaseHistory { lease, max },
    Lost { how },
    StepDown { lease, id, successor, reason },
    HandOver { lease, to },
    PauseLease { lease, keep_leader },
    ResumeLease { lease },
    AwaitTurn { lease, wait_ms },
    MemberHealth { after, max },
    CreateJob { job, settings, items, gather },
    Dispatch { job, first, messages, items },
    CompleteItem { from, token, result },
    EndJob { job, how },
    AwaitJob { job, wait_ms },
    ListJobs { after, max },
    ListItems { job, from, max, which },
    CreateSchedule { schedule, settings, content },
    SteerSchedule { schedule, how },
    ListSchedules { from, max },
});
random_struct!(JobSettings { queue, gather_to, on_failure, deadline_ms, retention_ms });
random_struct!(JobRecord { name, settings, gather, created_at, items, ended, gathered });
random_struct!(JobInfo {
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
random_struct!(Ended { how, at });
random_enum!(OnFailure { Wait, Fail, Gaps });
random_enum!(Ending { Completed, Gaps, Failed, Cancelled, Overdue });
random_enum!(EndJob { Cancel, AcceptGaps, Forget });
random_enum!(ItemState { Pending { content }, Done { result }, Failed { content, why } });
random_enum!(Failure { DeadLettered { reason }, Expired, Removed, QueueGone });
random_struct!(ItemInfo { index, state, place, message });
random_struct!(ItemMessage { queue, part, sequence, is_locked, deliveries });
random_enum!(Which { All, Pending, Done, Failed });
random_struct!(ScheduleSettings { rule, zone, queue, session, missed });
random_struct!(ScheduleRecord { name, settings, content, created_at, next, last, sent, skipped });
random_struct!(ScheduleInfo { name, settings, created_at, next, last, sent, skipped });
random_enum!(Missed { Latest, All { max }, Skip });
random_enum!(SteerSchedule { Pause, Resume, RunNow, Delete });
random_struct!(TermInfo { term, kind, granted_at, holder, metadata, left_as });
random_enum!(LeftAs { Held, Released, Broken, Ended { at, by } });
random_enum!(EndedBy { Released { reason }, Goodbye, Died, RanOut, Broken, ChangedId, Disconnected });
random_enum!(BackupStep { State { frame, bytes }, Frames { numbers }, End { frame } });
random_struct!(Imported {
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
random_enum!(Resting { Ready, Scheduled { due }, Delayed { due }, Deferred });
random_struct!(Receive { from, session, max, mode, wait_ms, lock_ms });
random_enum!(ReceiveMode { PeekLock, ReceiveAndDelete });
random_struct!(Settlement { token, disposition, overlay });
random_struct!(NewContent { index, bytes });
random_enum!(Disposition { Complete, Abandon { delay_ms }, Release, Defer, DeadLetter });
random_struct!(Acquire { lease, id, kind, ttl_ms, metadata, wait_ms, priority, slots });
random_enum!(LeaseKind { Bound, Standing, Connected });
random_enum!(Loss { Died, Disconnected });
random_enum!(ReleaseReason { Asked, Shutdown, Finished, Failed, Stalled, HandedOver });
random_enum!(HeldSet { Same { count, digest }, List(leases) });
