//! The server: one store, and the doors that lead to it.
//!
//! ```text
//!   listen ─► answer /livez ─► open the store ─► ready: banner, systemd ─► …
//!                                                                          │ SIGTERM, SIGINT
//!   exit 0 ◄─ close the store ◄─ finish what is in flight ◄─ stop listening ◄┘
//! ```
//!
//! 1. Listening comes before opening: a port that is taken is found before a folder is touched, and
//!    a store that takes a minute to read is alive, but not ready, during that minute. Who comes by
//!    the wire meanwhile waits. The Unix socket comes after opening: in a folder that is ours alone
//!    no other server can be listening.
//! 2. The store is closed after the last answer has left, or after `stop_ms_max`.
//! 3. A second signal ends the process at once. That is as a crash is: nothing that was
//!    acknowledged is lost.

mod banner;
mod connections;
mod credentials;
pub(crate) mod disk;
mod door;
mod guard;
pub(crate) mod memory;
mod over_http;
mod over_wire;
mod paced;
pub(crate) mod peer;
pub(crate) mod refuse;
mod routes;
pub(crate) mod security;
mod signals;
mod site;
mod systemd;
pub(crate) mod tally;
#[cfg(test)]
mod tests;
pub(crate) mod tls;
mod unix_socket;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bellwether::clock::{Clock, VirtualClock};
use bellwether::journal::file::FileOptions;
use bellwether::wire::accept::Peer;
use bellwether::{Bellwether, Error, Open};
use tokio::net::{TcpStream, UnixListener};
use tokio_util::task::TaskTracker;

use crate::access::{self, Origin};
use crate::cli::Failure;
use crate::config::{Config, Place};
use crate::observe;
use crate::observe::traces::Traces;
use connections::Connections;
use door::{Door, accept};
use signals::Signals;
pub(crate) use site::Site;
use tls::Tls;
use unix_socket::SocketFile;

/// When a store is closed, how long those who still waited may take to hear of it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves until a signal or a fault ends it; the banner goes to `out`.
pub(crate) fn run(config: Config, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    security::check_listen(&config, config.http, config.source("http"))?;
    security::check_listen(&config, config.wire, config.source("wire"))?;
    observe::log::start(config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .enable_all()
        .build()
        .map_err(|e| Failure::Start(format!("cannot start the server's threads: {e}")))?;
    let traces = Traces::start();
    let ended = runtime.block_on(serve(config, traces.clone(), out));
    // What still runs is a store being opened that nobody wants any more.
    runtime.shutdown_background();
    if let Some(traces) = traces {
        traces.stop();
    }
    ended
}

/// One core is left to the flusher and to what the system does for disk and network. With two cores
/// and two workers, 64 callers on one connection are served a quarter slower: whoever is woken by
/// the flusher and by the network in turn moves from one worker to the other, and a connection that
/// stays awake on one of them does not hear what the other one listens for.
fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.saturating_sub(1).max(1)
}

async fn serve(
    config: Config,
    traces: Option<Traces>,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let mut signals =
        Signals::new().map_err(|e| Failure::Start(format!("cannot listen for signals: {e}")))?;
    let tls = Tls::open(&config)?.map(Arc::new);
    let http = Door::open(config.http, "--http")?;
    let wire = Door::open(config.wire, "--wire")?;
    let clock =
        if config.virtual_clock { Clock::Virtual(VirtualClock::new()) } else { Clock::System };
    let connections = Connections::new(&config, http.address, wire.address);
    let opened = access::open(&config)?;
    let (access, root) = opened.map(|opened| (opened.access, opened.first_token)).unzip();
    let root = root.flatten();
    let site = Arc::new(Site::new(config, clock, connections, tls, access, traces));
    if let Some(access) = &site.access {
        site.observers.spawn(Arc::clone(access).watch(site.stopping.clone()));
    }
    if site.config.is_insecure() {
        site.observers.spawn(security::warn(Arc::clone(&site)));
    }
    site.show_opening();
    let doors = TaskTracker::new();
    let to_site = Arc::clone(&site);
    doors.spawn(accept(http.listener, Arc::clone(&site), move |stream: TcpStream| {
        let origin = Origin::of(&stream);
        match &to_site.tls {
            None => over_http::admit(stream, origin, &to_site),
            Some(tls) => over_http::admit_over(tls, stream, origin, &to_site),
        }
    }));
    if let Some(tls) = site.tls.clone() {
        let stopping = site.stopping.clone();
        doors.spawn(async move { tls.keep_fresh(stopping).await });
    }
    let served = tokio::select! {
        biased;
        signal = signals.next() => Ok(signal),
        ended = work(&site, wire, root.as_deref(), &doors, out) => Err(ended),
    };
    if let Ok(signal) = served {
        tracing::info!(signal = signal.name(), "stopping: no new connections are accepted");
        signals.exit_at_next();
    }
    stop(&site, &doors).await;
    match served {
        Ok(_) => {
            tracing::info!("stopped");
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => Err(failure),
    }
}

/// Opens the store and serves until a fault.
async fn work(
    site: &Arc<Site>,
    wire: Door,
    root: Option<&Path>,
    doors: &TaskTracker,
    out: &mut dyn Write,
) -> Failure {
    let opened = async {
        site.show(open(&site.config, &site.clock).await?).await?;
        socket(&site.config).await
    };
    let socket = match opened.await {
        Ok(socket) => socket,
        Err(failure) => return failure,
    };
    let path = socket.as_ref().map(|(_, file)| file.path().to_owned());
    open_wire(site, wire, socket, doors);
    // Whoever started us may not listen: that is no reason not to serve.
    let _ = banner::write(out, site, path.as_deref(), root).and_then(|()| out.flush());
    systemd::notify(systemd::READY);
    tracing::info!(
        http = %site.connections.http.address(),
        wire = %site.connections.wire.address(),
        store = %site.place(),
        version = env!("CARGO_PKG_VERSION"),
        "ready"
    );
    let fault = observe::health::watch(site).await;
    tracing::error!(%fault, "the store failed; stopping");
    Failure::Store(fault.into())
}

/// The Unix socket, if there is to be one.
async fn socket(config: &Config) -> Result<Option<(UnixListener, SocketFile)>, Failure> {
    let Some(path) = config.socket_path() else { return Ok(None) };
    match SocketFile::listen(&path).await {
        Ok(socket) => Ok(Some(socket)),
        // Nobody asked for it: a folder whose path is too long for a socket is no reason not to
        // serve.
        Err(why) if config.unix_socket == Place::Auto => {
            tracing::warn!("{why}");
            Ok(None)
        }
        Err(why) => Err(Failure::Listen(why)),
    }
}

/// Lets those in who come by the wire.
fn open_wire(
    site: &Arc<Site>,
    wire: Door,
    socket: Option<(UnixListener, SocketFile)>,
    doors: &TaskTracker,
) {
    let to_site = Arc::clone(site);
    doors.spawn(accept(wire.listener, Arc::clone(site), move |stream: TcpStream| {
        let origin = Origin::of(&stream);
        match &to_site.tls {
            None => over_wire::admit(stream, origin, Peer::default(), &to_site),
            Some(tls) => over_wire::admit_over(tls, stream, origin, &to_site),
        }
    }));
    if let Some((listener, file)) = socket {
        let to_site = Arc::clone(site);
        doors.spawn(async move {
            let admit = |stream| {
                let peer = Peer::of(&stream);
                over_wire::admit(stream, Origin::Socket, peer, &to_site);
            };
            accept(listener, Arc::clone(&to_site), admit).await;
            file.remove();
        });
    }
}

async fn stop(site: &Site, doors: &TaskTracker) {
    systemd::notify(systemd::STOPPING);
    site.stopping.cancel();
    doors.close();
    doors.wait().await;
    let connections = &site.connections;
    if !connections.ended_within(site.config.stop_ms_max.ms()).await {
        let left = connections.open();
        tracing::warn!(left, "stop_ms_max is over: requests that are still in flight are cut off");
    }
    if let Some(store) = site.store() {
        store.close().await;
    }
    // Whoever still waited for a message hears now that the store was closed.
    connections.ended_within(LAST_WORDS).await;
    site.observers.close();
    site.observers.wait().await;
}

/// Opens the store that the configuration names.
async fn open(config: &Config, clock: &Clock) -> Result<Bellwether, Failure> {
    let address = if config.memory {
        "memory:".to_owned()
    } else {
        // With both slashes, so that those of the path itself are left alone.
        format!("file://{}", config.data.display())
    };
    let open = Open::new(address)
        .memory_bytes_max(memory::of_store(config))
        .body_cache_bytes_max(config.body_cache_bytes_max.size())
        .unsettled_per_member_max(config.unsettled_per_member_max.get_u32())
        .sessions_per_queue_max(config.sessions_per_queue_max.get_u32())
        .file_options(FileOptions {
            free_bytes_min: disk::free_bytes_min(config),
            ..FileOptions::default()
        });
    let open = match clock {
        Clock::System => open,
        Clock::Virtual(clock) => open.clock(clock.clone()),
    };
    open.open().await.map_err(|error| match error {
        Error::Fault(fault) => Failure::Store(fault.into()),
        error => Failure::Store(error),
    })
}
