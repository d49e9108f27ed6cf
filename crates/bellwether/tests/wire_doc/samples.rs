//! One of everything that can be asked, each number in it another one.

use bellwether::core::command::{
    Acquire, Command, Disposition, HeldSet, Imported, LeaseKind, Loss, NewContent, Receive,
    ReceiveMode, ReleaseReason, Request, Resting, Settlement,
};
use bellwether::core::fence::Fence;
use bellwether::core::job::{EndJob, JobSettings, OnFailure, Which};
use bellwether::core::message::{NewMessage, Reason};
use bellwether::core::name::{
    DeliveryNumber, Incarnation, JobName, LeaseId, LeaseName, LockToken, MemberId, MemberSlot,
    QueueName, QueuePath, RequestNumber, ScheduleName, SequenceNumber, SessionId, SessionToken,
    Term,
};
use bellwether::core::schedule::{Missed, ScheduleSettings, SteerSchedule};
use bellwether::core::settings::{Durability, QueueSettings, SettingsPatch, Status};
use bellwether::core::time::WallTime;

/// Samples of all variants of an enum, by name. A variant without a line does not compile.
macro_rules! every {
    ($enum:ident { $($variant:ident => $sample:expr),+ $(,)? }) => {{
        let _is_whole = |value: &$enum| match value { $($enum::$variant { .. } => {})+ };
        vec![$((stringify!($variant), $sample)),+]
    }};
}
pub(crate) use every;

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(crate) fn lease(name: &str) -> LeaseName {
    LeaseName::new(name).unwrap()
}

pub(crate) fn session() -> SessionId {
    SessionId::new("customer-4").unwrap()
}

pub(crate) fn token() -> SessionToken {
    let (number, incarnation) = (DeliveryNumber(71), Incarnation(72));
    SessionToken { session: session(), number, incarnation }
}

fn lock_token() -> LockToken {
    let (sequence, number) = (SequenceNumber(1081), DeliveryNumber(1082));
    LockToken { sequence, number, incarnation: Incarnation(1083) }
}

pub(crate) fn settings() -> QueueSettings {
    QueueSettings {
        lock_ms: 201,
        deliveries_max: 202,
        ttl_ms: Some(203),
        dead_letter_expired: true,
        duplicate_window_ms: Some(204),
        sessions: true,
        forward_to: Some(queue("next")),
        forward_dead_letters_to: Some(queue("dead")),
        delete_idle_ms: Some(205),
        status: Status::SendDisabled,
        size_bytes_max: 206,
        message_bytes_max: 207,
        durability: Durability::Relaxed,
    }
}

fn patch() -> SettingsPatch {
    SettingsPatch {
        lock_ms: Some(211),
        deliveries_max: Some(212),
        ttl_ms: Some(Some(213)),
        dead_letter_expired: Some(true),
        duplicate_window_ms: Some(214),
        forward_to: Some(Some(queue("next"))),
        forward_dead_letters_to: Some(None),
        delete_idle_ms: Some(Some(215)),
        status: Some(Status::Disabled),
        size_bytes_max: Some(216),
        message_bytes_max: Some(217),
        durability: Some(Durability::Flushed),
    }
}

fn settlement(disposition: Disposition) -> Settlement {
    let overlay = Some(NewContent { index: 221, bytes: 222 });
    Settlement { token: lock_token(), disposition, overlay }
}

fn settlements() -> Vec<Settlement> {
    let all = every!(Disposition {
        Complete => Disposition::Complete,
        Abandon => Disposition::Abandon { delay_ms: Some(223) },
        Release => Disposition::Release,
        Defer => Disposition::Defer,
        DeadLetter => Disposition::DeadLetter,
    });
    all.into_iter().map(|(_, disposition)| settlement(disposition)).collect()
}

pub(crate) fn restings() -> Vec<(&'static str, Resting)> {
    every!(Resting {
        Ready => Resting::Ready,
        Scheduled => Resting::Scheduled { due: WallTime(231) },
        Delayed => Resting::Delayed { due: WallTime(232) },
        Deferred => Resting::Deferred,
    })
}

/// A message of another store about which there is everything to say.
fn imported(state: Resting) -> Imported {
    Imported {
        content: NewContent { index: 233, bytes: 234 },
        overlay: Some(NewContent { index: 235, bytes: 236 }),
        id_hash: 237,
        session: Some(session()),
        enqueued_at: WallTime(238),
        expires_at: WallTime(239),
        state,
        deliveries: 240,
        failures: 241,
        crashes: 242,
        releases: 243,
        reason: Reason::TtlExpired,
    }
}

pub(crate) fn import(states: impl IntoIterator<Item = Resting>) -> Command {
    let messages = states.into_iter().map(imported).collect();
    Command::Import { to: QueuePath::dead(queue("orders")), messages }
}

fn acquire() -> Acquire {
    Acquire {
        lease: lease("chores"),
        id: LeaseId(328),
        kind: LeaseKind::Standing,
        ttl_ms: 310,
        metadata: "me".into(),
        wait_ms: 329,
        priority: -311,
        slots: 1,
    }
}

#[expect(clippy::too_many_lines, reason = "a list with one entry a command")]
pub(crate) fn job() -> JobName {
    JobName::new("resize").unwrap()
}

pub(crate) fn schedule() -> ScheduleName {
    ScheduleName::new("nightly").unwrap()
}

pub(crate) fn schedule_settings() -> ScheduleSettings {
    ScheduleSettings {
        rule: "0 2 * * *".into(),
        zone: "Europe/Berlin".into(),
        queue: queue("orders"),
        session: Some(session()),
        missed: Missed::All { max: 356 },
    }
}

pub(crate) fn job_settings() -> JobSettings {
    JobSettings {
        queue: queue("orders"),
        gather_to: Some(queue("done")),
        on_failure: OnFailure::Gaps,
        deadline_ms: Some(352),
        retention_ms: 353,
    }
}

pub(crate) fn commands() -> Vec<(&'static str, Command)> {
    let (queue, from) = (queue("orders"), QueuePath::dead(queue("orders")));
    let (lease, id) = (lease("chores"), LeaseId(301));
    let (sequences, max, wait_ms) = (vec![SequenceNumber(302)], 303, 304);
    let message = NewMessage {
        content_bytes: 305,
        id_hash: 306,
        session: Some(session()),
        ttl_ms: Some(307),
        due: Some(WallTime(308)),
    };
    let messages = vec![message, NewMessage::default()].into();
    let receive = Receive {
        from: from.clone(),
        session: Some(token()),
        max,
        mode: ReceiveMode::ReceiveAndDelete,
        wait_ms,
        lock_ms: Some(309),
    };
    let held = HeldSet::List(vec![(lease.clone(), Term(312))]);
    every!(Command {
        CreateQueue => Command::CreateQueue { queue: queue.clone(), settings: settings().into() },
        UpdateQueue => Command::UpdateQueue { queue: queue.clone(), patch: patch().into() },
        DeleteQueue => Command::DeleteQueue { queue: queue.clone() },
        Purge => Command::Purge { from: from.clone(), before: Some(WallTime(313)), max },
        DescribeQueue => Command::DescribeQueue { queue: queue.clone() },
        ListQueues => Command::ListQueues { after: Some(queue.clone()), max },
        Send => Command::Send { queue: queue.clone(), messages },
        Cancel => Command::Cancel { queue: queue.clone(), sequences: sequences.clone() },
        Receive => Command::Receive(receive),
        ReceiveDeferred => Command::ReceiveDeferred {
            from: from.clone(),
            session: None,
            sequences: sequences.clone(),
            mode: ReceiveMode::PeekLock,
        },
        Peek => Command::Peek {
            from: QueuePath::main(queue.clone()),
            sequence: SequenceNumber(314),
            max,
            session: Some(session()),
        },
        Settle => Command::Settle { from: from.clone(), settlements: settlements().into() },
        RenewLocks => Command::RenewLocks {
            from: from.clone(),
            tokens: vec![lock_token()],
            lock_ms: None,
        },
        Redrive => Command::Redrive {
            queue: queue.clone(),
            to: Some(queue.clone()),
            sequences: sequences.clone(),
            max,
        },
        AcceptSession => {
            Command::AcceptSession { queue: queue.clone(), session: Some(session()), wait_ms }
        },
        RenewSession => Command::RenewSession { queue: queue.clone(), token: token() },
        CloseSession => Command::CloseSession { queue: queue.clone(), token: token() },
        SetSessionState => Command::SetSessionState {
            queue: queue.clone(),
            token: token(),
            state: Some(NewContent { index: 315, bytes: 316 }),
        },
        GetSessionState => Command::GetSessionState { queue: queue.clone(), token: token() },
        ListSessions => {
            Command::ListSessions { queue: queue.clone(), after: Some(session()), max }
        },
        Join => Command::Join { id: MemberId(317), metadata: "me".into(), ttl_ms: 318 },
        Heartbeat => Command::Heartbeat { held },
        Leave => Command::Leave,
        Lost => Command::Lost { how: Loss::Died },
        ListMembers => Command::ListMembers,
        MemberHealth => Command::MemberHealth { after: Some(MemberId(334)), max },
        Acquire => Command::Acquire(acquire()),
        RenewLease => Command::RenewLease { lease: lease.clone(), id },
        ChangeLease => Command::ChangeLease { lease: lease.clone(), id, to: LeaseId(319) },
        ReleaseLease => Command::ReleaseLease {
            lease: lease.clone(),
            id,
            successor: Some(MemberId(320)),
        },
        StepDown => Command::StepDown {
            lease: lease.clone(),
            id,
            successor: Some(MemberId(335)),
            reason: ReleaseReason::Failed,
        },
        HandOver => Command::HandOver { lease: lease.clone(), to: MemberId(336) },
        PauseLease => Command::PauseLease { lease: lease.clone(), keep_leader: true },
        ResumeLease => Command::ResumeLease { lease: lease.clone() },
        AwaitTurn => Command::AwaitTurn { lease: lease.clone(), wait_ms },
        BreakLease => Command::BreakLease { lease: lease.clone(), period_ms: Some(321) },
        TouchLease => Command::TouchLease { lease: lease.clone() },
        AskStepDown => Command::AskStepDown { lease: lease.clone() },
        DescribeLease => Command::DescribeLease { lease: lease.clone() },
        WatchLease => Command::WatchLease { lease: lease.clone(), seen: 322, wait_ms },
        ListLeases => Command::ListLeases { after: Some(lease), max },
        Tick => Command::Tick,
        DescribeSession => {
            Command::DescribeSession { queue: queue.clone(), session: session() }
        },
        Explain => Command::Explain { queue, sequence: SequenceNumber(327) },
        Import => import(restings().into_iter().map(|(_, state)| state)),
        Remove => Command::Remove { from, sequences },
        Backup => Command::Backup { id: 332, step: 333 },
        LeaseHistory => Command::LeaseHistory { lease: self::lease("chores"), max },
        CreateJob => Command::CreateJob {
            job: job(),
            settings: job_settings().into(),
            items: Some(340),
            gather: Some(NewContent { index: 341, bytes: 342 }),
        },
        Dispatch => Command::Dispatch {
            job: job(),
            first: 343,
            messages: vec![NewMessage { content_bytes: 344, ..NewMessage::default() }].into(),
            items: Some(345),
        },
        CompleteItem => Command::CompleteItem {
            from: QueuePath::dead(self::queue("orders")),
            token: lock_token(),
            result: Some(NewContent { index: 349, bytes: 350 }),
        },
        EndJob => Command::EndJob { job: job(), how: EndJob::AcceptGaps },
        AwaitJob => Command::AwaitJob { job: job(), wait_ms },
        ListJobs => Command::ListJobs { after: Some(job()), max },
        ListItems => Command::ListItems { job: job(), from: 351, max, which: Which::Failed },
        CreateSchedule => Command::CreateSchedule {
            schedule: schedule(),
            settings: schedule_settings().into(),
            content: NewContent { index: 354, bytes: 355 },
        },
        SteerSchedule => {
            Command::SteerSchedule { schedule: schedule(), how: SteerSchedule::RunNow }
        },
        ListSchedules => Command::ListSchedules { from: Some(schedule()), max },
    })
}

/// A request under a fence, of three short numbers.
pub(crate) fn fenced(command: Command) -> Request {
    let fence = Some(Fence { election: lease("chores"), term: Term(334) });
    let (number, answered_below) = (RequestNumber(35), RequestNumber(36));
    Request { member: MemberSlot(34), number, answered_below, command, fence }
}

/// Messages that say one thing each, so that every flag stands alone once.
fn new_messages() -> Vec<NewMessage> {
    let bare = NewMessage { content_bytes: 323, ..NewMessage::default() };
    vec![
        NewMessage { id_hash: 324, ..bare.clone() },
        NewMessage { session: Some(session()), ..bare.clone() },
        NewMessage { ttl_ms: Some(325), ..bare.clone() },
        NewMessage { due: Some(WallTime(326)), ..bare },
    ]
}

/// Commands whose fields take other forms than in [`commands`].
pub(crate) fn more_commands() -> Vec<Command> {
    let send = |message| {
        let messages = std::iter::once(message).collect();
        Command::Send { queue: queue("orders"), messages }
    };
    let mut commands: Vec<_> = new_messages().into_iter().map(send).collect();
    commands.extend([
        Command::Import {
            to: QueuePath::main(queue("orders")),
            messages: vec![Imported { overlay: None, session: None, ..imported(Resting::Ready) }],
        },
        Command::Acquire(Acquire { kind: LeaseKind::Bound, slots: 332, ..acquire() }),
        Command::Heartbeat { held: HeldSet::Same { count: 331, digest: 1 << 60 } },
        Command::UpdateQueue { queue: queue("orders"), patch: SettingsPatch::default().into() },
        Command::CreateQueue { queue: queue("orders"), settings: QueueSettings::default().into() },
    ]);
    commands
}
