//! Elections alone, on our own store or on an engine people already run.

use std::sync::Arc;

use bellwether_core::name::{LeaseName, MemberId};

use crate::elector::Election;
use crate::error::Error;
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
}

impl Elections {
    /// Opens the engine at `address`: everything [`Bellwether::open`](crate::Bellwether::open)
    /// takes, and the lease engines that this program was built with ([`Elections::engines`]).
    pub async fn open(address: impl Into<String>) -> Result<Self, Error> {
        Ok(Self { leases: crate::open::leases(address.into()).await? })
    }

    /// Every lease engine there is, whether this program was built with it or not.
    pub fn engines() -> &'static [Facts] {
        crate::leases::ENGINES
    }

    /// A handle to an election; nothing is asked of the engine yet.
    pub fn election(&self, name: &str) -> Result<Election, Error> {
        Ok(Election::new(Arc::clone(&self.leases), LeaseName::new(name)?))
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
