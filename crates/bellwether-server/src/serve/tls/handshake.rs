//! A handshake, which ends in time, and what those hear who do not speak TLS.

use std::io;

use bellwether::wire::Why;
use tokio::net::TcpStream;
use tokio_rustls::rustls::{AlertDescription, Error as TlsError};
use tokio_rustls::server::TlsStream;

use super::super::door::send_away;
use super::super::over_wire::goodbye;
use super::super::peer::Peer;
use super::super::site::Site;
use super::Tls;
use crate::http::problem::{self, Problem};

/// The first byte of everybody who wants to shake hands.
const HANDSHAKE: u8 = 22;

/// What is spoken at a door, below TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Spoken {
    Http,
    Wire,
}

impl Spoken {
    /// To whoever speaks it plainly.
    fn plain_words(self) -> Vec<u8> {
        match self {
            Self::Http => {
                let detail = "write https:// instead of http:// in the address";
                let body = Problem::new(problem::Kind::NeedsTls, detail).json();
                let mut bytes = format!(
                    "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
                     content-type: {}\r\ncontent-length: {}\r\n\r\n",
                    problem::MEDIA_TYPE,
                    body.len()
                )
                .into_bytes();
                bytes.extend(body);
                bytes
            }
            Self::Wire => {
                let text = "it speaks TLS; write bellwethers:// instead of bellwether:// in the \
                            address";
                goodbye(Why::Protocol, text)
            }
        }
    }
}

/// Shakes hands with whoever has connected: a stream that nobody else reads or changes, and who is
/// at its other end. In a box, so that connections without TLS do not have its size.
pub(in super::super) async fn shake(
    stream: TcpStream,
    tls: &Tls,
    spoken: Spoken,
    site: &Site,
) -> Option<(Box<TlsStream<TcpStream>>, Peer)> {
    let shaking = tokio::time::timeout(
        site.config.tls_handshake_ms_max.ms(),
        Box::pin(try_shake(stream, tls, spoken, site)),
    );
    let shaken = match site.stopping.run_until_cancelled(shaking).await? {
        Ok(shaken) => shaken,
        Err(_) => Err(("late", io::Error::other("it took longer than tls_handshake_ms_max"))),
    };
    match shaken {
        Ok(stream) => {
            let shown = stream.get_ref().1.peer_certificates();
            let peer = shown.and_then(|shown| shown.first()).map(Peer::of).unwrap_or_default();
            tracing::debug!(?spoken, names = ?peer.names(), "hands were shaken over TLS");
            Some((stream, peer))
        }
        Err((reason, e)) => {
            tls.failed.count(reason);
            tracing::debug!(?spoken, error = %e, "a TLS handshake failed");
            None
        }
    }
}

/// Why a handshake failed, for the metrics and for people.
type Failed = (&'static str, io::Error);

async fn try_shake(
    stream: TcpStream,
    tls: &Tls,
    spoken: Spoken,
    site: &Site,
) -> Result<Box<TlsStream<TcpStream>>, Failed> {
    let mut first = [0];
    if stream.peek(&mut first).await.map_err(|e| ("other", e))? == 0 {
        return Err(("other", io::ErrorKind::UnexpectedEof.into()));
    }
    if first != [HANDSHAKE] {
        send_away(stream, &spoken.plain_words(), site.connections.send_away());
        return Err(("plain", io::Error::other("it does not speak TLS")));
    }
    tls.acceptor(spoken).accept(stream).into_fallible().await.map(Box::new).map_err(|failed| {
        let (e, stream) = failed;
        // Why it failed was said in TLS's own words; the other side is to hear them.
        send_away(stream, &[], site.connections.send_away());
        let why = e.get_ref().and_then(|why| why.downcast_ref::<TlsError>());
        // One of theirs that we do not take, or of ours that they do not take.
        let is_certificate = matches!(
            why,
            Some(
                TlsError::InvalidCertificate(_)
                    | TlsError::AlertReceived(
                        AlertDescription::BadCertificate
                            | AlertDescription::CertificateExpired
                            | AlertDescription::CertificateUnknown
                            | AlertDescription::UnknownCA
                    )
            )
        );
        (if is_certificate { "certificate" } else { "other" }, e)
    })
}
