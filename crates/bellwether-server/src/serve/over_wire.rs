//! The native wire's doors: TCP, and a Unix socket for whoever is on this machine.

use std::sync::Arc;

use bellwether::wire::accept::Ended;
use bellwether::wire::frame::put_frame;
use bellwether::wire::{Goodbye, Kind, MAGIC, Why};
use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::site::Site;

/// Serves one connection, in a task of its own. One too many is told so and closed.
pub(super) fn admit<S>(mut stream: S, site: &Arc<Site>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(place) = site.connections.wire.enter() else {
        // What does not fit into an empty socket is not worth waiting for.
        let _ = stream.write(&full()).now_or_never();
        return;
    };
    let Some((acceptor, stop)) = site.acceptor() else { return };
    tokio::spawn(async move {
        match acceptor.serve(stream, stop).await {
            Ended::Left => tracing::debug!("a connection of the wire was closed"),
            Ended::SentAway(why) => tracing::debug!(?why, "a connection of the wire was ended"),
            Ended::Broken(e) => tracing::debug!(error = %e, "a connection of the wire broke off"),
        }
        drop(place);
    });
}

/// To one connection too many. It is not read: whoever sends a lot does not get to.
fn full() -> Vec<u8> {
    let text = "the server has reached wire_connections_max; try again".into();
    let mut bytes = MAGIC.to_vec();
    put_frame(Kind::Goodbye, &mut bytes, |out| Goodbye { why: Why::Limit, text }.put(out));
    bytes
}
