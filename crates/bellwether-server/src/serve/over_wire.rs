//! The native wire's doors: TCP, and a Unix socket for whoever is on this machine.

use std::sync::Arc;

use bellwether::wire::accept::{Ended, Late, Peer};
use bellwether::wire::frame::put_frame;
use bellwether::wire::{Goodbye, Kind, MAGIC, Why};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::connections::Place;
use super::door::send_away;
use super::site::{Entrance, Site};
use super::tls::{Spoken, Tls, shake};
use crate::access::{Door as Gated, Origin};

/// Serves one connection, in a task of its own. One too many is told so and closed.
pub(super) fn admit<S>(stream: S, origin: Origin, peer: Peer, site: &Arc<Site>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match site.connections.wire.enter(&origin) {
        Some(place) => {
            if let Some(serving) = serve(stream, origin, peer, site, place) {
                tokio::spawn(serving);
            }
        }
        None => send_away(stream, &full(), site.connections.send_away()),
    }
}

/// The same over TLS, which one too many is told over, too: if there is a place for that.
pub(super) fn admit_over(tls: &Arc<Tls>, stream: TcpStream, origin: Origin, site: &Arc<Site>) {
    let place = site.connections.wire.enter(&origin);
    let leaving = if place.is_none() { site.connections.send_away() } else { None };
    if place.is_none() && leaving.is_none() {
        return;
    }
    let (tls, site) = (Arc::clone(tls), Arc::clone(site));
    tokio::spawn(async move {
        let shaken = shake(stream, &tls, Spoken::Wire, &site).await;
        match (shaken, place) {
            (Some((stream, peer)), Some(place)) => {
                if let Some(serving) =
                    serve(stream, origin.shown(peer), Peer::default(), &site, place)
                {
                    serving.await;
                }
            }
            (Some((stream, _)), None) => send_away(stream, &full(), leaving),
            (None, _) => {}
        }
    });
}

/// The connection, as a future; `None` if the store is not open.
fn serve<S>(
    stream: S,
    origin: Origin,
    peer: Peer,
    site: &Site,
    place: Place,
) -> Option<impl Future<Output = ()> + use<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Entrance { acceptor, owners, stop, connection } = site.entrance()?;
    let acceptor = acceptor.for_peer(peer);
    let connections = Arc::clone(&site.connections);
    let access = site.access.clone();
    Some(async move {
        let gate = access.map(|access| Gated { access, origin: origin.clone() });
        let ended = match gate.zip(owners) {
            None => acceptor.serve(stream, stop).await,
            Some((gate, owners)) => acceptor.serve_through(&gate, owners, stream, stop).await,
        };
        if let Some(reason) = reason(&ended) {
            connections.wire_dropped.count(reason);
        }
        match ended {
            Ended::Left => tracing::debug!(?origin, "a connection of the wire was closed"),
            Ended::SentAway(why) => {
                tracing::debug!(?origin, ?why, "a connection of the wire was ended");
            }
            Ended::Late(late) => {
                tracing::debug!(?origin, %late, "a connection of the wire was ended");
            }
            Ended::Broken(e) => {
                tracing::debug!(?origin, error = %e, "a connection of the wire broke off");
            }
        }
        drop((place, connection));
    })
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
    let text = "the server has reached wire_connections_max, or this address \
                connections_per_address_max; try again";
    goodbye(Why::Limit, text)
}

/// Last words to somebody who has not been let in.
pub(super) fn goodbye(why: Why, text: &str) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let last = Goodbye { why, text: text.into() };
    put_frame(Kind::Goodbye, &mut bytes, |out| last.put(out));
    bytes
}
