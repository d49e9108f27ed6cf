//! What is asked of the service, and in which order.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::command::{Acquire, LeaseKind};
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::outcome::{LeaseInfo, LeaseState};
use bellwether_core::time::BootTime;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::super::desk::{
    Desk, Turn, escaped, insist, jittered, left, not_granted, not_present, version,
};
use super::address::Address;
use super::blob::{BlobFault, Container};
use super::ears::{self, Ears, LISTEN_AGAIN};
use super::record::Record;
use crate::error::Error;
use crate::queue::ms;

/// Pause where somebody else must finish first.
const MOMENT: Duration = Duration::from_millis(250);
/// Between two looks that hints ask for passes at least so long.
const HINTED_LOOKS: Duration = Duration::from_millis(50);
/// Somebody else wrote at the same moment: so often is it tried again.
const TRIES: u32 = 5;

/// The blobs of a container, and what this process does with them.
#[derive(Debug)]
pub(super) struct Blobs {
    pub(super) desk: Arc<Desk>,
    pub(super) container: Container,
    ears: Ears,
}

impl Blobs {
    pub(super) fn new(address: &str) -> Result<Arc<Self>, Error> {
        let read = Address::read(address, |name| std::env::var(name).ok());
        let read = read.map_err(|why| Error::Address { address: address.to_owned(), why })?;
        let desk = Desk::new();
        let container = Container::new(read, desk.clock.clone());
        Ok(Arc::new(Self { desk, container, ears: Ears::default() }))
    }

    /// Tries what lets us in.
    pub(super) async fn try_pass(&self) -> Result<(), Error> {
        // No election has this name.
        match self.container.look("=", None).await {
            Ok(_) => Ok(()),
            Err(fault) if fault.is_missing() => Ok(()),
            Err(fault) => Err(self.container.error(fault)),
        }
    }

    pub(super) async fn acquire(&self, ask: &Acquire) -> Result<Term, Error> {
        self.desk.open()?;
        let turn = self.desk.turn(ask.id).await;
        let until = self.desk.clock.boot().plus_ms(ask.wait_ms);
        loop {
            if let Some(term) = self.try_acquire(ask).await? {
                self.desk.holds(ask.id, &ask.lease);
                return Ok(term);
            }
            self.wait_until_free(ask, &turn, until).await?;
        }
    }

    /// `None` if somebody else has it.
    async fn try_acquire(&self, ask: &Acquire) -> Result<Option<Term>, Error> {
        let (blob, seconds) = (escaped(&ask.lease), ask.ttl_ms.div_ceil(1000));
        for _ in 0..TRIES {
            match self.container.acquire(&blob, ask.id, seconds).await {
                Ok(()) => return self.take_office(&blob, ask).await,
                Err(fault) if fault.is_not_ours() => return Ok(None),
                Err(fault) if fault.is_missing() => self.create(&blob, &fault).await?,
                Err(fault) => return Err(self.container.error(fault)),
            }
        }
        Ok(None)
    }

    async fn create(&self, blob: &str, missing: &BlobFault) -> Result<(), Error> {
        let created = match missing.code() {
            "ContainerNotFound" | "ContainerBeingDeleted" => self.container.create().await,
            _ => self.container.create_blob(blob).await,
        };
        match created {
            Ok(()) => Ok(()),
            // Deleting a container takes the service a while; then there can be a new one.
            Err(fault) if fault.is_missing() => {
                tokio::time::sleep(jittered(4 * MOMENT)).await;
                Ok(())
            }
            Err(fault) => Err(self.container.error(fault)),
        }
    }

    /// Writes the term, with the lease. `None` if the lease was lost over it.
    async fn take_office(&self, blob: &str, ask: &Acquire) -> Result<Option<Term>, Error> {
        for _ in 0..TRIES {
            let seen = match self.container.look(blob, Some(ask.id)).await {
                Ok(seen) => seen,
                Err(fault) if fault.is_not_ours() || fault.is_missing() => return Ok(None),
                Err(fault) => return Err(self.container.error(fault)),
            };
            let now = self.desk.clock.now().wall;
            let term = match &seen.record {
                // Granted before, and the answer was lost.
                Some(record) if record.id == ask.id => return Ok(Some(record.term)),
                Some(record) => Term(record.term.0.saturating_add(1)),
                None => Term(now.0),
            };
            let record = Record {
                term,
                id: ask.id,
                holder: self.desk.member,
                ttl_ms: ask.ttl_ms,
                since: now,
                says: ask.metadata.clone(),
                asked: false,
                next: None,
            };
            match self.container.write(blob, ask.id, &seen.etag, &record).await {
                Ok(()) => return Ok(Some(term)),
                // A word for the holder before us came in between, or our own write did and its
                // answer was lost.
                Err(fault) if fault.is_changed() => {}
                Err(fault) if fault.is_not_ours() || fault.is_missing() => return Ok(None),
                Err(fault) => return Err(self.container.error(fault)),
            }
        }
        Ok(None)
    }

    /// Looks until nobody has it, or until the time is over.
    async fn wait_until_free(
        &self,
        ask: &Acquire,
        turn: &Turn,
        until: BootTime,
    ) -> Result<(), Error> {
        let (blob, mut gave_way) = (escaped(&ask.lease), false);
        let mut hints = self.ears.listen(self.container.server()).await;
        let (mut listens_until, mut looks_at) = (BootTime(0), BootTime(0));
        loop {
            let now = self.desk.clock.now();
            let time = left(&self.desk.clock, until);
            if time.is_zero() {
                return Err(not_granted(&ask.lease));
            }
            if now.boot >= listens_until {
                // First this, then a look: whoever gives it back does that first and then reads who
                // listens, so one of the two sees the other.
                self.ears.register(&self.container, &blob, now.wall).await;
                listens_until = now.boot.plus_ms(ms(LISTEN_AGAIN));
            } else {
                tokio::select! {
                    () = turn.withdrawn().cancelled() => return Err(turn.ended(&ask.lease)),
                    () = self.hinted(hints.as_mut(), &blob, looks_at) => {}
                    () = tokio::time::sleep(jittered(self.container.poll()).min(time)) => {}
                }
            }
            looks_at = self.desk.clock.boot().plus_ms(ms(HINTED_LOOKS));
            let seen = match self.container.look(&blob, None).await {
                Ok(seen) => seen,
                Err(fault) if fault.is_missing() => return Ok(()),
                Err(fault) => return Err(self.container.error(fault)),
            };
            if seen.is_held() {
                continue;
            }
            // It was given back for somebody: whoever else waits lets that one look first.
            let next = seen.record.and_then(|record| record.next);
            if gave_way || next.is_none_or(|next| next == self.desk.member) {
                return Ok(());
            }
            gave_way = true;
        }
    }

    /// Waits until somebody says that this blob is worth a look, and until `earliest`: made-up hints
    /// must not make us look all the time. For ever if nobody can say so.
    async fn hinted(
        &self,
        hints: Option<&mut broadcast::Receiver<Arc<str>>>,
        blob: &str,
        earliest: BootTime,
    ) {
        let Some(hints) = hints else { return std::future::pending().await };
        loop {
            match hints.recv().await {
                Ok(named) if *named == *blob => break,
                // Some were missed: ours may be among them.
                Err(RecvError::Lagged(_)) => break,
                Ok(_) => {}
                Err(RecvError::Closed) => return std::future::pending().await,
            }
        }
        tokio::time::sleep(left(&self.desk.clock, earliest)).await;
    }

    pub(super) async fn release(
        &self,
        lease: &LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
    ) -> Result<(), Error> {
        // Nothing that was asked under this id is on its way after this.
        let _turn = self.desk.turn(id).await;
        self.desk.lets_go(id);
        let blob = escaped(lease);
        if let Some(successor) = successor {
            self.name_next(&blob, id, successor).await;
        }
        insist(&self.desk.clock, || async {
            match self.container.release(&blob, id).await {
                Ok(()) => Ok(()),
                Err(fault) if fault.is_not_ours() || fault.is_missing() => Ok(()),
                Err(fault) => Err(self.container.error(fault)),
            }
        })
        .await?;
        ears::tell(&self.container, &blob, self.desk.clock.now().wall).await;
        Ok(())
    }

    /// A wish: whatever becomes of it, the lease is given back.
    async fn name_next(&self, blob: &str, id: LeaseId, next: MemberId) {
        if let Ok(seen) = self.container.look(blob, Some(id)).await
            && let Some(record) = seen.record
        {
            let record = Record { next: Some(next), ..record };
            let _ = self.container.write(blob, id, &seen.etag, &record).await;
        }
    }

    pub(super) async fn describe(&self, lease: &LeaseName) -> Result<Option<LeaseInfo>, Error> {
        self.desk.open()?;
        let seen = match self.container.look(&escaped(lease), None).await {
            Ok(seen) => seen,
            Err(fault) if fault.is_missing() => return Ok(None),
            Err(fault) => return Err(self.container.error(fault)),
        };
        let held = seen.is_held();
        // Whoever has leased it and not yet written its term is nobody's leader, and neither is the
        // one before, whom the blob still names.
        let leads = match &seen.record {
            Some(record) if held => {
                match self.container.look(&escaped(lease), Some(record.id)).await {
                    Ok(_) => true,
                    Err(fault) if fault.is_not_ours() || fault.is_missing() => false,
                    Err(fault) => return Err(self.container.error(fault)),
                }
            }
            _ => false,
        };
        Ok(seen.record.map(|record| LeaseInfo {
            slots: 1,
            others: Vec::new(),
            paused: false,
            successor: None,
            name: lease.clone(),
            kind: LeaseKind::Bound,
            state: seen.state,
            term: record.term,
            id: leads.then_some(record.id),
            holder: leads.then_some(record.holder),
            metadata: record.says,
            ttl_ms: record.ttl_ms,
            // The service does not tell; not more than this.
            remaining_ms: if held { record.ttl_ms } else { 0 },
            granted_at: record.since,
            version: version(record.term, held, record.asked),
            step_down_asked: leads && record.asked,
            waiting: Vec::new(),
        }))
    }

    pub(super) async fn watch(
        &self,
        lease: &LeaseName,
        seen: u64,
        wait: Duration,
    ) -> Result<Option<LeaseInfo>, Error> {
        let until = self.desk.clock.boot().plus_ms(ms(wait));
        loop {
            let info = self.describe(lease).await?;
            let time = left(&self.desk.clock, until);
            if time.is_zero() || info.as_ref().map_or(0, |info| info.version) != seen {
                return Ok(info);
            }
            tokio::time::sleep(jittered(self.container.poll()).min(time)).await;
        }
    }

    /// The word is written under the holder's own id, which anybody can read: the service takes it
    /// only while that id has the lease, so it never reaches the next one.
    pub(super) async fn ask_step_down(&self, lease: &LeaseName) -> Result<(), Error> {
        self.desk.open()?;
        let blob = escaped(lease);
        for _ in 0..TRIES {
            let seen = match self.container.look(&blob, None).await {
                Ok(seen) if seen.state == LeaseState::Leased => seen,
                Ok(_) => return Err(not_present(lease)),
                Err(fault) if fault.is_missing() => return Err(not_present(lease)),
                Err(fault) => return Err(self.container.error(fault)),
            };
            if let Some(record) = seen.record {
                let (id, record) = (record.id, Record { asked: true, ..record });
                match self.container.write(&blob, id, &seen.etag, &record).await {
                    Ok(()) => return Ok(()),
                    Err(fault) if fault.is_changed() || fault.is_not_ours() => {}
                    Err(fault) => return Err(self.container.error(fault)),
                }
            }
            // Somebody is taking office at this moment.
            tokio::time::sleep(jittered(MOMENT)).await;
        }
        Err(not_present(lease))
    }
}
