//! Connections to the servers of others, plain or over TLS.
//!
//! Trusted are the authorities that this machine trusts; `SSL_CERT_FILE` names others.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A connection, of whatever kind.
pub(super) trait Stream: AsyncRead + AsyncWrite + Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Debug + Send + Unpin> Stream for T {}

/// Connects to `host` and `port`.
pub(super) async fn plain(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Shakes hands with a server of this name.
pub(super) async fn over_tls(host: &str, stream: TcpStream) -> io::Result<Box<dyn Stream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    // Files are read, and those of a system are many.
    let config = tokio::task::spawn_blocking(config).await.map_err(io::Error::other)??;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    Ok(Box::new(stream))
}

fn config() -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    // Among the many of a system there may be one that is not understood.
    let (added, _) =
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        return Err(io::Error::other(
            "this machine has no certificates of authorities; install its package for them \
             (ca-certificates), or name a file in SSL_CERT_FILE",
        ));
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
