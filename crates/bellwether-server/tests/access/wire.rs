//! Every command, by everybody, on one's own name and on another's: over the wire.

use bellwether::core::command::{
    Acquire, Command, HeldSet, LeaseKind, NewContent, Receive, ReceiveMode, ReleaseReason, Request,
};
use bellwether::core::few::Few;
use bellwether::core::job::{EndJob, JobSettings, Which};
use bellwether::core::name::{
    DeliveryNumber, Incarnation, JobName, LockToken, QueueName, QueuePath, RequestNumber,
    ScheduleName, SequenceNumber, SessionId, SessionToken,
};
use bellwether::core::right::{Right, needs};
use bellwether::core::schedule::{Missed, ScheduleSettings, SteerSchedule};
use bellwether::{Bellwether, Error, LeaseId, LeaseName, MemberId, Refusal};

use super::server::{Folder, Server};

/// Every command about one queue and one lease of this name. Each belongs to one line of the table
/// in `docs/security.md`.
fn commands(name: &str) -> Vec<Command> {
    let queue = QueueName::new(name).unwrap();
    let lease = LeaseName::new(name).unwrap();
    let (main, dead) = (QueuePath::main(queue.clone()), QueuePath::dead(queue.clone()));
    let session = SessionId::new("s").unwrap();
    let (number, incarnation) = (DeliveryNumber(1), Incarnation(1));
    let token = SessionToken { session: session.clone(), number, incarnation };
    let sequences = vec![SequenceNumber(1)];
    let id = LeaseId(7);
    let q = || queue.clone();
    let l = || lease.clone();
    let s = || ScheduleName::new(name).unwrap();
    let j = || JobName::new(name).unwrap();
    let lock = LockToken { sequence: SequenceNumber(1), number, incarnation };
    vec![
        Command::CreateQueue { queue: q(), settings: Box::default() },
        Command::UpdateQueue { queue: q(), patch: Box::default() },
        Command::Purge { from: main.clone(), before: None, max: 1 },
        Command::Purge { from: dead.clone(), before: None, max: 1 },
        Command::Remove { from: main.clone(), sequences: sequences.clone() },
        Command::DescribeQueue { queue: q() },
        Command::Send { queue: q(), messages: Few::default() },
        Command::Cancel { queue: q(), sequences: sequences.clone() },
        Command::Receive(Receive {
            from: main.clone(),
            session: None,
            max: 1,
            mode: ReceiveMode::PeekLock,
            wait_ms: 0,
            lock_ms: None,
        }),
        Command::ReceiveDeferred {
            from: main.clone(),
            session: None,
            sequences: sequences.clone(),
            mode: ReceiveMode::PeekLock,
        },
        Command::Peek { from: dead, sequence: SequenceNumber(0), max: 1, session: None },
        Command::Settle { from: main.clone(), settlements: Few::default() },
        Command::RenewLocks { from: main.clone(), tokens: Vec::new(), lock_ms: None },
        Command::AcceptSession { queue: q(), session: Some(session.clone()), wait_ms: 0 },
        Command::RenewSession { queue: q(), token: token.clone() },
        Command::CloseSession { queue: q(), token: token.clone() },
        Command::SetSessionState { queue: q(), token: token.clone(), state: None },
        Command::GetSessionState { queue: q(), token },
        Command::ListSessions { queue: q(), after: None, max: 1 },
        Command::DescribeSession { queue: q(), session },
        Command::Explain { queue: q(), sequence: SequenceNumber(1) },
        Command::Import { to: main, messages: Vec::new() },
        Command::Acquire(Acquire {
            lease: l(),
            id,
            kind: LeaseKind::Standing,
            ttl_ms: 60_000,
            metadata: String::new(),
            wait_ms: 0,
            priority: 0,
            slots: 1,
        }),
        Command::RenewLease { lease: l(), id },
        Command::ChangeLease { lease: l(), id, to: LeaseId(8) },
        Command::ReleaseLease { lease: l(), id, successor: None },
        Command::StepDown { lease: l(), id, successor: None, reason: ReleaseReason::Finished },
        Command::AwaitTurn { lease: l(), wait_ms: 0 },
        Command::TouchLease { lease: l() },
        Command::BreakLease { lease: l(), period_ms: None },
        Command::AskStepDown { lease: l() },
        Command::HandOver { lease: l(), to: MemberId(9) },
        Command::PauseLease { lease: l(), keep_leader: true },
        Command::ResumeLease { lease: l() },
        Command::DescribeLease { lease: l() },
        Command::WatchLease { lease: l(), seen: 0, wait_ms: 0 },
        Command::CreateJob {
            job: j(),
            settings: Box::new(JobSettings::new(q())),
            items: None,
            gather: None,
        },
        Command::Dispatch { job: j(), first: 0, messages: Few::default(), items: Some(0) },
        Command::CompleteItem { from: QueuePath::main(q()), token: lock, result: None },
        Command::AwaitJob { job: j(), wait_ms: 0 },
        Command::ListItems { job: j(), from: 0, max: 1, which: Which::All },
        Command::EndJob { job: j(), how: EndJob::Forget },
        Command::CreateSchedule {
            schedule: s(),
            settings: Box::new(ScheduleSettings {
                rule: "@daily".into(),
                zone: "UTC".into(),
                queue: q(),
                session: None,
                missed: Missed::Latest,
            }),
            content: NewContent { index: 0, bytes: 0 },
        },
        Command::SteerSchedule { schedule: s(), how: SteerSchedule::Pause },
        // Last: it takes the queue away.
        Command::DeleteQueue { queue: q() },
    ]
}

/// Those that are about everything: a right under a prefix is not enough for them.
fn lists() -> [Command; 6] {
    [
        Command::ListQueues { after: None, max: 1 },
        Command::ListLeases { after: None, max: 1 },
        Command::ListMembers,
        Command::MemberHealth { after: None, max: 1 },
        Command::ListJobs { after: None, max: 1 },
        Command::ListSchedules { from: None, max: 1 },
    ]
}

async fn ask(store: &Bellwether, command: Command) -> Result<(), Error> {
    let (number, answered_below) = (RequestNumber(0), RequestNumber(0));
    let request = Request { member: store.slot(), number, answered_below, command, fence: None };
    store.call(request, Vec::new()).await.map(drop)
}

fn is_forbidden(told: &Result<(), Error>) -> bool {
    matches!(told, Err(Error::Refused(Refusal::Forbidden { .. })))
}

#[tokio::test]
async fn nothing_is_allowed_that_was_not_granted() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let rights = folder.rights();
    server.create("own/queue");
    server.create("other/queue");
    for (has, token) in rights {
        let has = has.and_then(Right::of_word);
        let store = server.open(&token).await.unwrap();
        let own = commands("own/queue").into_iter().map(|command| (true, command));
        let other = commands("other/queue").into_iter().map(|command| (false, command));
        for (is_own, command) in own.chain(other) {
            let needed = needs(&command).iter().next().unwrap().right;
            let wanted = is_own && has.is_some_and(|has| has.includes(needed));
            let told = ask(&store, command.clone()).await;
            assert_eq!(!is_forbidden(&told), wanted, "{has:?} {command:?}: {told:?}");
        }
        for command in lists() {
            let told = ask(&store, command.clone()).await;
            assert!(is_forbidden(&told), "{has:?} {command:?}: {told:?}");
        }
        // What needs no right: to take part, and to go.
        let held = HeldSet::List(Vec::new());
        assert!(ask(&store, Command::Heartbeat { held }).await.is_ok());
        assert!(ask(&store, Command::Leave).await.is_ok());
    }
    let everything = server.open(&server.root).await.unwrap();
    for command in lists().into_iter().chain(commands("another")) {
        let told = ask(&everything, command.clone()).await;
        assert!(!is_forbidden(&told), "{command:?}: {told:?}");
    }
    server.stop();
}

#[tokio::test]
async fn what_is_not_there_is_refused_as_what_is() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let [(_, token), ..] = folder.rights();
    server.create("there");
    let store = server.open(&token).await.unwrap();
    for (there, absent) in commands("there").into_iter().zip(commands("gone!")) {
        let told = |told: Result<(), Error>| told.unwrap_err().to_string();
        let said = told(ask(&store, there).await);
        assert_eq!(said.replace("there\"", "gone!\""), told(ask(&store, absent).await));
    }
    server.stop();
}

#[tokio::test]
async fn nobody_comes_in_without_a_credential_but_by_the_socket() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let guessed = format!("bw_{}", "A".repeat(43));
    let unsigned = "SharedAccessSignature sr=a&sig=YQ%3D%3D&se=9999999999&skn=root";
    for shown in ["", "?", "Bearer x", &guessed, unsigned] {
        let why = server.open(shown).await.unwrap_err();
        assert!(matches!(why, Error::Denied { .. }), "{shown}: {why}");
        assert!(shown.len() < 3 || !why.to_string().contains(shown), "{why}");
    }
    let long = server.open(&"x".repeat(4000)).await.unwrap_err();
    assert!(matches!(long, Error::Denied { .. }), "{long}");
    let local = Bellwether::open(server.socket()).await.unwrap();
    local.create_queue("orders", <_>::default()).await.unwrap();
    assert_eq!(local.queues().await.unwrap().len(), 1);
    let join = Command::Join { id: MemberId(1), metadata: String::new(), ttl_ms: 1000 };
    assert!(ask(&local, join).await.is_ok());
    server.stop();
}
