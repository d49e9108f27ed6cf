//! A blob that is leased, for as long as it is renewed.

use std::sync::{Arc, Mutex, PoisonError};

use bellwether_core::name::{LeaseId, LeaseName, Term};
use bellwether_core::time::BootTime;
use tokio_util::sync::CancellationToken;

use super::super::desk::{escaped, run};
use super::super::{Answer, Hold, Renewal};
use super::protocol::Blobs;
use super::record::Record;
use crate::clock::Clock;
use crate::renewer;

/// See the module.
#[derive(Debug)]
pub(super) struct Held(Arc<Holding>);

#[derive(Debug)]
struct Holding {
    blobs: Arc<Blobs>,
    blob: String,
    id: LeaseId,
    term: Term,
    asked: CancellationToken,
    /// The blob's tag when it was last read.
    etag: Mutex<String>,
}

impl Held {
    pub(super) fn new(
        blobs: Arc<Blobs>,
        lease: &LeaseName,
        id: LeaseId,
        term: Term,
        asked: CancellationToken,
    ) -> Self {
        let (blob, etag) = (escaped(lease), Mutex::default());
        Self(Arc::new(Holding { blobs, blob, id, term, asked, etag }))
    }
}

impl Hold for Held {
    fn renew(&self, deadline: BootTime) -> Answer<Renewal> {
        let holding = Arc::clone(&self.0);
        run(async move {
            let clock = &holding.blobs.desk.clock;
            tokio::select! {
                renewal = holding.renew() => renewal,
                () = clock.sleep_until(deadline) => Renewal::Unknown,
            }
        })
    }
}

impl Holding {
    async fn renew(self: &Arc<Self>) -> Renewal {
        if self.blobs.desk.open().is_err() {
            return Renewal::Closed;
        }
        match self.blobs.container.renew(&self.blob, self.id).await {
            Ok(etag) => {
                let mut known = self.etag.lock().unwrap_or_else(PoisonError::into_inner);
                if *known != etag {
                    *known = etag;
                    drop(known);
                    let holding = Arc::clone(self);
                    renewer::spawn(&Clock::System, async move { holding.read_word().await });
                }
                Renewal::Renewed
            }
            Err(fault) if fault.is_not_ours() || fault.is_missing() => Renewal::Lost,
            Err(_) => Renewal::Unknown,
        }
    }

    /// Somebody wrote to the blob: maybe a word for us.
    async fn read_word(&self) {
        match self.blobs.container.look(&self.blob, Some(self.id)).await {
            Ok(seen) => {
                let word = |record: Record| record.asked && record.term == self.term;
                if seen.record.is_some_and(word) {
                    self.asked.cancel();
                }
            }
            // The next renewal looks again.
            Err(_) => {
                self.etag.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.blobs.desk.lets_go(self.0.id);
    }
}
