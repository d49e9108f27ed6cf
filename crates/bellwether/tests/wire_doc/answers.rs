//! One of everything that can be answered, each number in it another one.

use bellwether::core::backup::BackupStep;
use bellwether::core::command::{LeaseKind, ReleaseReason};
use bellwether::core::content::{ContentId, Place};
use bellwether::core::error::{LeaseRefusal, Operation, Refusal};
use bellwether::core::job::{Ended, Ending, Failure, ItemInfo, ItemMessage, ItemState, JobInfo};
use bellwether::core::message::{Lock, Message, MessageView, Reason, Standing, State};
use bellwether::core::name::{
    DeliveryNumber, Incarnation, LeaseId, MemberId, MemberSlot, Part, QueueId, SequenceNumber, Term,
};
use bellwether::core::outcome::{
    Beat, Cause, Counts, EndedBy, Explanation, Holder, HolderInfo, LeaseInfo, LeaseState, LeftAs,
    MemberHealth, MemberInfo, Outcome, QueueInfo, Sequences, SessionHold, SessionInfo, TermInfo,
    Totals,
};
use bellwether::core::right::Right;
use bellwether::core::schedule::ScheduleInfo;
use bellwether::core::time::{BootTime, WallTime};
use bellwether::message::Value;

use crate::samples::{
    every, job, job_settings, lease, queue, schedule, schedule_settings, session, settings, token,
};

pub(crate) fn reasons() -> Vec<(&'static str, Reason)> {
    every!(Reason {
        None => Reason::None,
        Application => Reason::Application,
        MaxDeliveryCountExceeded => Reason::MaxDeliveryCountExceeded,
        TtlExpired => Reason::TtlExpired,
        MaxTransferHopCountExceeded => Reason::MaxTransferHopCountExceeded,
        ForwardTargetUnavailable => Reason::ForwardTargetUnavailable,
        SessionIdIsNull => Reason::SessionIdIsNull,
    })
}

pub(crate) fn states() -> Vec<(&'static str, State)> {
    let lock = Lock {
        until: BootTime::NEVER,
        lock_ms: 401,
        member: MemberSlot(402),
        incarnation: Incarnation(403),
        deferred: true,
    };
    every!(State {
        Ready => State::Ready,
        Scheduled => State::Scheduled { due: WallTime(404) },
        Delayed => State::Delayed { due: WallTime(405) },
        Locked => State::Locked(lock),
        Deferred => State::Deferred,
    })
}

/// A message about which there is everything to say.
pub(crate) fn full_view(state: State, reason: Reason) -> MessageView {
    let standing = Standing {
        state,
        number: DeliveryNumber(411),
        deliveries: 412,
        failures: 413,
        crashes: 414,
        releases: 415,
        reason,
        hops: 4,
        overlay: ContentId(416),
    };
    let message = Message {
        content: ContentId(417),
        enqueued_at: WallTime(418),
        expires_at: WallTime(419),
        origin: SequenceNumber(420),
        session: 0,
        source: QueueId(421),
        standing,
    };
    let places =
        [Place { unit: 422, offset: 423, len: 424 }, Place { unit: 425, offset: 426, len: 427 }];
    MessageView { sequence: SequenceNumber(428), message, session: Some(session()), places }
}

/// One about which there is the least.
pub(crate) fn bare_view(state: State) -> MessageView {
    let sequence = SequenceNumber(431);
    let message = Message {
        content: ContentId(432),
        enqueued_at: WallTime(433),
        expires_at: WallTime::NEVER,
        origin: sequence,
        session: 0,
        source: QueueId(0),
        standing: Standing::new(state),
    };
    MessageView { sequence, message, session: None, places: <_>::default() }
}

fn queue_info() -> QueueInfo {
    let counts = Counts {
        ready: 501,
        locked: 502,
        scheduled: 503,
        deferred: 504,
        dead_letters: 505,
        size_bytes: 506,
    };
    let totals = Totals {
        sent: 511,
        duplicates: 512,
        completed: 513,
        expired: 514,
        purged: 515,
        cancelled: 516,
        forwarded: 517,
        dead_lettered: 518,
    };
    let created_at = WallTime(519);
    QueueInfo { name: queue("orders"), settings: settings(), created_at, counts, totals }
}

fn lease_info(state: LeaseState) -> LeaseInfo {
    LeaseInfo {
        name: lease("chores"),
        kind: LeaseKind::Standing,
        state,
        term: Term(521),
        id: Some(LeaseId(522)),
        holder: Some(MemberId(523)),
        metadata: "me".into(),
        ttl_ms: 524,
        remaining_ms: 525,
        granted_at: WallTime(526),
        version: 527,
        step_down_asked: true,
        paused: false,
        successor: None,
        waiting: vec![MemberId(528)],
        slots: 1,
        others: Vec::new(),
    }
}

fn session_info() -> SessionInfo {
    SessionInfo {
        id: session(),
        messages: 531,
        hold: Some(Holder { member: Some(MemberId(532)), remaining_ms: 533 }),
        waits_for: Some(SequenceNumber(534)),
        state: ContentId(535),
        place: Place { unit: 536, offset: 537, len: 538 },
    }
}

pub(crate) fn causes() -> Vec<(&'static str, Cause)> {
    let holder = Holder { member: Some(MemberId(541)), remaining_ms: 542 };
    let forgotten = Holder { member: None, remaining_ms: 543 };
    every!(Cause {
        DeadLetter => Cause::DeadLetter { reason: Reason::TtlExpired },
        Expired => Cause::Expired { at: WallTime(544) },
        Scheduled => Cause::Scheduled { due: WallTime(545) },
        Delayed => Cause::Delayed { due: WallTime(546) },
        Locked => Cause::Locked(holder),
        Deferred => Cause::Deferred,
        Paused => Cause::Paused,
        SessionHeld => Cause::SessionHeld(forgotten),
        SessionWaits => Cause::SessionWaits { sequence: SequenceNumber(547) },
        Behind => Cause::Behind { messages: 548 },
    })
}

pub(crate) fn lease_states() -> Vec<(&'static str, LeaseState)> {
    every!(LeaseState {
        Available => LeaseState::Available,
        Leased => LeaseState::Leased,
        Expired => LeaseState::Expired,
        Breaking => LeaseState::Breaking,
        Broken => LeaseState::Broken,
    })
}

/// What locks say beside the outcome is not in here: see the test.
pub(crate) fn outcomes() -> Vec<(&'static str, Outcome)> {
    let refused: Vec<_> = (601..).zip(refusals().into_iter().map(|(_, refusal)| refusal)).collect();
    let views: Vec<_> = states()
        .into_iter()
        .filter(|(name, _)| *name != "Locked")
        .zip(reasons())
        .map(|((_, state), (_, reason))| full_view(state, reason))
        .chain([bare_view(State::Ready)])
        .collect();
    let beat = Beat {
        resync: true,
        lost: vec![(lease("chores"), Term(621))],
        step_down: vec![(lease("billing"), Term(622))],
    };
    let member = MemberInfo {
        id: MemberId(623),
        slot: MemberSlot(624),
        metadata: "me".into(),
        joined_at: WallTime(625),
        leases: vec![(lease("chores"), Term(626))],
    };
    let leases = lease_states().into_iter().map(|(_, state)| lease_info(state)).collect();
    let causes = causes().into_iter().map(|(_, cause)| cause).collect();
    let place = Place { unit: 627, offset: 628, len: 629 };
    every!(Outcome {
        Done => Outcome::Done,
        QueueCreated => Outcome::QueueCreated { existed: true },
        Queue => Outcome::Queue(queue_info().into()),
        Queues => Outcome::Queues(vec![queue_info(), queue_info()]),
        Sent => Outcome::Sent(Sequences::Run { first: SequenceNumber(630), count: 631 }),
        Count => Outcome::Count(632),
        Received => Outcome::Received(views.clone()),
        Peeked => Outcome::Peeked(views),
        Settled => Outcome::Settled { refused: refused.clone() },
        Renewed => Outcome::Renewed { lock_ms: 633, refused },
        Session => Outcome::Session(Some(SessionHold { token: token(), lock_ms: 634 })),
        SessionState => Outcome::SessionState(ContentId(635), place),
        Sessions => Outcome::Sessions(vec![session()]),
        Joined => Outcome::Joined(MemberSlot(636)),
        Beat => Outcome::Beat(beat),
        Members => Outcome::Members(vec![member.clone()]),
        MemberHealth => Outcome::MemberHealth(vec![MemberHealth {
            info: member,
            ttl_ms: 651,
            silent_ms: 652,
            waits_for: vec![lease("billing")],
        }]),
        Turn => Outcome::Turn { next: true },
        Granted => Outcome::Granted { term: Term(637), ttl_ms: u64::MAX },
        Breaking => Outcome::Breaking { remaining_ms: 638 },
        Lease => Outcome::Lease(Some(lease_info(LeaseState::Leased).into())),
        Leases => Outcome::Leases(leases),
        SessionInfo => Outcome::SessionInfo(Some(session_info().into())),
        Explained => Outcome::Explained(Explanation { part: Part::Dead, causes }),
        Terms => Outcome::Terms(vec![term_info(LeftAs::Held), term_info(LeftAs::Released)]),
        Backup => Outcome::Backup(BackupStep::State { frame: 632, bytes: 633 }),
        ScheduleCreated => Outcome::ScheduleCreated { existed: true },
        Schedules => Outcome::Schedules(vec![
            schedule_info(),
            ScheduleInfo { next: None, last: None, ..schedule_info() },
        ]),
        JobCreated => Outcome::JobCreated { existed: true },
        Dispatched => Outcome::Dispatched { sent: 660 },
        Job => Outcome::Job(job_info(None).into()),
        Jobs => Outcome::Jobs(job_ends().into_iter().map(|(_, how)| job_info(Some(how))).collect()),
        Items => Outcome::Items(item_states().into_iter().map(|(_, state)| item_info(state)).collect()),
    })
}

fn schedule_info() -> ScheduleInfo {
    ScheduleInfo {
        name: schedule(),
        settings: schedule_settings(),
        created_at: WallTime(677),
        next: Some(WallTime(678)),
        last: Some(WallTime(679)),
        sent: 680,
        skipped: 681,
    }
}

pub(crate) fn job_info(how: Option<Ending>) -> JobInfo {
    JobInfo {
        name: job(),
        settings: job_settings(),
        created_at: WallTime(661),
        items: Some(662),
        dispatched: 663,
        next: 664,
        done: 665,
        failed: 666,
        ended: how.map(|how| Ended { how, at: WallTime(667) }),
        gathered: true,
    }
}

pub(crate) fn job_ends() -> Vec<(&'static str, Ending)> {
    every!(Ending {
        Completed => Ending::Completed,
        Gaps => Ending::Gaps,
        Failed => Ending::Failed,
        Cancelled => Ending::Cancelled,
        Overdue => Ending::Overdue,
    })
}

pub(crate) fn item_states() -> Vec<(&'static str, ItemState)> {
    let why = Failure::DeadLettered { reason: Reason::Application };
    every!(ItemState {
        Pending => ItemState::Pending { content: ContentId(668) },
        Done => ItemState::Done { result: ContentId(669) },
        Failed => ItemState::Failed { content: ContentId(670), why },
    })
}

pub(crate) fn failures() -> Vec<(&'static str, Failure)> {
    every!(Failure {
        DeadLettered => Failure::DeadLettered { reason: Reason::Application },
        Expired => Failure::Expired,
        Removed => Failure::Removed,
        QueueGone => Failure::QueueGone,
    })
}

pub(crate) fn item_info(state: ItemState) -> ItemInfo {
    let message = ItemMessage {
        queue: queue("orders"),
        part: Part::Dead,
        sequence: SequenceNumber(671),
        is_locked: true,
        deliveries: 672,
    };
    let place = Place { unit: 673, offset: 674, len: 675 };
    ItemInfo { index: 676, state, place, message: Some(message) }
}

pub(crate) fn term_info(left_as: LeftAs) -> TermInfo {
    TermInfo {
        term: Term(637),
        kind: LeaseKind::Standing,
        granted_at: WallTime(638),
        holder: Some(MemberId(639)),
        metadata: "me".into(),
        left_as,
    }
}

pub(crate) fn ended(by: EndedBy) -> TermInfo {
    term_info(LeftAs::Ended { at: WallTime(654), by })
}

pub(crate) fn endings() -> Vec<(&'static str, EndedBy)> {
    every!(EndedBy {
        Released => EndedBy::Released { reason: Some(ReleaseReason::Stalled) },
        Goodbye => EndedBy::Goodbye,
        Died => EndedBy::Died,
        RanOut => EndedBy::RanOut,
        Broken => EndedBy::Broken,
        ChangedId => EndedBy::ChangedId,
        Disconnected => EndedBy::Disconnected,
    })
}

/// Messages that say one thing each, so that every flag stands alone once.
fn views() -> Vec<MessageView> {
    let bare = bare_view(State::Ready);
    let with = |change: fn(&mut MessageView)| {
        let mut view = bare.clone();
        change(&mut view);
        view
    };
    vec![
        with(|view| view.message.expires_at = WallTime(441)),
        with(|view| view.message.origin = SequenceNumber(442)),
        with(|view| view.message.source = QueueId(443)),
        with(|view| view.message.standing.deliveries = 444),
        with(|view| view.session = Some(session())),
        with(|view| view.places[0] = Place { unit: 445, offset: 446, len: 447 }),
        with(|view| view.places[1] = Place { unit: 448, offset: 449, len: 450 }),
    ]
}

/// Outcomes whose fields take other forms than in [`outcomes`].
pub(crate) fn more_outcomes() -> Vec<Outcome> {
    let mut outcomes: Vec<_> =
        views().into_iter().map(|view| Outcome::Peeked(vec![view])).collect();
    let list = vec![SequenceNumber(0), SequenceNumber(641)];
    let successor = Some(MemberId(653));
    let steered = LeaseInfo { paused: true, successor, ..lease_info(LeaseState::Leased) };
    let other = HolderInfo {
        term: Term(654),
        state: LeaseState::Breaking,
        id: Some(LeaseId(655)),
        holder: Some(MemberId(656)),
        metadata: "other".into(),
        remaining_ms: 657,
        granted_at: WallTime(658),
        step_down_asked: false,
    };
    let slotted = LeaseInfo { slots: 659, others: vec![other], ..lease_info(LeaseState::Leased) };
    outcomes.extend([
        Outcome::Sent(Sequences::List(list)),
        Outcome::Session(None),
        Outcome::Lease(None),
        Outcome::SessionInfo(None),
        Outcome::SessionInfo(Some(
            SessionInfo { hold: None, waits_for: None, ..session_info() }.into(),
        )),
        Outcome::Explained(Explanation { part: Part::Main, causes: Vec::new() }),
        Outcome::Terms(vec![TermInfo { holder: None, ..term_info(LeftAs::Broken) }]),
        Outcome::Terms(endings().into_iter().map(|(_, by)| ended(by)).collect()),
        Outcome::Terms(vec![ended(EndedBy::Released { reason: None })]),
        Outcome::Lease(Some(steered.into())),
        Outcome::Lease(Some(slotted.into())),
        Outcome::Turn { next: false },
        Outcome::Items(
            failures()
                .into_iter()
                .map(|(_, why)| item_info(ItemState::Failed { content: ContentId(0), why }))
                .chain([ItemInfo {
                    message: None,
                    ..item_info(ItemState::Done { result: ContentId(0) })
                }])
                .collect(),
        ),
        Outcome::Backup(BackupStep::Frames { numbers: vec![634, 635] }),
        Outcome::Backup(BackupStep::End { frame: 636 }),
    ]);
    outcomes
}

pub(crate) fn refusals() -> Vec<(&'static str, Refusal)> {
    let (queue, what) = (queue("orders"), "messages");
    every!(Refusal {
        QueueNotFound => Refusal::QueueNotFound(queue.clone()),
        QueueDisabled => {
            Refusal::QueueDisabled { queue: queue.clone(), operation: Operation::Receive }
        },
        QueueFull => Refusal::QueueFull { queue: queue.clone(), size_bytes_max: 701 },
        Busy => Refusal::Busy { retry_after_ms: 702 },
        DiskFull => Refusal::DiskFull,
        InvalidName => Refusal::InvalidName { what, why: "it is empty" },
        InvalidValue => Refusal::InvalidValue { what, why: "no".into() },
        TooLarge => Refusal::TooLarge { what, bytes: 703, bytes_max: 704 },
        TooMany => Refusal::TooMany { what, max: 705 },
        SessionRequired => Refusal::SessionRequired(queue.clone()),
        SessionNotSupported => Refusal::SessionNotSupported(queue),
        SessionLocked => Refusal::SessionLocked(session()),
        SessionLost => Refusal::SessionLost(session()),
        LockLost => Refusal::LockLost(SequenceNumber(706)),
        MessageNotFound => Refusal::MessageNotFound(SequenceNumber(707)),
        MemberGone => Refusal::MemberGone,
        Lease => Refusal::Lease(LeaseRefusal::NotGranted(lease("chores"))),
        Forbidden => Refusal::Forbidden { right: Right::Manage, on: "all queues".into() },
        Fenced => Refusal::Fenced {
            election: lease("chores"),
            term: Term(708),
            newest: Some(Term(709)),
        },
        JobNotFound => Refusal::JobNotFound(job()),
        JobEnded => Refusal::JobEnded(job()),
        JobOpen => Refusal::JobOpen(job()),
        ScheduleNotFound => Refusal::ScheduleNotFound(schedule()),
    })
}

pub(crate) fn lease_refusals() -> Vec<(&'static str, LeaseRefusal)> {
    let (lease, term) = (lease("chores"), Term(711));
    every!(LeaseRefusal {
        Held => LeaseRefusal::Held { lease: lease.clone(), term },
        Breaking => LeaseRefusal::Breaking(lease.clone()),
        Broken => LeaseRefusal::Broken(lease.clone()),
        BreakingCannotChange => LeaseRefusal::BreakingCannotChange(lease.clone()),
        IdMismatch => LeaseRefusal::IdMismatch(lease.clone()),
        NotPresent => LeaseRefusal::NotPresent(lease.clone()),
        TermOver => LeaseRefusal::TermOver { lease: lease.clone(), term },
        NotGranted => LeaseRefusal::NotGranted(lease.clone()),
        Paused => LeaseRefusal::Paused(lease.clone()),
        NotInLine => LeaseRefusal::NotInLine { lease: lease.clone(), member: MemberId(712) },
        OtherSlots => LeaseRefusal::OtherSlots { lease, slots: 713, asked: 714 },
    })
}

/// Values of properties by the names that the page has for them: yes and no have tags of their own.
pub(crate) fn values() -> Vec<(&'static str, Value)> {
    let mut all = every!(Value {
        Null => Value::Null,
        Bool => Value::Bool(true),
        Ubyte => Value::Ubyte(200),
        Byte => Value::Byte(-100),
        Ushort => Value::Ushort(60_000),
        Short => Value::Short(-30_000),
        Uint => Value::Uint(4_000_000_000),
        Int => Value::Int(-2_000_000_000),
        Ulong => Value::Ulong(u64::MAX),
        Long => Value::Long(i64::MIN),
        Float => Value::Float(1.5),
        Double => Value::Double(-2.25),
        Char => Value::Char('ß'),
        Timestamp => Value::Timestamp(-5),
        Uuid => Value::Uuid([7; 16]),
        Binary => Value::Binary(b"bytes".to_vec().into()),
        String => Value::String("text".into()),
        Symbol => Value::Symbol("word".into()),
    });
    all.retain(|(name, _)| *name != "Bool");
    all.extend([("True", Value::Bool(true)), ("False", Value::Bool(false))]);
    all
}
