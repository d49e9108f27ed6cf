//! Elections alone, on our own store or on an engine people already run.

use std::sync::Arc;

use bellwether_core::candidacy::LossReason;
use bellwether_core::name::{LeaseId, LeaseName, MemberId};

use crate::elector::Election;
use crate::error::Error;
#[cfg(feature = "guardian")]
use crate::guardian::{Guard, Guardian};
use crate::handle::Bellwether;
use crate::leases::{Facts, Leases};

/// A way to elections, wherever their leases are kept. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
/// use bellwether::Elections;
///
/// let elections = Elections::open("memory:").await?; // or "etcd://10.0.0.5:2379", …
/// let leadership = elections.election("reports")?.contend().await?;
/// println!("leading under term {}", leadership.term());
/// leadership.release().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Elections {
    leases: Arc<dyn Leases>,
    #[cfg(feature = "guardian")]
    guard: Option<Arc<Guard>>,
}

impl From<Bellwether> for Elections {
    /// Those of a store that is open already.
    fn from(store: Bellwether) -> Self {
        Self::on(Arc::new(store.inner))
    }
}

impl Elections {
    /// Opens the engine at `address`: everything [`Bellwether::open`](crate::Bellwether::open)
    /// takes, and the lease engines that this program was built with ([`Elections::engines`]).
    pub async fn open(address: impl Into<String>) -> Result<Self, Error> {
        Ok(Self::on(crate::open::leases(address.into()).await?))
    }

    fn on(leases: Arc<dyn Leases>) -> Self {
        #[cfg(feature = "guardian")]
        let elections = Self { leases, guard: None };
        #[cfg(not(feature = "guardian"))]
        let elections = Self { leases };
        elections
    }

    /// Opens the engine at `address` and starts a [guardian](crate::guardian): a process that gives
    /// back what this one holds as soon as it, and all that it has started, has died. So the next
    /// leader need not wait for the ttl. Without one that can watch this is an error; open it
    /// without then.
    ///
    /// For engines that people already run: a server of ours sees deaths by itself, over its Unix
    /// socket, and what is kept in this process dies with it.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), bellwether::Error> {
    /// use bellwether::Elections;
    /// use bellwether::guardian::Guardian;
    ///
    /// let elections = Elections::guarded("etcd://10.0.0.5:2379", Guardian::default()).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "guardian")]
    pub async fn guarded(address: impl Into<String>, guardian: Guardian) -> Result<Self, Error> {
        let address = address.into();
        let unguarded = |why: String| Error::Address { address: crate::open::shown(&address), why };
        if !crate::open::is_direct(&address) {
            return Err(unguarded(
                "a guardian is for engines that people already run; a Bellwether server sees by \
                 itself that a process has died, over its Unix socket"
                    .into(),
            ));
        }
        let leases = crate::open::leases(address.clone()).await?;
        let guard = guardian.start(&address).await;
        let guard = guard.map_err(|why| unguarded(format!("it has no guardian: {why}")))?;
        let guard = Arc::new(guard);
        let guarded = crate::leases::guarded::Guarded { leases, guard: Arc::clone(&guard) };
        Ok(Self { leases: Arc::new(guarded), guard: Some(guard) })
    }

    /// Whether a guardian is there at this moment. One that was killed is not started again: the ttl
    /// counts, as without one.
    #[cfg(feature = "guardian")]
    pub fn is_guarded(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.is_alive())
    }

    /// Every lease engine there is, whether this program was built with it or not.
    pub fn engines() -> &'static [Facts] {
        crate::leases::ENGINES
    }

    /// A handle to an election; nothing is asked of the engine yet.
    pub fn election(&self, name: &str) -> Result<Election, Error> {
        Ok(Election::new(Arc::clone(&self.leases), LeaseName::new(name)?))
    }

    /// Gives back the lease that was granted under this id, in whatever process, or asked for and
    /// waited for. For whoever knows that its holder has died, with all that it has started: nobody
    /// else is held off from then on. What somebody holds under another id is not touched.
    pub async fn release(&self, lease: &str, id: LeaseId) -> Result<(), Error> {
        self.leases.release(LeaseName::new(lease)?, id, None, LossReason::Died).await
    }

    /// What the engine is and can do.
    pub fn facts(&self) -> &'static Facts {
        self.leases.facts()
    }

    /// Who this process is to the engine.
    pub fn member(&self) -> MemberId {
        self.leases.member()
    }

    /// Gives back what is held here and lets go of the engine. End the candidacies first, so that
    /// their work has stopped.
    pub async fn close(&self) {
        self.leases.close().await;
    }
}
