//! TLS at the doors.
//!
//! ```text
//!   tls_cert, tls_key, tls_client_ca ─► read ─► what new connections are shown
//!               ▲                                   │ not readable, or no pair: the log says so,
//!               └── changed, or SIGHUP ◄────────────┘ and what was read before stays
//! ```
//!
//! 1. Both TCP doors speak TLS or neither does. The Unix socket is plain: nobody listens in there.
//! 2. Who shows a certificate must have it from an authority in `tls_client_ca`. Who shows none is
//!    nobody, and what nobody may do is not decided here.
//! 3. A connection keeps what it was made with.

mod expiry;
mod handshake;

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bellwether::clock::Clock;
use bellwether::tls::Pem;
use bellwether::wire::ALPN;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{Error as TlsError, RootCertStore, ServerConfig};
use tokio_util::sync::CancellationToken;

use super::peer::last_second;
use super::tally::Tally;
use crate::cli::Failure;
use crate::config::{Config, ConfigFault};
use expiry::End;
pub(super) use handshake::{Spoken, shake};

/// Files are looked at so often.
const LOOK: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Tls {
    files: Files,
    shown: RwLock<Shown>,
    /// The files as they were before they were read at the start.
    at_start: Stamps,
    hangup: tokio::sync::Mutex<Signal>,
    /// Handshakes that came to nothing.
    pub(crate) failed: Tally<4>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

/// What new connections are shown.
struct Shown {
    http: TlsAcceptor,
    wire: TlsAcceptor,
    /// The last second of the certificate, since 1970.
    last_second: Option<u64>,
}

/// The settings.
#[derive(Debug)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// By what a file is known to be another one: its number, when it was changed, and its length.
type Stamps = Vec<Option<(u64, i64, i64, u64)>>;

/// The setting that is wrong, and why.
type Wrong = (&'static str, String);

impl Tls {
    /// Reads what the settings name; `None` if that is nothing.
    pub(super) fn open(config: &Config) -> Result<Option<Self>, Failure> {
        let (Some(cert), Some(key)) = (config.tls_cert.path(), config.tls_key.path()) else {
            return Ok(None);
        };
        let files = Files { cert, key, client_ca: config.tls_client_ca.path() };
        let at_start = files.stamps();
        let shown = files.read().map_err(|(name, why)| {
            let found = config.source(name).to_string();
            ConfigFault::File { name, found, why }
        })?;
        let hangup = signal(SignalKind::hangup())
            .map_err(|e| Failure::Start(format!("cannot listen for signals: {e}")))?;
        let (shown, hangup) = (RwLock::new(shown), hangup.into());
        let failed = Tally::new(["late", "plain", "certificate", "other"]);
        Ok(Some(Self { files, shown, at_start, hangup, failed }))
    }

    /// The last second of the certificate that is shown, since 1970, if that is known.
    pub(crate) fn last_second(&self) -> Option<u64> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).last_second
    }

    fn acceptor(&self, spoken: Spoken) -> TlsAcceptor {
        let shown = self.shown.read().unwrap_or_else(PoisonError::into_inner);
        match spoken {
            Spoken::Http => shown.http.clone(),
            Spoken::Wire => shown.wire.clone(),
        }
    }

    /// Reads the files again when they have changed, or when SIGHUP says so, until `stopping`; and
    /// warns of a certificate that is about to end.
    pub(super) async fn keep_fresh(&self, stopping: CancellationToken) {
        let mut hangup = self.hangup.lock().await;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut read = self.at_start.clone();
        let mut seen = read.clone();
        let mut end = End::default();
        loop {
            let cert = self.files.cert.display();
            if let Some(words) = end.look(self.last_second(), Clock::System.now().wall) {
                tracing::warn!(tls_cert = %cert, "{words}");
            }
            let is_asked = tokio::select! {
                () = stopping.cancelled() => return,
                _ = hangup.recv() => true,
                _ = look.tick() => false,
            };
            let found = self.files.stamps();
            // Several files are not changed at once: they are read when they have come to rest.
            let is_at_rest = found == seen;
            if is_asked || (is_at_rest && found != read) {
                self.read_again();
                read.clone_from(&found);
            }
            seen = found;
        }
    }

    fn read_again(&self) {
        match self.files.read() {
            Ok(shown) => {
                *self.shown.write().unwrap_or_else(PoisonError::into_inner) = shown;
                tracing::info!(
                    tls_cert = %self.files.cert.display(),
                    "read the certificate again; new connections are shown it"
                );
            }
            Err((setting, why)) => tracing::error!(
                setting,
                "the certificate that was read before is still shown: {why}; put it right, and it \
                 is read again"
            ),
        }
    }
}

impl Files {
    fn stamps(&self) -> Stamps {
        let stamp = |found: Metadata| (found.ino(), found.mtime(), found.mtime_nsec(), found.len());
        let files = [&self.cert, &self.key].into_iter().chain(&self.client_ca);
        files.map(|path| std::fs::metadata(path).ok().map(stamp)).collect()
    }

    fn read(&self) -> Result<Shown, Wrong> {
        let cert = |e: TlsError| ("tls_cert", e.to_string());
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(cert)?;
        let config = match self.client_authorities()? {
            Some(authorities) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|e| ("tls_client_ca", e.to_string()))?;
                config.with_client_cert_verifier(verifier)
            }
            None => config.with_no_client_auth(),
        };
        let chain = Pem::from(&*self.cert).certificates();
        let chain = chain.map_err(|e| ("tls_cert", e.to_string()))?;
        let last_second = chain.first().and_then(last_second);
        let key = Pem::from(&*self.key).key().map_err(|e| ("tls_key", e.to_string()))?;
        let mut config = config.with_single_cert(chain, key).map_err(|e| match e {
            TlsError::InconsistentKeys(_) => {
                let cert = self.cert.display();
                ("tls_key", format!("it is not the key of the first certificate in {cert}"))
            }
            e => cert(e),
        })?;
        if self.client_ca.is_some() {
            // Who has shown a certificate shows it anew: one that has expired since is not taken.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        self.warn_of_readers();
        let speaking = |protocol: &[u8]| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            TlsAcceptor::from(Arc::new(config))
        };
        Ok(Shown { http: speaking(b"http/1.1"), wire: speaking(ALPN), last_second })
    }

    fn client_authorities(&self) -> Result<Option<Arc<RootCertStore>>, Wrong> {
        let Some(path) = &self.client_ca else { return Ok(None) };
        let wrong = |why: String| ("tls_client_ca", why);
        let mut authorities = RootCertStore::empty();
        for certificate in Pem::from(&**path).certificates().map_err(|e| wrong(e.to_string()))? {
            authorities
                .add(certificate)
                .map_err(|e| wrong(format!("{} is no CA: {e}", path.display())))?;
        }
        Ok(Some(Arc::new(authorities)))
    }

    /// A group may read it, as those of services do, and a container's secret is everybody's in
    /// there: no reason not to start, but one to say so.
    fn warn_of_readers(&self) {
        if std::fs::metadata(&self.key).is_ok_and(|found| found.mode() & 0o007 != 0) {
            tracing::warn!(
                "every user of this machine can read the private key {key}; \
                 take that away (chmod o= {key})",
                key = self.key.display()
            );
        }
    }
}
