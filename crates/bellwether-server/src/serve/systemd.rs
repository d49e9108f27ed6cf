//! Tells systemd, if it started us, how far we are (`Type=notify`).

use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

pub(super) const READY: &str = "READY=1";
pub(super) const STOPPING: &str = "STOPPING=1";

/// A hint: without systemd nothing happens, and a failure is only logged.
pub(super) fn notify(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return;
    };
    if let Err(e) = send(&socket, state) {
        tracing::warn!(error = %e, "cannot tell systemd {state}: NOTIFY_SOCKET does not answer");
    }
}

fn send(socket: &std::ffi::OsStr, state: &str) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    let address = match socket.as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    #[cfg(not(target_os = "linux"))]
    let address = SocketAddr::from_pathname(socket)?;
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}
