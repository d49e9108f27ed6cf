//! Leases of Azure Blob Storage: one blob for each election, leased under the candidacy's id.
//!
//! ```text
//!   acquire: lease the blob ─► read the term in it ─► write term + 1 under the lease ─► granted
//! ```
//!
//! Why the engine's promises hold:
//!
//! 1. *One holder, growing terms.* The service leases a blob to one id at a time. The term is
//!    written before anybody hears of the grant, and only with the lease: whoever was frozen
//!    between leasing and writing is refused (412), so no two grants write the same term. A blob
//!    without a term starts at Unix milliseconds, also one that was deleted and made again.
//! 2. *Renewed means later.* The service counts the whole duration from when the renewal reached it,
//!    which is after it was asked for. 409 with a lease's code and 404 are its word that the lease
//!    is gone; a timeout, 5xx and whatever else are not.
//! 3. *The same id is the same ask.* The service leases a blob again to the id that has it, and the
//!    id stands beside the term that was granted to it.
//! 4. *A release is for its id.* The service refuses any other.
//!
//! The service tells nobody that a lease is free: whoever waits looks, about once a second and never
//! in step with others, and sooner if whoever gave it back said so (`ears.rs`).

mod address;
mod blob;
mod ears;
mod held;
mod http;
mod protocol;
mod record;

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::candidacy::LossReason;
use bellwether_core::command::Acquire;
use bellwether_core::error::Refusal;
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::outcome::{LeaseInfo, TermInfo};
use tokio_util::sync::CancellationToken;

use super::desk::{leases_at_desk, run};
use super::facts::AZURE_BLOB;
use super::{Answer, Facts, Hold, Leases, check_ttl_min};
use crate::clock::Clock;
use crate::error::Error;
use held::Held;
use protocol::Blobs;

/// The longest lease the service gives.
const TTL_MAX: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(crate) struct Azure(Arc<Blobs>);

impl Azure {
    /// The container at an address.
    pub(crate) async fn open(address: &str) -> Result<Self, Error> {
        let blobs = Blobs::new(address)?;
        let tried = Arc::clone(&blobs);
        run(async move { tried.try_pass().await }).await?;
        Ok(Self(blobs))
    }
}

impl Leases for Azure {
    leases_at_desk! { AZURE_BLOB }

    fn check_ttl(&self, ttl: Duration) -> Result<(), Refusal> {
        check_ttl_min(&AZURE_BLOB, ttl)?;
        if ttl > TTL_MAX {
            let why = format!(
                "{ttl:?} is longer than {TTL_MAX:?}, the longest that {} has",
                AZURE_BLOB.name
            );
            return Err(Refusal::InvalidValue { what: "ttl", why });
        }
        Ok(())
    }

    fn hold(
        &self,
        lease: LeaseName,
        id: LeaseId,
        term: Term,
        asked: CancellationToken,
    ) -> Box<dyn Hold> {
        Box::new(Held::new(Arc::clone(&self.0), &lease, id, term, asked))
    }

    fn release(
        &self,
        lease: LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
        _: LossReason,
    ) -> Answer<Result<(), Error>> {
        let blobs = Arc::clone(&self.0);
        run(async move { blobs.release(&lease, id, successor).await })
    }

    fn close(&self) -> Answer<()> {
        let blobs = Arc::clone(&self.0);
        run(async move {
            for (id, lease) in blobs.desk.close() {
                // What cannot be given back runs out.
                let _ = blobs.release(&lease, id, None).await;
            }
        })
    }
}
