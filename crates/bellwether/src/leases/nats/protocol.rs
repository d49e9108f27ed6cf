//! What is asked of the bucket, and in which order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::Subscriber;
use bellwether_core::command::{Acquire, LeaseKind};
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::outcome::{LeaseInfo, LeaseState};
use bellwether_core::time::BootTime;
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::super::Renewal;
use super::super::desk::{
    Desk, Turn, escaped, insist, jittered, left, not_granted, not_present, version,
};
use super::address::Address;
use super::bucket::{Bucket, Entry, NatsFault};
use super::record::Record;
use crate::error::Error;

/// How often whoever waits looks, once renewals stay out.
const POLL: Duration = Duration::from_millis(400);
/// Somebody else wrote at the same moment: so often is it tried again.
const TRIES: u32 = 5;

/// The keys of a bucket, and what this process does with them.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) desk: Arc<Desk>,
    bucket: Bucket,
    grants: Mutex<BTreeMap<LeaseId, Grant>>,
}

/// What was written last of a lease that is held here.
#[derive(Clone, Debug)]
struct Grant {
    sequence: u64,
    record: Record,
}

impl Keys {
    pub(super) async fn open(address: String) -> Result<Arc<Self>, Error> {
        let read = Address::read(&address).map_err(|why| Error::Address { address, why })?;
        let desk = Desk::new();
        let bucket = Bucket::open(&read, desk.clock.now().wall.0).await?;
        Ok(Arc::new(Self { desk, bucket, grants: Mutex::default() }))
    }

    fn grants(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Grant>> {
        // No code between lock and unlock can leave the map half changed.
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is not renewed from here on.
    pub(super) fn lets_go(&self, id: LeaseId) {
        self.desk.lets_go(id);
        self.grants().remove(&id);
    }

    pub(super) async fn acquire(&self, ask: &Acquire) -> Result<Term, Error> {
        self.desk.open()?;
        let turn = self.desk.turn(ask.id).await;
        let until = self.desk.clock.boot().plus_ms(ask.wait_ms);
        let key = escaped(&ask.lease);
        let (mut heard, mut gave_way) = (None, false);
        loop {
            let entry = self.bucket.read(&key).await.map_err(|fault| self.bucket.error(fault))?;
            let ttl = match self.claim(&key, ask, entry, &mut gave_way).await {
                Ok(Claim::Granted(term)) => return Ok(term),
                // Somebody was faster; it may be free again by now.
                Err(NatsFault::Changed) => continue,
                Ok(Claim::Held { ttl }) => ttl,
                Err(fault) => return Err(self.bucket.error(fault)),
            };
            if turn.withdrawn().is_cancelled() {
                return Err(turn.ended(&ask.lease));
            }
            match &mut heard {
                // Look once more when we listen: what was written before is heard of by nobody.
                None => {
                    let listening = self.bucket.listen(&key).await;
                    heard = Some(listening.map_err(|fault| self.bucket.error(fault))?);
                }
                Some(heard) => self.wait(ask, &turn, until, heard, ttl).await?,
            }
        }
    }

    /// Takes the key if it is free, or ours already.
    async fn claim(
        &self,
        key: &str,
        ask: &Acquire,
        entry: Option<Entry>,
        gave_way: &mut bool,
    ) -> Result<Claim, NatsFault> {
        let after = entry.as_ref().map_or(0, |entry| entry.sequence);
        let record = match entry.and_then(|entry| entry.record) {
            // Granted before, and the answer was lost: the same term, and a whole ttl from here on.
            Some(record) if !record.free && record.id == ask.id => record,
            Some(record) if !record.free => {
                return Ok(Claim::Held { ttl: Duration::from_millis(record.ttl_ms) });
            }
            // It was given back for somebody: whoever else waits lets that one go first.
            Some(Record { next: Some(next), .. }) if next != self.desk.member && !*gave_way => {
                *gave_way = true;
                return Ok(Claim::Held { ttl: Duration::ZERO });
            }
            _ => Record {
                term: Term(0),
                id: ask.id,
                holder: self.desk.member,
                ttl_ms: ask.ttl_ms,
                since: self.desk.clock.now().wall,
                says: ask.metadata.clone(),
                asked: false,
                free: false,
                next: None,
            },
        };
        let sequence = self.bucket.write(key, &record, after).await?;
        let term = if record.term == Term(0) { Term(sequence) } else { record.term };
        self.grants().insert(ask.id, Grant { sequence, record: Record { term, ..record } });
        self.desk.holds(ask.id, &ask.lease);
        Ok(Claim::Granted(term))
    }

    /// Until it was given back, or renewals stay out, or the time is over.
    async fn wait(
        &self,
        ask: &Acquire,
        turn: &Turn,
        until: BootTime,
        heard: &mut Subscriber,
        ttl: Duration,
    ) -> Result<(), Error> {
        let clock = &self.desk.clock;
        // The newest entry is not older than it runs; then it is looked at again and again.
        let mut silent = ttl;
        loop {
            let time = left(clock, until);
            if time.is_zero() {
                return Err(not_granted(&ask.lease));
            }
            let pause = if silent.is_zero() { jittered(POLL) } else { silent };
            let message = tokio::select! {
                () = turn.withdrawn().cancelled() => return Err(turn.ended(&ask.lease)),
                message = heard.next() => message,
                () = tokio::time::sleep(pause.min(time)) => return Ok(()),
            };
            let renewed = message.and_then(|message| Record::read(&message.payload, 0));
            match renewed {
                Some(record) if !record.free => silent = Duration::from_millis(record.ttl_ms),
                _ => return Ok(()),
            }
        }
    }

    pub(super) async fn renew(&self, key: &str, id: LeaseId, asked: &CancellationToken) -> Renewal {
        if self.desk.open().is_err() {
            return Renewal::Closed;
        }
        let known = self.grants().get(&id).cloned();
        let Some(mut grant) = known else { return Renewal::Unknown };
        for _ in 0..TRIES {
            match self.bucket.write(key, &grant.record, grant.sequence).await {
                Ok(sequence) => {
                    if let Some(known) = self.grants().get_mut(&id) {
                        *known = Grant { sequence, ..grant };
                    }
                    return Renewal::Renewed;
                }
                Err(NatsFault::Changed) => {}
                Err(_) => return Renewal::Unknown,
            }
            // A renewal of ours whose answer was lost, a word for us, or somebody else.
            grant = match self.bucket.read(key).await {
                Ok(Some(Entry { sequence, record: Some(record) }))
                    if record.id == id && !record.free =>
                {
                    if record.asked {
                        asked.cancel();
                    }
                    Grant { sequence, record }
                }
                // Whoever answers does not know yet what we know.
                Ok(Some(entry)) if entry.sequence <= grant.sequence => return Renewal::Unknown,
                Ok(_) => {
                    self.grants().remove(&id);
                    return Renewal::Lost;
                }
                Err(_) => return Renewal::Unknown,
            };
        }
        Renewal::Unknown
    }

    pub(super) async fn release(
        &self,
        lease: &LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
    ) -> Result<(), Error> {
        // Nothing that was asked under this id is on its way after this.
        let _turn = self.desk.turn(id).await;
        let mut known = self.grants().get(&id).cloned();
        self.lets_go(id);
        let key = escaped(lease);
        insist(&self.desk.clock, || self.give_back(&key, id, successor, known.take())).await
    }

    /// `known` is what was written last, if that is known.
    async fn give_back(
        &self,
        key: &str,
        id: LeaseId,
        successor: Option<MemberId>,
        mut known: Option<Grant>,
    ) -> Result<(), Error> {
        for _ in 0..TRIES {
            let grant = match known.take() {
                Some(grant) => grant,
                None => match self.bucket.read(key).await {
                    Ok(Some(Entry { sequence, record: Some(record) }))
                        if record.id == id && !record.free =>
                    {
                        Grant { sequence, record }
                    }
                    Ok(_) => return Ok(()),
                    Err(fault) => return Err(self.bucket.error(fault)),
                },
            };
            let record = Record { free: true, next: successor, ..grant.record };
            match self.bucket.write(key, &record, grant.sequence).await {
                Ok(_) => return Ok(()),
                Err(NatsFault::Changed) => {}
                Err(fault) => return Err(self.bucket.error(fault)),
            }
        }
        Err(self.bucket.error(NatsFault::Changed))
    }

    pub(super) async fn describe(&self, lease: &LeaseName) -> Result<Option<LeaseInfo>, Error> {
        self.desk.open()?;
        let entry = self.bucket.read(&escaped(lease)).await;
        let entry = entry.map_err(|fault| self.bucket.error(fault))?;
        Ok(entry.and_then(|entry| entry.record).map(|record| {
            let held = !record.free;
            LeaseInfo {
                slots: 1,
                others: Vec::new(),
                paused: false,
                successor: None,
                name: lease.clone(),
                kind: LeaseKind::Bound,
                state: if held { LeaseState::Leased } else { LeaseState::Available },
                term: record.term,
                id: held.then_some(record.id),
                holder: held.then_some(record.holder),
                metadata: record.says,
                ttl_ms: record.ttl_ms,
                // When it was renewed is known to the server's clock alone; not more than this.
                remaining_ms: if held { record.ttl_ms } else { 0 },
                granted_at: record.since,
                version: version(record.term, held, record.asked),
                step_down_asked: held && record.asked,
                waiting: Vec::new(),
            }
        }))
    }

    pub(super) async fn watch(
        &self,
        lease: &LeaseName,
        seen: u64,
        wait: Duration,
    ) -> Result<Option<LeaseInfo>, Error> {
        let until = self.desk.clock.boot().plus_ms(crate::queue::ms(wait));
        loop {
            let info = self.describe(lease).await?;
            let time = left(&self.desk.clock, until);
            if time.is_zero() || info.as_ref().map_or(0, |info| info.version) != seen {
                return Ok(info);
            }
            tokio::time::sleep(jittered(POLL).min(time)).await;
        }
    }

    /// The word is written into the holder's entry, which then lives a whole ttl from here on: a
    /// shorter one could end before the holder's trust does. The holder finds it with its next
    /// renewal, which does not expect it.
    pub(super) async fn ask_step_down(&self, lease: &LeaseName) -> Result<(), Error> {
        self.desk.open()?;
        let key = escaped(lease);
        for _ in 0..TRIES {
            let entry = self.bucket.read(&key).await.map_err(|fault| self.bucket.error(fault))?;
            let Some(Entry { sequence, record: Some(record) }) = entry else {
                return Err(not_present(lease));
            };
            if record.free {
                return Err(not_present(lease));
            }
            let record = Record { asked: true, ..record };
            match self.bucket.write(&key, &record, sequence).await {
                Ok(_) => return Ok(()),
                Err(NatsFault::Changed) => {}
                Err(fault) => return Err(self.bucket.error(fault)),
            }
        }
        Err(self.bucket.error(NatsFault::Changed))
    }
}

/// What came of trying to take a key.
enum Claim {
    Granted(Term),
    /// Somebody else has it, and renews it within this.
    Held {
        ttl: Duration,
    },
}
