//! Leases in a key-value bucket of NATS JetStream: one key for each election, with a time to live.
//!
//! ```text
//!   acquire: read the key ─► write it, if it is still as it was read ─► its sequence number is the term
//!   renew:   write it again, if nobody else has written since ─► its time to live begins anew
//! ```
//!
//! Why the engine's promises hold:
//!
//! 1. *One holder, growing terms.* Every write names the entry it expects to be the newest, and the
//!    stream's leader takes one such write. The term is the sequence number of the entry that took
//!    the key; a stream's sequence only grows, and that of a new stream begins at Unix milliseconds.
//! 2. *Renewed means later.* A renewal is a new entry, whose time to live begins when it is stored,
//!    which is after it was asked for. Servers remove what has run out never early, at times a
//!    second late. Lost is said only after the stream's leader has refused a write and an entry
//!    that is newer than ours, or none, is there.
//! 3. *The same id is the same ask.* The entry says under which id it was granted.
//! 4. *A release is for its id.* It is a write like any other, and expects our own entry.
//!
//! Reads go to the stream's leader; what any replica would say may be old.

mod address;
mod bucket;
mod protocol;
mod record;

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::candidacy::LossReason;
use bellwether_core::command::Acquire;
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::outcome::{LeaseInfo, TermInfo};
use bellwether_core::time::BootTime;
use tokio_util::sync::CancellationToken;

use super::desk::{escaped, leases_at_desk, run};
use super::facts::NATS;
use super::{Answer, Facts, Hold, Leases, Renewal};
use crate::clock::Clock;
use crate::error::Error;
use protocol::Keys;

/// See the module.
#[derive(Debug)]
pub(crate) struct Nats(Arc<Keys>);

impl Nats {
    /// Connects, and makes the bucket if there is none.
    pub(crate) async fn open(address: String) -> Result<Self, Error> {
        run(Keys::open(address)).await.map(Self)
    }
}

impl Leases for Nats {
    leases_at_desk! { NATS }

    fn hold(
        &self,
        lease: LeaseName,
        id: LeaseId,
        _: Term,
        asked: CancellationToken,
    ) -> Box<dyn Hold> {
        Box::new(Held { keys: Arc::clone(&self.0), key: escaped(&lease), id, asked })
    }

    fn release(
        &self,
        lease: LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
        _: LossReason,
    ) -> Answer<Result<(), Error>> {
        let keys = Arc::clone(&self.0);
        run(async move { keys.release(&lease, id, successor).await })
    }

    fn close(&self) -> Answer<()> {
        let keys = Arc::clone(&self.0);
        run(async move {
            for (id, lease) in keys.desk.close() {
                // What cannot be given back runs out.
                let _ = keys.release(&lease, id, None).await;
            }
        })
    }
}

/// A key that is renewed, until dropped.
#[derive(Debug)]
struct Held {
    keys: Arc<Keys>,
    key: String,
    id: LeaseId,
    asked: CancellationToken,
}

impl Hold for Held {
    fn renew(&self, deadline: BootTime) -> Answer<Renewal> {
        let (keys, key) = (Arc::clone(&self.keys), self.key.clone());
        let (id, asked) = (self.id, self.asked.clone());
        run(async move {
            tokio::select! {
                renewal = keys.renew(&key, id, &asked) => renewal,
                () = keys.desk.clock.sleep_until(deadline) => Renewal::Unknown,
            }
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.keys.desk.lets_go(self.id);
    }
}
