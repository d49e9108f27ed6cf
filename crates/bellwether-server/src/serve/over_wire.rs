//! The native wire's doors: TCP, and a Unix socket for whoever is on this machine.

use std::sync::Arc;

use bellwether::wire::accept::Ended;
use bellwether::wire::frame::put_frame;
use bellwether::wire::{Goodbye, Kind, MAGIC, Why};
use tokio::io::{AsyncRead, AsyncWrite};

use super::door::send_away;
use super::site::Site;
use crate::access::{Door as Gated, Origin};

/// Serves one connection, in a task of its own. One too many is told so and closed.
pub(super) fn admit<S>(stream: S, origin: Origin, site: &Arc<Site>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(place) = site.connections.wire.enter(&origin) else {
        return send_away(stream, &full(), site.connections.send_away());
    };
    let Some((acceptor, owners, stop)) = site.acceptor() else { return };
    let access = site.access.clone();
    tokio::spawn(async move {
        let ended = match access.zip(owners) {
            None => acceptor.serve(stream, stop).await,
            Some((access, owners)) => {
                acceptor.serve_through(&Gated { access, origin }, owners, stream, stop).await
            }
        };
        match ended {
            Ended::Left => tracing::debug!("a connection of the wire was closed"),
            Ended::SentAway(why) => tracing::debug!(?why, "a connection of the wire was ended"),
            Ended::Broken(e) => tracing::debug!(error = %e, "a connection of the wire broke off"),
        }
        drop(place);
    });
}

/// To one connection too many.
fn full() -> Vec<u8> {
    let text = "the server has reached wire_connections_max, or this address \
                connections_per_address_max; try again"
        .into();
    let mut bytes = MAGIC.to_vec();
    put_frame(Kind::Goodbye, &mut bytes, |out| Goodbye { why: Why::Limit, text }.put(out));
    bytes
}
