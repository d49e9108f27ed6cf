//! The native wire's doors: TCP, and a Unix socket for whoever is on this machine.

use std::sync::Arc;

use bellwether::wire::accept::Ended;
use tokio::io::{AsyncRead, AsyncWrite};

use super::site::Site;

/// Serves one connection, in a task of its own. One too many is closed at once: whoever is there
/// comes again.
pub(super) fn admit<S>(stream: S, site: &Arc<Site>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(place) = site.connections.wire.enter() else {
        tracing::debug!("wire_connections_max is reached: a connection was closed");
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
