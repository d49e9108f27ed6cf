//! The native wire's doors: TCP, and a Unix socket for whoever is on this machine.

use std::sync::Arc;

use bellwether::wire::accept::{Ended, Late};
use bellwether::wire::frame::put_frame;
use bellwether::wire::{Goodbye, Kind, MAGIC, Why};
use tokio::io::{AsyncRead, AsyncWrite};

use super::door::send_away;
use super::site::Site;

/// Serves one connection, in a task of its own. One too many is told so and closed.
pub(super) fn admit<S>(stream: S, site: &Arc<Site>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(place) = site.connections.wire.enter() else {
        return send_away(stream, &full(), site.connections.send_away());
    };
    let Some((acceptor, stop)) = site.acceptor() else { return };
    let dropped = Arc::clone(&site.connections);
    tokio::spawn(async move {
        let ended = acceptor.serve(stream, stop).await;
        if let Some(reason) = reason(&ended) {
            dropped.wire_dropped.count(reason);
        }
        match ended {
            Ended::Left => tracing::debug!("a connection of the wire was closed"),
            Ended::SentAway(why) => tracing::debug!(?why, "a connection of the wire was ended"),
            Ended::Late(late) => tracing::debug!(%late, "a connection of the wire was ended"),
            Ended::Broken(e) => tracing::debug!(error = %e, "a connection of the wire broke off"),
        }
        drop(place);
    });
}

/// The limit that a connection has broken, if that is why it ended.
fn reason(ended: &Ended) -> Option<&'static str> {
    match ended {
        Ended::Late(Late::Hello) => Some("hello"),
        Ended::Late(Late::Frame) => Some("frame"),
        Ended::Late(Late::Reader) => Some("reader"),
        Ended::Late(Late::Silent) => Some("silence"),
        Ended::SentAway(Goodbye { why: Why::Limit, .. }) => Some("limit"),
        Ended::SentAway(Goodbye { why: Why::Protocol, .. }) => Some("protocol"),
        Ended::SentAway(_) | Ended::Left | Ended::Broken(_) => None,
    }
}

/// To one connection too many.
fn full() -> Vec<u8> {
    let text = "the server has reached wire_connections_max; try again".into();
    let mut bytes = MAGIC.to_vec();
    put_frame(Kind::Goodbye, &mut bytes, |out| Goodbye { why: Why::Limit, text }.put(out));
    bytes
}
