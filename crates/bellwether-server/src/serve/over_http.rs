//! The HTTP door: carries requests to the site.
//!
//! HTTP/1.1 only; limits on time are our own ([`Paced`]).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use super::connections::Place;
use super::door::send_away;
use super::paced::{Asked, Paced};
use super::site::Site;
use super::tls::{Spoken, Tls, shake};
use crate::access::Origin;

/// Room for a head and for what a body brings at once.
const BUFFER_BYTES_MIN: usize = 64 << 10;
/// To one connection too many.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/problem+json\r\ncontent-length: 244\r\n\r\n\
    {\"type\":\"/v1/problems/too-many-connections\",\
    \"title\":\"There are too many connections\",\"status\":503,\
    \"detail\":\"the server has reached http_connections_max, or this address connections_per_address_max; try again\",\
    \"retry\":true,\"retry_after_ms\":1000}";

/// Carries the requests of one connection, in a task of its own.
pub(super) fn admit(stream: TcpStream, origin: Origin, site: &Arc<Site>) {
    match site.connections.http.enter(&origin) {
        Some(place) => {
            tokio::spawn(carry(stream, origin, Arc::clone(site), place));
        }
        None => send_away(stream, FULL, site.connections.send_away()),
    }
}

/// The same over TLS, which one too many is told over, too: if there is a place for that.
pub(super) fn admit_over(tls: &Arc<Tls>, stream: TcpStream, origin: Origin, site: &Arc<Site>) {
    let place = site.connections.http.enter(&origin);
    let leaving = if place.is_none() { site.connections.send_away() } else { None };
    if place.is_none() && leaving.is_none() {
        return;
    }
    let (tls, site) = (Arc::clone(tls), Arc::clone(site));
    tokio::spawn(async move {
        let shaken = shake(stream, &tls, Spoken::Http, &site).await;
        match (shaken, place) {
            (Some((stream, peer)), Some(place)) => {
                carry(stream, origin.shown(peer), site, place).await;
            }
            (Some((stream, _)), None) => send_away(stream, FULL, leaving),
            (None, _) => {}
        }
    });
}

/// Carries the requests of one connection, one after the other.
async fn carry<S>(stream: S, origin: Origin, site: Arc<Site>, place: Place)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let to_site = Arc::clone(&site);
    let asked = Arc::<Asked>::default();
    let paced = Paced::new(stream, &site.config, &site.connections, Arc::clone(&asked));
    let service = service_fn(move |request: Request<Incoming>| {
        asked.begin();
        let mut request = request.map(Body::new);
        if to_site.access.is_some() {
            request.extensions_mut().insert(origin.clone());
        }
        let (router, asked) = (to_site.router(), Arc::clone(&asked));
        async move { router.oneshot(request).await.map(|answer| asked.answer(answer)) }
    });
    let head_bytes_max = site.config.http_head_bytes_max.size();
    let mut http = http1::Builder::new();
    http.header_read_timeout(None)
        .max_header_size(head_bytes_max)
        .max_buf_size(head_bytes_max.max(BUFFER_BYTES_MIN));
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(paced), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = site.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(e) = ended {
        tracing::debug!(error = %e, "an HTTP connection broke off");
    }
    drop(place);
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_answer_to_one_too_many_is_as_long_as_it_says() {
        let text = std::str::from_utf8(super::FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
    }
}
