//! What cases say often.

use std::time::Duration;

use bellwether_core::command::{
    Acquire, Command, Disposition, HeldSet, LeaseKind, ReceiveMode, Request, Settlement,
};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::few::Few;
use bellwether_core::member::digest;
use bellwether_core::name::{
    LeaseId, LeaseName, LockToken, MemberId, MemberSlot, QueuePath, RequestNumber, Term,
};
use bellwether_core::outcome::{Beat, LeaseInfo, Outcome};
use bytes::Bytes;

use super::Fixture;
use crate::delivery::Delivery;
use crate::engine::Reply;
use crate::error::Error;
use crate::handle::Bellwether;
use crate::queue::Queue;
use bellwether_core::settings::QueueSettings;

/// A lock that a case lets run out: short, because some engines really wait for it.
pub(super) const LOCK_MS: u32 = 2_000;
pub(super) const LOCK: Duration = Duration::from_millis(LOCK_MS as u64);
/// Nothing that is there takes so long to come.
const AT_LAST: Duration = Duration::from_secs(20);

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A queue with short locks.
pub(super) fn short_locks() -> QueueSettings {
    QueueSettings { lock_ms: LOCK_MS, ..QueueSettings::default() }
}

/// A queue of sessions with short holds.
pub(super) fn sessions() -> QueueSettings {
    QueueSettings { sessions: true, ..short_locks() }
}

impl Fixture {
    /// A queue with short locks.
    pub(super) async fn queue(&self) -> Queue {
        self.queue_with(short_locks()).await
    }

    /// A queue.
    pub(super) async fn queue_with(&self, settings: QueueSettings) -> Queue {
        self.bellwether().create_queue("orders", settings).await.unwrap()
    }

    /// Another queue.
    pub(super) async fn other_queue(&self, name: &str) -> Queue {
        self.bellwether().create_queue(name, short_locks()).await.unwrap()
    }
}

/// What must come, however long it really takes.
pub(super) async fn at_last<T>(what: &str, future: impl Future<Output = T>) -> T {
    let came = tokio::time::timeout(AT_LAST, future).await;
    came.unwrap_or_else(|late| panic!("{what}: nothing came, {late}"))
}

/// The next message, which must be there or on its way.
pub(super) async fn next(queue: &Queue) -> Delivery {
    let wait = queue.receive().wait(Duration::from_secs(3600)).one();
    at_last("the next message", wait).await.unwrap().expect("a message before the wait ended")
}

/// The text of the next message, which is completed.
pub(super) async fn taken(queue: &Queue) -> String {
    let delivery = next(queue).await;
    let text = text(&delivery).to_owned();
    delivery.complete().await.unwrap();
    text
}

/// Receives and deletes, at most so many; how many. Where an answer may get lost it is done in two
/// steps: whoever deletes in one does not hear what became of it then.
pub(super) async fn and_delete(fixture: &Fixture, queue: &Queue, max: u32) -> usize {
    if !fixture.loses_answers() {
        return queue.receive().max(max).and_delete().await.unwrap().len();
    }
    let deliveries = queue.receive().max(max).many().await.unwrap();
    let count = deliveries.len();
    let settlements = deliveries.into_iter().map(|delivery| {
        let (token, disposition) = (delivery.keep(), Disposition::Complete);
        Settlement { token, disposition, overlay: None }
    });
    let command = Command::Settle { from: path_of(queue), settlements: settlements.collect() };
    Caller::of(&fixture.bellwether()).ask(command).await.unwrap();
    count
}

/// There must be nothing to receive.
pub(super) async fn nothing(queue: &Queue) {
    let found = queue.receive().one().await.unwrap();
    assert!(found.is_none(), "nothing should be there, but: {found:?}");
}

/// The text of a delivery's body.
pub(super) fn text(delivery: &Delivery) -> &str {
    delivery.text().expect("a text body")
}

/// The refusal in a result that must be one.
pub(super) fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("a refusal was expected, not {other:?}"),
    }
}

/// Ends a delivery by its token alone, as any holder of the token may.
pub(super) async fn settle(
    queue: &Queue,
    token: LockToken,
    disposition: Disposition,
) -> Result<(), Refusal> {
    let settlements = Few::One(Settlement { token, disposition, overlay: None });
    let command = Command::Settle { from: path_of(queue), settlements };
    match queue.ask(command).await.unwrap().outcome {
        Outcome::Settled { mut refused } => refused.pop().map_or(Ok(()), |(_, why)| Err(why)),
        other => panic!("{other:?}"),
    }
}

pub(super) fn path_of(queue: &Queue) -> QueuePath {
    if queue.is_dead_letters() {
        QueuePath::dead(queue.name().clone())
    } else {
        QueuePath::main(queue.name().clone())
    }
}

/// A receive, as it is.
pub(super) fn receive_command(queue: &Queue, max: u32, wait_ms: u64) -> Command {
    let (from, mode) = (path_of(queue), ReceiveMode::PeekLock);
    let (session, lock_ms) = (None, None);
    Command::Receive(bellwether_core::command::Receive {
        from,
        session,
        max,
        mode,
        wait_ms,
        lock_ms,
    })
}

/// A member, and its requests as they are.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) bellwether: Bellwether,
    pub(super) slot: MemberSlot,
    pub(super) id: MemberId,
}

impl Caller {
    /// The handle's own member.
    pub(super) fn of(bellwether: &Bellwether) -> Self {
        let (slot, id) = (bellwether.slot(), bellwether.member());
        Self { bellwether: bellwether.clone(), slot, id }
    }

    /// A member of its own that may be silent for `ttl`.
    pub(super) async fn join(fixture: &Fixture, id: u128, ttl: Duration) -> Self {
        let (bellwether, id) = (fixture.bellwether(), MemberId(id));
        let nobody = Self { bellwether: bellwether.clone(), slot: MemberSlot(0), id };
        match nobody.ask(join_command(id, ttl)).await.unwrap() {
            Outcome::Joined(slot) => Self { bellwether, slot, id },
            other => panic!("{other:?}"),
        }
    }

    /// The same member after the store was opened again.
    pub(super) fn again(&self, bellwether: &Bellwether) -> Self {
        Self { bellwether: bellwether.clone(), ..self.clone() }
    }

    /// Asks without a number.
    pub(super) async fn ask(&self, command: Command) -> Result<Outcome, Error> {
        Ok(self.ask_as(0, command, Vec::new()).await?.outcome)
    }

    /// Asks under a number: the same number again is the same request again.
    pub(super) async fn ask_as(
        &self,
        number: u64,
        command: Command,
        contents: Vec<Bytes>,
    ) -> Result<Reply, Error> {
        let request = Request {
            member: self.slot,
            number: RequestNumber(number),
            answered_below: RequestNumber(0),
            command,
            fence: None,
        };
        self.bellwether.call(request, contents).await
    }

    /// Asks for a lease.
    pub(super) async fn acquire(&self, ask: Acquire) -> Result<Term, Refusal> {
        term_of(self.ask(Command::Acquire(ask)).await)
    }

    /// Gives a lease back.
    pub(super) async fn release(&self, lease: &str, id: u128) -> Result<(), Refusal> {
        let (lease, id) = (lease_name(lease), LeaseId(id));
        match self.ask(Command::ReleaseLease { lease, id, successor: None }).await {
            Ok(_) => Ok(()),
            Err(error) => Err(refusal::<()>(Err(error))),
        }
    }

    /// Says that it is here and holds these.
    pub(super) async fn beat(&self, held: HeldSet) -> Result<Beat, Refusal> {
        match self.ask(Command::Heartbeat { held }).await {
            Ok(Outcome::Beat(beat)) => Ok(beat),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(refusal::<()>(Err(error))),
        }
    }

    /// The lease as everybody sees it.
    pub(super) async fn describe(&self, lease: &str) -> LeaseInfo {
        let command = Command::DescribeLease { lease: lease_name(lease) };
        match self.ask(command).await.unwrap() {
            Outcome::Lease(Some(info)) => *info,
            other => panic!("{other:?}"),
        }
    }
}

pub(super) fn join_command(id: MemberId, ttl: Duration) -> Command {
    Command::Join { id, metadata: "a case".into(), ttl_ms: ttl.as_millis() as u64 }
}

pub(super) fn lease_name(name: &str) -> LeaseName {
    LeaseName::new(name).unwrap()
}

/// A wish for a lease that a member's heartbeat keeps.
pub(super) fn bound(lease: &str, id: u128, ttl_ms: u64) -> Acquire {
    Acquire {
        lease: lease_name(lease),
        id: LeaseId(id),
        kind: LeaseKind::Bound,
        ttl_ms,
        metadata: String::new(),
        wait_ms: 0,
        priority: 0,
        slots: 1,
    }
}

/// A wish for a lease that stands by itself.
pub(super) fn standing(lease: &str, id: u128, ttl_ms: u64) -> Acquire {
    Acquire { kind: LeaseKind::Standing, ..bound(lease, id, ttl_ms) }
}

/// A set of held leases by its digest.
pub(super) fn same(held: &[(&str, Term)]) -> HeldSet {
    let named: Vec<_> = held.iter().map(|(name, term)| (lease_name(name), *term)).collect();
    HeldSet::Same {
        count: held.len() as u32,
        digest: digest(named.iter().map(|(name, term)| (name, *term))),
    }
}

/// A set of held leases in full.
pub(super) fn full(held: &[(&str, Term)]) -> HeldSet {
    HeldSet::List(held.iter().map(|(name, term)| (lease_name(name), *term)).collect())
}

pub(super) fn term_of(result: Result<Outcome, Error>) -> Result<Term, Refusal> {
    match result {
        Ok(Outcome::Granted { term, .. }) => Ok(term),
        Ok(other) => panic!("a grant was expected, not {other:?}"),
        Err(error) => Err(refusal::<()>(Err(error))),
    }
}

/// The lease refusal in a result that must be one.
pub(super) fn lease_refusal<T: std::fmt::Debug>(result: Result<T, Refusal>) -> LeaseRefusal {
    match result {
        Err(Refusal::Lease(refusal)) => refusal,
        other => panic!("a refusal was expected, not {other:?}"),
    }
}
