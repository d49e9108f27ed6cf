//! Journals of today, for the programs of tomorrow.
//!
//! Never change a line of bytes here: it is in somebody's journal. What is new gets a new line.

#[path = "golden/answers.rs"]
mod answers;
#[path = "golden/jobs.rs"]
mod jobs;
#[path = "golden/schedules.rs"]
mod schedules;

use super::random::Random;
use super::{Coded, WRITTEN_AT, assert_same, bytes_of};
use bellwether_core::change::{self, Change, Departure, KeptOutcome};
use bellwether_core::codec::Reader;
use bellwether_core::command::{LeaseKind, ReleaseReason};
use bellwether_core::content::{ContentId, Place};
use bellwether_core::error::Refusal;
use bellwether_core::lease::{self, Lease};
use bellwether_core::message::{Lock, Message, Reason, Standing, State};
use bellwether_core::name::{
    At, DeliveryNumber, Incarnation, LeaseId, LeaseName, LockToken, MemberId, MemberSlot, Part,
    QueueId, QueueName, RequestNumber, SequenceNumber, SessionId, SessionToken, Term,
};
use bellwether_core::outcome::{Beat, EndedBy, Outcome, Sequences, SessionHold, Totals};
use bellwether_core::settings::{Durability, QueueSettings, Status};
use bellwether_core::time::{BootTime, WallTime};

const NINE: WallTime = WallTime(1_767_258_000_000);
const TEN: WallTime = WallTime(1_767_261_600_000);
const AT: At = At { queue: QueueId(7), part: Part::Main, sequence: SequenceNumber(300) };
const DEAD_AT: At = At { queue: QueueId(7), part: Part::Dead, sequence: SequenceNumber(300) };
const ID: u128 = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;
const LOCK: Lock = Lock {
    until: BootTime(0),
    lock_ms: 60_000,
    member: MemberSlot(2),
    incarnation: Incarnation(3),
    deferred: true,
};
const MESSAGE: Message = Message {
    content: ContentId(1000),
    enqueued_at: NINE,
    expires_at: WallTime::NEVER,
    origin: AT.sequence,
    session: 0,
    source: QueueId(0),
    standing: Standing::new(State::Ready),
};
const STANDING: Standing = Standing {
    state: State::Ready,
    number: DeliveryNumber(5),
    deliveries: 4,
    failures: 1,
    crashes: 3,
    releases: 2,
    reason: Reason::TtlExpired,
    hops: 6,
    overlay: ContentId(1001),
};

const TOTALS: Totals = Totals {
    sent: 1,
    duplicates: 2,
    completed: 3,
    expired: 4,
    purged: 5,
    cancelled: 6,
    forwarded: 7,
    dead_lettered: 8,
};

fn queue_name() -> QueueName {
    QueueName::new("Orders").unwrap()
}

fn lease_name() -> LeaseName {
    LeaseName::new("nightly").unwrap()
}

fn session() -> SessionId {
    SessionId::new("böb").unwrap()
}

fn queue(settings: QueueSettings) -> Change {
    let settings = Box::new(settings);
    Change::Queue { id: QueueId(7), name: queue_name(), settings, created_at: NINE }
}

fn standing(state: State) -> Change {
    Change::Standing { at: AT, standing: Standing { state, ..STANDING } }
}

fn reasoned(reason: Reason) -> Change {
    Change::Standing { at: AT, standing: Standing { reason, ..STANDING } }
}

fn kept(outcome: KeptOutcome) -> Change {
    Change::Kept {
        member: MemberSlot(2),
        number: RequestNumber(40),
        answered_below: RequestNumber(38),
        outcome,
    }
}

fn plain(outcome: Outcome) -> Change {
    kept(KeptOutcome::Plain(outcome))
}

fn held(kind: LeaseKind, hold: lease::Hold) -> Change {
    let lease = Lease {
        term: Term(12),
        hold,
        kind,
        ttl_ms: 15_000,
        member: MemberSlot(2),
        metadata: "host a".into(),
        granted_at: NINE,
        version: 44,
        step_down_asked: true,
        successor: MemberSlot(0),
        paused: false,
        slots: 1,
    };
    Change::Lease { name: lease_name(), slot: 0, lease: Box::new(lease) }
}

/// The same, free, and steered by operators.
fn steered(step_down_asked: bool, successor: u32, paused: bool) -> Change {
    let mut change = held(LeaseKind::Bound, lease::Hold::Free);
    if let Change::Lease { lease, .. } = &mut change {
        (lease.step_down_asked, lease.paused) = (step_down_asked, paused);
        lease.successor = MemberSlot(successor);
    }
    change
}

/// The same, one of three slots.
fn slotted(of: u32) -> Change {
    let hold = lease::Hold::Held { id: LeaseId(ID), renewed_at: WRITTEN_AT };
    let mut change = held(LeaseKind::Bound, hold);
    if let Change::Lease { slot, lease, .. } = &mut change {
        (*slot, lease.slots) = (of, 3);
    }
    change
}

fn ended(by: EndedBy) -> Change {
    Change::TermEnded { name: lease_name(), term: Term(12), at: TEN, by }
}

/// The variant's place in the table of [`super::tables`].
fn variant_of(change: &Change) -> usize {
    match change {
        Change::Opened { .. } => 0,
        Change::Queue { .. } => 1,
        Change::QueueGone { .. } => 2,
        Change::QueueTotals { .. } => 3,
        Change::Content { .. } => 4,
        Change::ContentAt { .. } => 5,
        Change::Message { .. } => 6,
        Change::Standing { .. } => 7,
        Change::Gone { .. } => 8,
        Change::Duplicate { .. } => 9,
        Change::Seen { .. } => 10,
        Change::Session { .. } => 11,
        Change::Member { .. } => 12,
        Change::MemberGone { .. } => 13,
        Change::Kept { .. } => 14,
        Change::Lease { .. } => 15,
        Change::TermsFrom { .. } => 16,
        Change::TermEnded { .. } => 17,
        Change::Job { .. } => 18,
        Change::JobGone { .. } => 19,
        Change::Items { .. } => 20,
        Change::Schedule { .. } => 21,
        Change::ScheduleGone { .. } => 22,
    }
}

fn status(status: Status) -> QueueSettings {
    QueueSettings { status, ..QueueSettings::default() }
}

fn queues() -> Vec<(Change, &'static str)> {
    let rich = QueueSettings {
        ttl_ms: Some(3_600_000),
        dead_letter_expired: true,
        duplicate_window_ms: Some(600_000),
        sessions: true,
        forward_to: Some(QueueName::new("b").unwrap()),
        forward_dead_letters_to: Some(QueueName::new("c").unwrap()),
        delete_idle_ms: Some(300_000),
        status: Status::SendDisabled,
        durability: Durability::Relaxed,
        ..QueueSettings::default()
    };
    vec![
        (Change::Opened { incarnation: Incarnation(3) }, "0103"),
        (
            queue(QueueSettings::default()),
            "0207064f7264657273e0d4030a000000000000000180808080c00280808004018095a4c6b733",
        ),
        (
            queue(rich),
            "0207064f7264657273e0d4030a0180dddb010101c0cf240101016201016301e0a7120280808080c00280808004028095a4c6b733",
        ),
        (
            queue(status(Status::ReceiveDisabled)),
            "0207064f7264657273e0d4030a000000000000000380808080c00280808004018095a4c6b733",
        ),
        (
            queue(status(Status::Disabled)),
            "0207064f7264657273e0d4030a000000000000000480808080c00280808004018095a4c6b733",
        ),
        (Change::QueueGone { id: QueueId(7) }, "0307"),
        (
            Change::QueueTotals { id: QueueId(7), as_of: 99, next: AT.sequence, totals: TOTALS },
            "040763ac020102030405060708",
        ),
    ]
}

fn messages() -> Vec<(Change, &'static str)> {
    let rich = Message {
        expires_at: TEN,
        origin: SequenceNumber(20),
        source: QueueId(9),
        standing: Standing { state: State::Locked(LOCK), ..STANDING },
        ..MESSAGE
    };
    let place = Place { unit: 2, offset: 4096, len: 1500 };
    vec![
        (Change::Content { id: ContentId(1000), index: 0, len: 1500 }, "05e807dc0b"),
        (Change::ContentAt { id: ContentId(1000), place }, "06e807028020dc0b"),
        (
            Change::Message { at: AT, message: MESSAGE, session: None, arrived: true },
            "074007ac02e8078095a4c6b73301",
        ),
        (
            Change::Message {
                at: DEAD_AT,
                message: rich,
                session: Some(session()),
                arrived: false,
            },
            "073f07ac02e8078095a4c6b73380f2ffc7b733140904e0d40302030105040103020406e9070462c3b662",
        ),
        (standing(State::Ready), "080701ac020105040103020406e907"),
        (standing(State::Scheduled { due: TEN }), "080701ac020280f2ffc7b73305040103020406e907"),
        (standing(State::Delayed { due: TEN }), "080701ac020380f2ffc7b73305040103020406e907"),
        (standing(State::Locked(LOCK)), "080701ac0204e0d40302030105040103020406e907"),
        (standing(State::Deferred), "080701ac020505040103020406e907"),
        (reasoned(Reason::None), "080701ac020105040103020106e907"),
        (reasoned(Reason::Application), "080701ac020105040103020206e907"),
        (reasoned(Reason::MaxDeliveryCountExceeded), "080701ac020105040103020306e907"),
        (reasoned(Reason::MaxTransferHopCountExceeded), "080701ac020105040103020506e907"),
        (reasoned(Reason::ForwardTargetUnavailable), "080701ac020105040103020606e907"),
        (reasoned(Reason::SessionIdIsNull), "080701ac020105040103020706e907"),
        (Change::Gone { at: AT, why: Departure::Completed }, "090701ac0201"),
        (Change::Gone { at: DEAD_AT, why: Departure::Expired }, "090702ac0202"),
        (Change::Gone { at: AT, why: Departure::Purged }, "090701ac0203"),
        (Change::Gone { at: AT, why: Departure::Cancelled }, "090701ac0204"),
        (Change::Gone { at: AT, why: Departure::Forwarded }, "090701ac0205"),
        (Change::Gone { at: AT, why: Departure::DeadLettered }, "090701ac0206"),
        (Change::Gone { at: AT, why: Departure::Moved }, "090701ac0207"),
        (Change::Duplicate { queue: QueueId(7) }, "0a07"),
        (
            Change::Seen { queue: QueueId(7), id_hash: ID, at: NINE },
            "0b07ffeeddccbbaa998877665544332211008095a4c6b733",
        ),
    ]
}

fn sessions_and_members() -> Vec<(Change, &'static str)> {
    let hold = change::Hold { member: MemberSlot(2), lock_ms: 60_000, incarnation: Incarnation(3) };
    let session_change = |hold| Change::Session {
        queue: QueueId(7),
        session: session(),
        number: DeliveryNumber(5),
        hold,
        state: ContentId(1001),
    };
    vec![
        (session_change(Some(hold)), "0c070462c3b662050102e0d40303e907"),
        (session_change(None), "0c070462c3b6620500e907"),
        (
            Change::Member {
                slot: MemberSlot(2),
                id: MemberId(ID),
                metadata: "host a".into(),
                ttl_ms: 10_000,
                joined_at: NINE,
            },
            "0d02ffeeddccbbaa9988776655443322110006686f73742061904e8095a4c6b733",
        ),
        (Change::MemberGone { slot: MemberSlot(2), forgotten: true }, "0e0201"),
    ]
}

fn outcomes() -> Vec<(Change, &'static str)> {
    let token =
        LockToken { sequence: AT.sequence, number: DeliveryNumber(5), incarnation: Incarnation(3) };
    let session =
        SessionToken { session: session(), number: token.number, incarnation: token.incarnation };
    let run = Sequences::Run { first: AT.sequence, count: 3 };
    let list = Sequences::List(vec![AT.sequence, SequenceNumber(0)]);
    let refused = vec![(1, Refusal::LockLost(AT.sequence))];
    let beat = Beat { resync: false, lost: vec![(lease_name(), Term(12))], step_down: vec![] };
    vec![
        (
            kept(KeptOutcome::Deliveries {
                queue: QueueId(7),
                part: Part::Dead,
                tokens: vec![token],
            }),
            "0f02282602070201ac020503",
        ),
        (plain(Outcome::Done), "0f0228260101"),
        (plain(Outcome::QueueCreated { existed: true }), "0f022826010201"),
        (plain(Outcome::Sent(run)), "0f022826010501ac0203"),
        (plain(Outcome::Sent(list)), "0f02282601050202ac0200"),
        (plain(Outcome::Count(300)), "0f0228260106ac02"),
        (plain(Outcome::Settled { refused: refused.clone() }), "0f022826010901010eac02"),
        (plain(Outcome::Renewed { lock_ms: 60_000, refused }), "0f022826010ae0d40301010eac02"),
        (
            plain(Outcome::Session(Some(SessionHold { token: session, lock_ms: 60_000 }))),
            "0f022826010b010462c3b6620503e0d403",
        ),
        (plain(Outcome::Joined(MemberSlot(2))), "0f022826010e02"),
        (plain(Outcome::Beat(beat)), "0f022826010f0001076e696768746c790c00"),
        (plain(Outcome::Granted { term: Term(12), ttl_ms: 15_000 }), "0f02282601110c9875"),
        (plain(Outcome::Breaking { remaining_ms: 5_000 }), "0f02282601128827"),
    ]
}

fn leases() -> Vec<(Change, &'static str)> {
    let (id, bound) = (LeaseId(ID), LeaseKind::Bound);
    vec![
        (
            held(bound, lease::Hold::Free),
            "10076e696768746c790c010198750206686f737420618095a4c6b7332c01",
        ),
        (
            held(LeaseKind::Standing, lease::Hold::Free),
            "10076e696768746c790c010298750206686f737420618095a4c6b7332c01",
        ),
        (
            held(bound, lease::Hold::Held { id, renewed_at: WRITTEN_AT }),
            "10076e696768746c790c02ffeeddccbbaa998877665544332211000198750206686f737420618095a4c6b7332c01",
        ),
        (
            held(bound, lease::Hold::Broken { id, until: WRITTEN_AT.plus_ms(5_000) }),
            "10076e696768746c790c03ffeeddccbbaa9988776655443322110088270198750206686f737420618095a4c6b7332c01",
        ),
        (Change::TermsFrom { term: Term(300) }, "11ac02"),
        (steered(false, 0, true), "10076e696768746c790c010198750206686f737420618095a4c6b7332c02"),
        (
            steered(true, 300, false),
            "10076e696768746c790c010198750206686f737420618095a4c6b7332c05ac02",
        ),
        (
            steered(true, 300, true),
            "10076e696768746c790c010198750206686f737420618095a4c6b7332c07ac02",
        ),
        (
            slotted(0),
            "10076e696768746c790c02ffeeddccbbaa998877665544332211000198750206686f737420618095a4c6b7332c0903",
        ),
        (
            slotted(2),
            "1e076e696768746c79020c02ffeeddccbbaa998877665544332211000198750206686f737420618095a4c6b7332c0903",
        ),
        (ended(EndedBy::Released { reason: None }), "14076e696768746c790c80f2ffc7b7330100"),
        (
            ended(EndedBy::Released { reason: Some(ReleaseReason::Asked) }),
            "14076e696768746c790c80f2ffc7b733010101",
        ),
        (
            ended(EndedBy::Released { reason: Some(ReleaseReason::Shutdown) }),
            "14076e696768746c790c80f2ffc7b733010102",
        ),
        (
            ended(EndedBy::Released { reason: Some(ReleaseReason::Finished) }),
            "14076e696768746c790c80f2ffc7b733010103",
        ),
        (
            ended(EndedBy::Released { reason: Some(ReleaseReason::Failed) }),
            "14076e696768746c790c80f2ffc7b733010104",
        ),
        (
            ended(EndedBy::Released { reason: Some(ReleaseReason::Stalled) }),
            "14076e696768746c790c80f2ffc7b733010105",
        ),
        (
            ended(EndedBy::Released { reason: Some(ReleaseReason::HandedOver) }),
            "14076e696768746c790c80f2ffc7b733010106",
        ),
        (ended(EndedBy::Goodbye), "14076e696768746c790c80f2ffc7b73302"),
        (ended(EndedBy::Died), "14076e696768746c790c80f2ffc7b73303"),
        (ended(EndedBy::RanOut), "14076e696768746c790c80f2ffc7b73304"),
        (ended(EndedBy::Broken), "14076e696768746c790c80f2ffc7b73305"),
        (ended(EndedBy::ChangedId), "14076e696768746c790c80f2ffc7b73306"),
        (ended(EndedBy::Disconnected), "14076e696768746c790c80f2ffc7b73307"),
    ]
}

fn all() -> Vec<(Change, &'static str)> {
    [
        queues(),
        messages(),
        sessions_and_members(),
        outcomes(),
        leases(),
        jobs::changes(),
        schedules::changes(),
    ]
    .concat()
}

fn hex_digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hex_digit).collect()
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[track_caller]
fn reads_as<T: Coded>(bytes: &str, wanted: &T) {
    let bytes = from_hex(bytes);
    let mut reader = Reader::new(&bytes);
    assert_same(&T::decode(&mut reader).unwrap(), &wanted.clone().once_read());
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn todays_bytes_are_written() {
    for (change, wanted) in all() {
        assert_eq!(hex(&bytes_of(&change)), wanted, "{change:?}");
    }
}

#[test]
fn todays_bytes_are_read() {
    for (change, bytes) in all() {
        reads_as(bytes, &change);
    }
}

#[test]
fn every_variant_has_an_example() {
    let examples = all();
    for variant in 0..Change::VARIANTS {
        let has_example = examples.iter().any(|(change, _)| variant_of(change) == variant);
        assert!(has_example, "variant {variant} has no example");
    }
}
