//! Leases of ZooKeeper: candidates stand in line as nodes that go with their session, and the first
//! one leads.
//!
//! ```text
//!   acquire: make a node, numbered by the ensemble ─► wait for the one before it to go
//!            ─► first, still there, and of this session ─► granted
//!   renew:   ask the ensemble's leader for our node: its session is alive
//! ```
//!
//! Why the engine's promises hold:
//!
//! 1. *One holder, growing terms.* A node that is first stays first until it goes, and it goes when
//!    its session ends or its holder deletes it. The term is the transaction that made the node:
//!    those who lead later stood in line behind, so theirs were made later. No grant is announced
//!    on the word of a name alone: the node must go with the session that we have (a node of a
//!    session before it is about to go).
//! 2. *Renewed means later.* The question travels to the ensemble's leader, which refuses a session
//!    that has ended; and whoever carries it there has heard of the session, whose timeout begins
//!    anew. It is longer than the ttl by a quarter, because a server that dies may take with it what
//!    it has heard in the last half tick. A connection that is lost is *unknown*; that the session
//!    has ended, or that the node is gone, is the ensemble's word.
//! 3. *The same id is the same ask.* The id is part of the node's name, so a node whose making was
//!    not answered is found again.
//! 4. *A release is for its id.* Nodes are deleted by name, and the id is part of that.

mod address;
mod jute;
mod nodes;
mod protocol;
mod session;

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::candidacy::LossReason;
use bellwether_core::command::Acquire;
use bellwether_core::error::Refusal;
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::outcome::{LeaseInfo, TermInfo};
use bellwether_core::time::BootTime;
use tokio_util::sync::CancellationToken;

use super::desk::{leases_at_desk, run};
use super::facts::ZOOKEEPER;
use super::{Answer, Facts, Hold, Leases, Renewal, check_ttl_min};
use crate::clock::Clock;
use crate::error::Error;
use protocol::Line;

/// How much longer a session lives than the leases in it.
const SESSION_PERCENT: u32 = 125;

/// See the module.
#[derive(Debug)]
pub(crate) struct ZooKeeper(Arc<Line>);

impl ZooKeeper {
    /// Connects, and waits for a session.
    pub(crate) async fn open(address: String) -> Result<Self, Error> {
        run(Line::open(address)).await.map(Self)
    }
}

impl Leases for ZooKeeper {
    leases_at_desk! { ZOOKEEPER }

    fn check_ttl(&self, ttl: Duration) -> Result<(), Refusal> {
        check_ttl_min(&ZOOKEEPER, ttl)?;
        let (needed, agreed) = (ttl * SESSION_PERCENT / 100, self.0.session_timeout());
        if needed <= agreed {
            return Ok(());
        }
        let why = format!(
            "{ttl:?} needs a session of {needed:?}, and the server grants {agreed:?}; shorten it, \
             ask for a longer session in the address (session_ms=), or let the server's operator \
             raise maxSessionTimeout"
        );
        Err(Refusal::InvalidValue { what: "ttl", why })
    }

    fn hold(
        &self,
        lease: LeaseName,
        id: LeaseId,
        _: Term,
        asked: CancellationToken,
    ) -> Box<dyn Hold> {
        Box::new(Held { line: Arc::clone(&self.0), lease, id, asked })
    }

    fn release(
        &self,
        lease: LeaseName,
        id: LeaseId,
        _: Option<MemberId>,
        _: LossReason,
    ) -> Answer<Result<(), Error>> {
        let line = Arc::clone(&self.0);
        run(async move { line.release(&lease, id).await })
    }

    fn close(&self) -> Answer<()> {
        let line = Arc::clone(&self.0);
        run(async move { line.close().await })
    }
}

/// A node that leads, until dropped.
#[derive(Debug)]
struct Held {
    line: Arc<Line>,
    lease: LeaseName,
    id: LeaseId,
    asked: CancellationToken,
}

impl Hold for Held {
    fn renew(&self, deadline: BootTime) -> Answer<Renewal> {
        let (line, lease) = (Arc::clone(&self.line), self.lease.clone());
        let (id, asked) = (self.id, self.asked.clone());
        run(async move {
            tokio::select! {
                renewal = line.renew(&lease, id, &asked) => renewal,
                () = line.desk.clock.sleep_until(deadline) => Renewal::Unknown,
            }
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.line.lets_go(self.lease.clone(), self.id);
    }
}
