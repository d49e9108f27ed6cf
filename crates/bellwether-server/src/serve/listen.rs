//! The HTTP door: listens, and carries requests to the site.
//!
//! HTTP/1.1 only, with a timer of our own: without one the library's limits on time do nothing.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

use super::connections::Connections;
use super::site::Site;
use crate::cli::Failure;

/// Room for a head and for what a body brings at once.
const BUFFER_BYTES_MIN: usize = 64 << 10;
/// When no connection can be taken for want of files, how long until the next try.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// To one connection too many. It is not read: whoever sends a lot does not get to.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/problem+json\r\ncontent-length: 132\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"too many connections\",\"status\":503,\
    \"detail\":\"the server has reached http_connections_max; try again\"}";

/// A listening socket.
#[derive(Debug)]
pub(super) struct Door {
    listener: TcpListener,
    /// Where it listens, with the real port.
    pub(super) address: SocketAddr,
}

impl Door {
    pub(super) fn open(address: SocketAddr) -> Result<Self, Failure> {
        let listen = || -> io::Result<Self> {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener: TcpListener::from_std(listener)?, address })
        };
        listen().map_err(|e| Failure::Listen(why_not(address, &e)))
    }

    /// Takes connections until the site stops.
    pub(super) async fn accept(self, site: Arc<Site>, connections: Arc<Connections>) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = site.stopping.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => admit(stream, &site, &connections),
                Err(e) if is_of_one_connection(&e) => {}
                Err(e) => {
                    tracing::warn!(error = %e, "cannot accept a connection; trying again");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }
}

fn admit(stream: TcpStream, site: &Arc<Site>, connections: &Connections) {
    // Small answers must not wait for more to say.
    let _ = stream.set_nodelay(true);
    let Some(place) = connections.enter() else {
        // What does not fit into an empty socket is not worth waiting for.
        let _ = stream.try_write(FULL);
        return;
    };
    let site = Arc::clone(site);
    tokio::spawn(async move {
        carry(stream, site).await;
        drop(place);
    });
}

/// Carries the requests of one connection, one after the other.
async fn carry(stream: TcpStream, site: Arc<Site>) {
    let to_site = Arc::clone(&site);
    let service = service_fn(move |request: Request<Incoming>| {
        to_site.router().oneshot(request.map(Body::new))
    });
    let head_bytes_max = site.config.http_head_bytes_max.size();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(site.config.http_head_ms_max.ms())
        .max_header_size(head_bytes_max)
        .max_buf_size(head_bytes_max.max(BUFFER_BYTES_MIN));
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
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
}

fn is_of_one_connection(e: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(e.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Why nobody can listen there, and who must act.
fn why_not(address: SocketAddr, e: &io::Error) -> String {
    let (why, way_out) = match e.kind() {
        io::ErrorKind::AddrInUse => (
            "another process listens there".to_owned(),
            "stop that one, or choose another port with --http (port 0 takes a free one)",
        ),
        io::ErrorKind::AddrNotAvailable => {
            ("this machine has no such address".to_owned(), "choose one that it has with --http")
        }
        io::ErrorKind::PermissionDenied => (
            "this user may not use that port".to_owned(),
            "choose one above 1023 with --http, or let the service manager grant it",
        ),
        _ => (e.to_string(), "choose another address with --http"),
    };
    format!("cannot listen on {address}: {why}; {way_out}")
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
