//! Every outcome and every refusal, as answers are written.

use super::{
    AT, ID, LOCK, MESSAGE, NINE, STANDING, TEN, TOTALS, hex, jobs, lease_name, queue_name,
    reads_as, schedules, session,
};
use crate::bytes_of;
use crate::random::Random;
use bellwether_core::backup::BackupStep;
use bellwether_core::command::LeaseKind;
use bellwether_core::content::{ContentId, Place};
use bellwether_core::error::{LeaseRefusal, Operation, Refusal};
use bellwether_core::message::{Message, MessageView, Reason, Standing, State};
use bellwether_core::name::{
    DeliveryNumber, Incarnation, LeaseId, MemberId, MemberSlot, Part, SequenceNumber, SessionToken,
    Term,
};
use bellwether_core::outcome::{
    Beat, Cause, Counts, EndedBy, Explanation, Holder, HolderInfo, LeaseInfo, LeaseState, LeftAs,
    MemberHealth, MemberInfo, Outcome, QueueInfo, Sequences, SessionHold, SessionInfo, TermInfo,
};
use bellwether_core::right::Right;
use bellwether_core::settings::QueueSettings;

type Answer = Result<Outcome, Refusal>;

const HOLDER: Holder = Holder { member: Some(MemberId(ID)), remaining_ms: 5_000 };
const PLACE: Place = Place { unit: 2, offset: 4096, len: 1500 };

fn queue_info() -> QueueInfo {
    let counts =
        Counts { ready: 1, locked: 2, scheduled: 3, deferred: 4, dead_letters: 5, size_bytes: 300 };
    let (name, settings) = (queue_name(), QueueSettings::default());
    QueueInfo { name, settings, created_at: NINE, counts, totals: TOTALS }
}

fn member_info() -> MemberInfo {
    MemberInfo {
        id: MemberId(ID),
        slot: MemberSlot(2),
        metadata: "host a".into(),
        joined_at: NINE,
        leases: vec![(lease_name(), Term(12))],
    }
}

fn lease_info(state: LeaseState) -> LeaseInfo {
    LeaseInfo {
        name: lease_name(),
        kind: LeaseKind::Bound,
        state,
        term: Term(12),
        id: Some(LeaseId(ID)),
        holder: Some(MemberId(ID)),
        metadata: "host a".into(),
        ttl_ms: 15_000,
        remaining_ms: 5_000,
        granted_at: NINE,
        version: 44,
        step_down_asked: true,
        paused: false,
        successor: None,
        waiting: vec![MemberId(ID)],
        slots: 1,
        others: Vec::new(),
    }
}

fn causes() -> Vec<Cause> {
    vec![
        Cause::DeadLetter { reason: Reason::TtlExpired },
        Cause::Expired { at: TEN },
        Cause::Scheduled { due: TEN },
        Cause::Delayed { due: TEN },
        Cause::Locked(HOLDER),
        Cause::Deferred,
        Cause::Paused,
        Cause::SessionHeld(HOLDER),
        Cause::SessionWaits { sequence: AT.sequence },
        Cause::Behind { messages: 300 },
    ]
}

fn views() -> Vec<MessageView> {
    let standing = Standing { state: State::Locked(LOCK), ..STANDING };
    let places = [PLACE, Place { offset: 8192, ..PLACE }];
    let locked = MessageView {
        sequence: AT.sequence,
        message: Message { expires_at: TEN, standing, ..MESSAGE },
        session: Some(session()),
        places,
    };
    let plain = MessageView { message: MESSAGE, session: None, ..locked.clone() };
    vec![locked, plain]
}

fn terms() -> Vec<TermInfo> {
    let held = TermInfo {
        term: Term(12),
        kind: LeaseKind::Bound,
        granted_at: NINE,
        holder: Some(MemberId(ID)),
        metadata: "host a".into(),
        left_as: LeftAs::Held,
    };
    let released = TermInfo { holder: None, left_as: LeftAs::Released, ..held.clone() };
    let broken = TermInfo { left_as: LeftAs::Broken, ..released.clone() };
    vec![held, released, broken]
}

fn outcomes() -> Vec<(Outcome, &'static str)> {
    let token =
        SessionToken { session: session(), number: DeliveryNumber(5), incarnation: Incarnation(3) };
    let refused = vec![(1, Refusal::LockLost(AT.sequence))];
    let leases = vec![(lease_name(), Term(12))];
    let [held, available, expired, breaking, broken] = [
        LeaseState::Leased,
        LeaseState::Available,
        LeaseState::Expired,
        LeaseState::Breaking,
        LeaseState::Broken,
    ]
    .map(lease_info);
    vec![
        (Outcome::Done, "0101"),
        (
            Outcome::Terms(terms()),
            "0118030c018095a4c6b73301ffeeddccbbaa9988776655443322110006686f73742061010c018095a4c6b7330006686f73742061020c018095a4c6b7330006686f7374206103",
        ),
        (Outcome::Backup(BackupStep::State { frame: 7, bytes: 300 }), "01170107ac02"),
        (Outcome::Backup(BackupStep::Frames { numbers: vec![7, 300] }), "0117020207ac02"),
        (Outcome::Backup(BackupStep::End { frame: 300 }), "011703ac02"),
        (Outcome::QueueCreated { existed: true }, "010201"),
        (
            Outcome::Queue(Box::new(queue_info())),
            "0103064f7264657273e0d4030a000000000000000180808080c00280808004018095a4c6b7330102030405ac020102030405060708",
        ),
        (
            Outcome::Queues(vec![queue_info()]),
            "010401064f7264657273e0d4030a000000000000000180808080c00280808004018095a4c6b7330102030405ac020102030405060708",
        ),
        (Outcome::Sent(Sequences::Run { first: AT.sequence, count: 3 }), "010501ac0203"),
        (Outcome::Sent(Sequences::List(vec![AT.sequence, SequenceNumber(0)])), "01050202ac0200"),
        (Outcome::Count(300), "0106ac02"),
        (
            Outcome::Received(views()),
            "01070279ac02e8078095a4c6b73380f2ffc7b73304e0d40302030105040103020406e9070462c3b662028020dc0b028040dc0b60ac02e8078095a4c6b73301028020dc0b028040dc0b01",
        ),
        (
            Outcome::Peeked(views()),
            "01080279ac02e8078095a4c6b73380f2ffc7b73304e0d40302030105040103020406e9070462c3b662028020dc0b028040dc0b60ac02e8078095a4c6b73301028020dc0b028040dc0b01",
        ),
        (Outcome::Settled { refused: refused.clone() }, "010901010eac02"),
        (Outcome::Renewed { lock_ms: 60_000, refused }, "010ae0d40301010eac02"),
        (
            Outcome::Session(Some(SessionHold { token, lock_ms: 60_000 })),
            "010b010462c3b6620503e0d403",
        ),
        (Outcome::Session(None), "010b00"),
        (Outcome::SessionState(ContentId(1000), PLACE), "010ce807028020dc0b"),
        (Outcome::Sessions(vec![session()]), "010d010462c3b662"),
        (Outcome::Joined(MemberSlot(2)), "010e02"),
        (
            Outcome::Beat(Beat { resync: true, lost: leases.clone(), step_down: leases }),
            "010f0101076e696768746c790c01076e696768746c790c",
        ),
        (
            Outcome::Members(vec![member_info()]),
            "011001ffeeddccbbaa998877665544332211000206686f737420618095a4c6b73301076e696768746c790c",
        ),
        (Outcome::Granted { term: Term(12), ttl_ms: 15_000 }, "01110c9875"),
        (Outcome::Breaking { remaining_ms: 5_000 }, "01128827"),
        (
            Outcome::Lease(Some(Box::new(held))),
            "011301076e696768746c7901020c01ffeeddccbbaa9988776655443322110001ffeeddccbbaa9988776655443322110006686f73742061987588278095a4c6b7332c0101ffeeddccbbaa99887766554433221100",
        ),
        (Outcome::Lease(None), "011300"),
        (
            Outcome::Leases(vec![available, expired, breaking, broken]),
            "011404076e696768746c7901010c01ffeeddccbbaa9988776655443322110001ffeeddccbbaa9988776655443322110006686f73742061987588278095a4c6b7332c0101ffeeddccbbaa99887766554433221100076e696768746c7901030c01ffeeddccbbaa9988776655443322110001ffeeddccbbaa9988776655443322110006686f73742061987588278095a4c6b7332c0101ffeeddccbbaa99887766554433221100076e696768746c7901040c01ffeeddccbbaa9988776655443322110001ffeeddccbbaa9988776655443322110006686f73742061987588278095a4c6b7332c0101ffeeddccbbaa99887766554433221100076e696768746c7901050c01ffeeddccbbaa9988776655443322110001ffeeddccbbaa9988776655443322110006686f73742061987588278095a4c6b7332c0101ffeeddccbbaa99887766554433221100",
        ),
        (
            Outcome::SessionInfo(Some(Box::new(SessionInfo {
                id: session(),
                messages: 3,
                hold: Some(HOLDER),
                waits_for: Some(AT.sequence),
                state: ContentId(1000),
                place: PLACE,
            }))),
            "0115010462c3b662030101ffeeddccbbaa99887766554433221100882701ac02e807028020dc0b",
        ),
        (Outcome::SessionInfo(None), "011500"),
        (
            Outcome::Explained(Explanation { part: Part::Dead, causes: causes() }),
            "0116020a01040280f2ffc7b7330380f2ffc7b7330480f2ffc7b7330501ffeeddccbbaa99887766554433221100882706070801ffeeddccbbaa99887766554433221100882709ac020aac02",
        ),
    ]
}

/// Elections as operators see and steer them.
fn steering() -> Vec<(Outcome, &'static str)> {
    let successor = Some(MemberId(ID));
    let steered = LeaseInfo { paused: true, successor, ..lease_info(LeaseState::Leased) };
    let health = MemberHealth {
        info: member_info(),
        ttl_ms: 15_000,
        silent_ms: 300,
        waits_for: vec![lease_name()],
    };
    let other = HolderInfo {
        term: Term(13),
        state: LeaseState::Leased,
        id: Some(LeaseId(ID)),
        holder: Some(MemberId(ID)),
        metadata: "host b".into(),
        remaining_ms: 4_000,
        granted_at: TEN,
        step_down_asked: false,
    };
    let slotted = LeaseInfo { slots: 3, others: vec![other], ..lease_info(LeaseState::Leased) };
    let left_as = LeftAs::Ended { at: TEN, by: EndedBy::RanOut };
    let over = TermInfo { left_as, ..terms().remove(0) };
    vec![
        (
            Outcome::Lease(Some(Box::new(steered))),
            "011301076e696768746c7901020c01ffeeddccbbaa9988776655443322110001ffeeddccbbaa9988776655443322110006686f73742061987588278095a4c6b7332c07ffeeddccbbaa9988776655443322110001ffeeddccbbaa99887766554433221100",
        ),
        (
            Outcome::Lease(Some(Box::new(slotted))),
            "011301076e696768746c7901020c01ffeeddccbbaa9988776655443322110001ffeeddccbbaa9988776655443322110006686f73742061987588278095a4c6b7332c090301ffeeddccbbaa99887766554433221100010d0201ffeeddccbbaa9988776655443322110001ffeeddccbbaa9988776655443322110006686f73742062a01f80f2ffc7b73300",
        ),
        (
            Outcome::MemberHealth(vec![health]),
            "011e01ffeeddccbbaa998877665544332211000206686f737420618095a4c6b73301076e696768746c790c9875ac0201076e696768746c79",
        ),
        (Outcome::Turn { next: true }, "011f01"),
        (Outcome::Turn { next: false }, "011f00"),
        (
            Outcome::Terms(vec![over]),
            "0118010c018095a4c6b73301ffeeddccbbaa9988776655443322110006686f737420610480f2ffc7b73304",
        ),
    ]
}

fn refusals() -> Vec<(Refusal, &'static str)> {
    let queue = queue_name;
    vec![
        (Refusal::QueueNotFound(queue()), "0201064f7264657273"),
        (
            Refusal::QueueDisabled { queue: queue(), operation: Operation::Send },
            "0202064f726465727301",
        ),
        (
            Refusal::QueueDisabled { queue: queue(), operation: Operation::Receive },
            "0202064f726465727302",
        ),
        (Refusal::QueueFull { queue: queue(), size_bytes_max: 300 }, "0203064f7264657273ac02"),
        (Refusal::Busy { retry_after_ms: 300 }, "0204ac02"),
        (Refusal::DiskFull, "0205"),
        (
            Refusal::InvalidName { what: "queue name", why: "it is empty" },
            "02060a7175657565206e616d650b697420697320656d707479",
        ),
        (
            Refusal::InvalidValue { what: "lock_ms", why: "too long".into() },
            "0207076c6f636b5f6d7308746f6f206c6f6e67",
        ),
        (
            Refusal::TooLarge { what: "one send", bytes: 300, bytes_max: 200 },
            "0208086f6e652073656e64ac02c801",
        ),
        (Refusal::TooMany { what: "queues", max: 300 }, "020906717565756573ac02"),
        (Refusal::SessionRequired(queue()), "020a064f7264657273"),
        (Refusal::SessionNotSupported(queue()), "020b064f7264657273"),
        (Refusal::SessionLocked(session()), "020c0462c3b662"),
        (Refusal::SessionLost(session()), "020d0462c3b662"),
        (Refusal::LockLost(AT.sequence), "020eac02"),
        (Refusal::MessageNotFound(AT.sequence), "020fac02"),
        (Refusal::MemberGone, "0210"),
        (
            Refusal::Forbidden { right: Right::Send, on: "all queues".into() },
            "0212020a616c6c20717565756573",
        ),
        (
            Refusal::Fenced { election: lease_name(), term: Term(12), newest: Some(Term(13)) },
            "0213076e696768746c790c010d",
        ),
        (
            Refusal::Fenced { election: lease_name(), term: Term(12), newest: None },
            "0213076e696768746c790c00",
        ),
    ]
}

fn lease_refusals() -> Vec<(LeaseRefusal, &'static str)> {
    let lease = lease_name;
    vec![
        (LeaseRefusal::Held { lease: lease(), term: Term(12) }, "021101076e696768746c790c"),
        (LeaseRefusal::Breaking(lease()), "021102076e696768746c79"),
        (LeaseRefusal::Broken(lease()), "021103076e696768746c79"),
        (LeaseRefusal::BreakingCannotChange(lease()), "021104076e696768746c79"),
        (LeaseRefusal::IdMismatch(lease()), "021105076e696768746c79"),
        (LeaseRefusal::NotPresent(lease()), "021106076e696768746c79"),
        (LeaseRefusal::TermOver { lease: lease(), term: Term(12) }, "021107076e696768746c790c"),
        (LeaseRefusal::NotGranted(lease()), "021108076e696768746c79"),
        (LeaseRefusal::Paused(lease()), "021109076e696768746c79"),
        (
            LeaseRefusal::NotInLine { lease: lease(), member: MemberId(ID) },
            "02110a076e696768746c79ffeeddccbbaa99887766554433221100",
        ),
        (
            LeaseRefusal::OtherSlots { lease: lease(), slots: 3, asked: 300 },
            "021114076e696768746c7903ac02",
        ),
    ]
}

fn all() -> Vec<(Answer, &'static str)> {
    let outcomes = outcomes()
        .into_iter()
        .chain(steering())
        .chain(jobs::outcomes())
        .chain(schedules::outcomes())
        .map(|(outcome, hex)| (Ok(outcome), hex));
    let refusals = refusals()
        .into_iter()
        .chain(jobs::refusals())
        .chain(schedules::refusals())
        .map(|(refusal, hex)| (Err(refusal), hex));
    let lease_refusals =
        lease_refusals().into_iter().map(|(refusal, hex)| (Err(refusal.into()), hex));
    outcomes.chain(refusals).chain(lease_refusals).collect()
}

#[test]
fn todays_answers_are_written() {
    for (answer, wanted) in all() {
        assert_eq!(hex(&bytes_of(&answer)), wanted, "{answer:?}");
    }
}

#[test]
fn todays_answers_are_read() {
    for (answer, bytes) in all() {
        reads_as(bytes, &answer);
    }
}

/// A variant is written as a tag of its own, and so are its examples.
#[test]
fn every_answer_has_an_example() {
    let tags = |at: usize, ours: fn(&Answer) -> bool| {
        let examples = all().into_iter().filter(|(answer, _)| ours(answer));
        let tags: std::collections::BTreeSet<u8> =
            examples.map(|(answer, _)| bytes_of(&answer)[at]).collect();
        tags.len()
    };
    assert_eq!(tags(1, Result::is_ok), Outcome::VARIANTS);
    assert_eq!(tags(1, Result::is_err), Refusal::VARIANTS);
    let about_leases = |answer: &Answer| matches!(answer, Err(Refusal::Lease(_)));
    assert_eq!(tags(2, about_leases), LeaseRefusal::VARIANTS);
}
