//! A door: where connections come in, until the server stops.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bellwether::wire::accept::part;
use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::Site;
use crate::cli::Failure;

/// When no connection can be taken for want of files, how long until the next try.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Between two lines in the log about that.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// A TCP socket that listens.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) listener: TcpListener,
    /// Where it listens, with the real port.
    pub(super) address: SocketAddr,
}

impl Door {
    /// Listens at an address; `flag` is the one that names it.
    pub(super) fn open(address: SocketAddr, flag: &str) -> Result<Self, Failure> {
        let listen = || -> io::Result<Self> {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener: TcpListener::from_std(listener)?, address })
        };
        listen().map_err(|e| Failure::Listen(why_not(address, flag, &e)))
    }
}

/// What connections come from.
pub(super) trait Listen: Send + 'static {
    /// A connection.
    type Stream;

    /// The next one.
    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        // Small answers must not wait for more to say.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl Listen for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

/// Hands every connection to `admit`, until the server stops.
pub(super) async fn accept<L: Listen>(listener: L, site: Arc<Site>, admit: impl Fn(L::Stream)) {
    let mut logged_at: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            biased;
            () = site.stopping.cancelled() => return,
            accepted = listener.next() => accepted,
        };
        match accepted {
            Ok(stream) => admit(stream),
            Err(e) if is_of_one_connection(&e) => {}
            Err(e) => {
                site.connections.accept_failed.fetch_add(1, Ordering::Relaxed);
                if logged_at.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
                    logged_at = Some(Instant::now());
                    tracing::error!(
                        error = %e,
                        "cannot accept connections; they wait, and it is tried again; if there are \
                         too few files, raise the limit (ulimit -n, LimitNOFILE)"
                    );
                }
                // Whoever waits still waits, so it would fail again at once.
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Says `words` and closes, but listens for a moment longer: whoever is still sending when we close
/// may never read them. Whoever is not listened to (`place` is `None`) is only told.
pub(super) fn send_away<S>(mut stream: S, words: &[u8], place: Option<OwnedSemaphorePermit>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // What does not fit into an empty socket is not worth waiting for.
    let _ = stream.write(words).now_or_never();
    let Some(place) = place else { return };
    tokio::spawn(async move {
        part(stream).await;
        drop(place);
    });
}

fn is_of_one_connection(e: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(e.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Why nobody can listen there, and who must act.
fn why_not(address: SocketAddr, flag: &str, e: &io::Error) -> String {
    let (why, way_out) = match e.kind() {
        io::ErrorKind::AddrInUse => (
            "another process listens there".to_owned(),
            format!("stop that one, or choose another port with {flag} (port 0 takes a free one)"),
        ),
        io::ErrorKind::AddrNotAvailable => (
            "this machine has no such address".to_owned(),
            format!("choose one that it has with {flag}"),
        ),
        io::ErrorKind::PermissionDenied => (
            "this user may not use that port".to_owned(),
            format!("choose one above 1023 with {flag}, or let the service manager grant it"),
        ),
        _ => (e.to_string(), format!("choose another address with {flag}")),
    };
    format!("cannot listen on {address}: {why}; {way_out}")
}
