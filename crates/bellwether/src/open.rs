//! From an address to a running store: the only file that knows every kind.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, VirtualClock};
use crate::credential::Credential;
use crate::engine::local::Local;
#[cfg(feature = "tls")]
use crate::engine::remote::TlsOptions;
use crate::engine::remote::{Address, RemoteOptions};
use crate::engine::shard::ShardOptions;
use crate::error::Error;
use crate::handle::Bellwether;
use crate::journal::file::FileOptions;
use crate::leases::{ENGINES, Leases};
#[cfg(feature = "tls")]
use crate::tls::Pem;

/// Long enough for a server to be started again.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two attempts to reach a server that is not there yet.
const CONNECT_AGAIN_MS: u64 = 200;

/// What a store is opened with, when the defaults do not fit.
///
/// ```
/// # async fn example() -> Result<(), bellwether::Error> {
/// let bw = bellwether::Open::new("memory:").memory_bytes_max(64 << 20).open().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Open {
    address: String,
    clock: Clock,
    shard: ShardOptions,
    file: FileOptions,
    patience: Duration,
    wait: Duration,
    metadata: String,
    outlived: bool,
    credential: Credential,
    #[cfg(feature = "tls")]
    tls: TlsOptions,
}

impl Open {
    /// The store at `address`: `memory:`, `file:PATH`, or that of a server: `bellwether://HOST:PORT`,
    /// `bellwethers://HOST:PORT` for TLS (feature `tls`), or `bellwether+unix:PATH`.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            clock: Clock::System,
            shard: ShardOptions::default(),
            file: FileOptions::default(),
            patience: PATIENCE,
            wait: Duration::ZERO,
            metadata: who_we_are(),
            outlived: false,
            credential: Credential::default(),
            #[cfg(feature = "tls")]
            tls: TlsOptions::default(),
        }
    }

    /// Time comes from this clock.
    #[must_use]
    pub fn clock(mut self, clock: VirtualClock) -> Self {
        self.clock = Clock::Virtual(clock);
        self
    }

    /// Memory for messages (about 160 bytes each, bodies not included); senders are refused with
    /// `Busy` beyond.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.shard.memory_bytes_max = bytes;
        self
    }

    /// Memory for bodies, beside the journal: bridges the time until a message is received. What is
    /// not there is read from the journal.
    #[must_use]
    pub fn body_cache_bytes_max(mut self, bytes: usize) -> Self {
        self.shard.body_cache_bytes_max = bytes;
        self
    }

    /// Deliveries that one member may have unsettled at a time; a hundred thousand if not said.
    #[must_use]
    pub fn unsettled_per_member_max(mut self, max: u32) -> Self {
        self.shard.unsettled_per_member_max = max;
        self
    }

    /// Sessions that one queue may have at a time; a million if not said.
    #[must_use]
    pub fn sessions_per_queue_max(mut self, max: u32) -> Self {
        self.shard.sessions_per_queue_max = max;
        self
    }

    /// How long a call waits for a connection to the server before it fails; half a minute if not
    /// said.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Waits so long for a server that is not there yet; not at all if not said, so that a wrong
    /// address is noticed at once. A program that is to survive its server's absence waits for ever:
    /// `Duration::MAX`.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// What others see of this member in the list of members; the process's number if not said.
    #[must_use]
    pub fn metadata(mut self, metadata: impl Into<String>) -> Self {
        self.metadata = metadata.into();
        self
    }

    /// What this program leads may go on after its process has ended, in processes that it started.
    /// Then its end proves nothing, and its leases run out instead of passing on at once. For an
    /// address that begins with `bellwether+unix:`; over all others nothing is proved.
    #[must_use]
    pub fn outlived_by_its_work(mut self) -> Self {
        self.outlived = true;
        self
    }

    /// What is shown to the server, if it asks for credentials. One that is refused is refused for
    /// good, unless it stands in a file, which is read again for every connection.
    #[must_use]
    pub fn credential(mut self, credential: Credential) -> Self {
        self.credential = credential;
        self
    }

    /// Trusts a server whose certificate was issued by one of these authorities, and no other: a
    /// PEM or the path of one. If not said, those are trusted that the system trusts. For an address
    /// that begins with `bellwethers://`.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn trust(mut self, authorities: impl Into<Pem>) -> Self {
        self.tls.trust = Some(authorities.into());
        self
    }

    /// Shows the server this certificate, with those between it and its authority behind it, and
    /// proves with the key that it is ours: PEMs or the paths of such. For an address that begins
    /// with `bellwethers://`.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn identity(mut self, certificates: impl Into<Pem>, key: impl Into<Pem>) -> Self {
        self.tls.identity = Some((certificates.into(), key.into()));
        self
    }

    /// Sizes of the file journal.
    #[must_use]
    pub fn file_options(mut self, options: FileOptions) -> Self {
        self.file = options;
        self
    }

    /// Opens it. Reading a large store takes a while, so it happens off the runtime's threads.
    pub async fn open(self) -> Result<Bellwether, Error> {
        let wrong = |why: &str| Error::Address { address: self.address.clone(), why: why.into() };
        let local = if self.address == "memory:" {
            Local::in_memory(self.clock.clone(), &self.shard)
        } else if let Some(path) = self.address.strip_prefix("file:") {
            if path.is_empty() {
                return Err(wrong("name a folder, as in file:./data"));
            }
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            let (clock, shard, file) = (self.clock.clone(), self.shard.clone(), self.file.clone());
            let opening =
                tokio::task::spawn_blocking(move || Local::file(&path, clock, &shard, file));
            match opening.await {
                Ok(opened) => opened?,
                Err(panic) => return Err(wrong(&format!("opening it failed: {panic}"))),
            }
        } else if let Some(address) = Address::read(&self.address) {
            let address = address.map_err(wrong)?;
            #[cfg(feature = "tls")]
            if self.tls.is_set() && !matches!(address, Address::Tls(_)) {
                return Err(wrong(
                    "it says nothing of TLS, but a trust or an identity is given; \
                    write bellwethers://HOST:PORT",
                ));
            }
            let options = RemoteOptions {
                address,
                clock: self.clock,
                patience: self.patience,
                metadata: self.metadata,
                outlived: self.outlived,
                credential: self.credential,
                #[cfg(feature = "tls")]
                tls: self.tls,
            };
            return connect_within(self.wait, options).await;
        } else {
            return Err(wrong(
                "the address starts with memory:, file:, bellwether://, bellwethers:// or \
                 bellwether+unix:",
            ));
        };
        Bellwether::join(Arc::new(local), self.clock, self.metadata).await
    }
}

/// Tries again and again while there is no server.
async fn connect_within(wait: Duration, options: RemoteOptions) -> Result<Bellwether, Error> {
    let clock = options.clock.clone();
    let until = clock.boot().plus_ms(crate::queue::ms(wait));
    loop {
        match Bellwether::connect(options.clone()).await {
            Err(Error::Unreachable { .. }) if clock.boot() < until => {
                clock.sleep_until(until.min(clock.boot().plus_ms(CONNECT_AGAIN_MS))).await;
            }
            connected => return connected,
        }
    }
}

/// What keeps the leases of elections at `address`: a store, or an engine that knows only leases.
pub(crate) async fn leases(address: String) -> Result<Arc<dyn Leases>, Error> {
    match engine_of(&address) {
        #[cfg(feature = "etcd")]
        Some("etcd") => crate::leases::etcd::open(address).await,
        #[cfg(feature = "postgres")]
        Some("postgres") => crate::leases::postgres::open(address).await,
        #[cfg(feature = "azure-blob")]
        Some("azure-blob") => Ok(Arc::new(crate::leases::azure::Azure::open(&address).await?)),
        #[cfg(feature = "nats")]
        Some("nats") => Ok(Arc::new(crate::leases::nats::Nats::open(address).await?)),
        #[cfg(feature = "zookeeper")]
        Some("zookeeper") => {
            Ok(Arc::new(crate::leases::zookeeper::ZooKeeper::open(address).await?))
        }
        Some(feature) => Err(Error::Address {
            address: shown(&address),
            why: format!(
                "this program is built without that engine; build it with the feature `{feature}`"
            ),
        }),
        None => Ok(Arc::new(Open::new(address).open().await?.inner)),
    }
}

/// What may be shown of an address: the part before the host may be a password.
pub(crate) fn shown(address: &str) -> String {
    format!("{}…", address.split_inclusive("://").next().unwrap_or_default())
}

/// Whether it is the address of an engine that knows only leases.
#[cfg(feature = "guardian")]
pub(crate) fn is_direct(address: &str) -> bool {
    engine_of(address).is_some()
}

/// Refuses the address of an engine that this program was built without.
#[cfg(feature = "guardian")]
pub(crate) fn check_built_in(address: &str) -> Result<(), String> {
    let features = [
        ("azure-blob", cfg!(feature = "azure-blob")),
        ("etcd", cfg!(feature = "etcd")),
        ("nats", cfg!(feature = "nats")),
        ("postgres", cfg!(feature = "postgres")),
        ("zookeeper", cfg!(feature = "zookeeper")),
    ];
    match engine_of(address) {
        Some(feature) if !features.contains(&(feature, true)) => Err(format!(
            "this program is built without that engine; build it with the feature `{feature}`"
        )),
        _ => Ok(()),
    }
}

/// The feature of the engine that an address belongs to; `None` if it is one of our own stores.
fn engine_of(address: &str) -> Option<&'static str> {
    let begins = |scheme: &str| address.starts_with(scheme);
    let direct = ENGINES.iter().filter(|engine| !engine.feature.is_empty());
    let mut found = direct.filter(|engine| engine.scheme.split(' ').any(begins));
    found.next().map(|engine| engine.feature)
}

/// This process, and the name it was given by whoever started it as a worker.
fn who_we_are() -> String {
    let process = format!("pid {}", std::process::id());
    match std::env::var(crate::scaler::WORKER_VARIABLE) {
        Ok(worker) if !worker.is_empty() && !worker.contains(char::is_whitespace) => {
            format!("{process} worker={worker}")
        }
        _ => process,
    }
}
