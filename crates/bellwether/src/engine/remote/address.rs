//! Where a server is, and a stream to it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Where a server listens if its address names no port.
const PORT: u16 = 7401;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// `bellwether://host:port`
    Tcp(String),
    /// `bellwethers://host:port`
    #[cfg(feature = "tls")]
    Tls(String),
    /// `bellwether+unix:/path`
    Unix(PathBuf),
}

impl Address {
    /// Reads an address; `None` if it is not one of these.
    pub(crate) fn read(text: &str) -> Option<Result<Self, &'static str>> {
        if let Some(path) = text.strip_prefix("bellwether+unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return Some(match path {
                "" => Err("name the server's socket, as in bellwether+unix:./data/bellwether.sock"),
                path => Ok(Self::Unix(path.into())),
            });
        }
        if let Some(host) = text.strip_prefix("bellwethers://") {
            return Some(over_tls(host));
        }
        text.strip_prefix("bellwether://").map(|host| read_host(host).map(Self::Tcp))
    }

    /// Which process we are, where the server can see whether that is true.
    pub(crate) fn own_process(&self) -> String {
        if let Self::Unix(_) = self { crate::wire::process::own() } else { String::new() }
    }

    /// A stream to whoever listens there; over TLS hands are still to be shaken.
    pub(crate) async fn connect(&self) -> io::Result<Stream> {
        let host = match self {
            Self::Tcp(host) => host,
            #[cfg(feature = "tls")]
            Self::Tls(host) => host,
            Self::Unix(path) => return UnixStream::connect(path).await.map(Stream::Unix),
        };
        let stream = TcpStream::connect(host).await?;
        // What is written is a batch already.
        stream.set_nodelay(true)?;
        Ok(Stream::Tcp(stream))
    }
}

#[cfg(feature = "tls")]
fn over_tls(host: &str) -> Result<Address, &'static str> {
    read_host(host).map(Address::Tls)
}

#[cfg(not(feature = "tls"))]
fn over_tls(_: &str) -> Result<Address, &'static str> {
    Err("this program was built without TLS; switch on the feature `tls` of the crate bellwether")
}

fn read_host(host: &str) -> Result<String, &'static str> {
    let host = host.strip_suffix('/').unwrap_or(host);
    match host {
        "" => Err("name the server, as in bellwether://127.0.0.1:7401"),
        host if host.contains(['/', '?', '#', '@']) => {
            Err("only a host and a port follow, as in bellwether://127.0.0.1:7401")
        }
        host => Ok(with_port(host)),
    }
}

fn with_port(host: &str) -> String {
    // A bare IPv6 address has colons of its own.
    let has_port = match host.rfind(']') {
        Some(end) => host[end..].contains(':'),
        None => host.contains(':'),
    };
    if has_port { host.to_owned() } else { format!("{host}:{PORT}") }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host) => write!(f, "bellwether://{host}"),
            #[cfg(feature = "tls")]
            Self::Tls(host) => write!(f, "bellwethers://{host}"),
            Self::Unix(path) => {
                // Two slashes at the front are taken for the address's own.
                let own =
                    if path.as_os_str().as_encoded_bytes().starts_with(b"//") { "//" } else { "" };
                write!(f, "bellwether+unix:{own}{}", path.display())
            }
        }
    }
}

/// A stream to a server.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    /// In a box: the others are not to have its size.
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
    Unix(UnixStream),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_host_or_a_socket() {
        let tcp = |text: &str| match Address::read(text) {
            Some(Ok(Address::Tcp(host))) => host,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(tcp("bellwether://localhost"), "localhost:7401");
        assert_eq!(tcp("bellwether://localhost:9/"), "localhost:9");
        assert_eq!(tcp("bellwether://[::1]"), "[::1]:7401");
        assert_eq!(tcp("bellwether://[::1]:9"), "[::1]:9");
        let unix = Address::read("bellwether+unix:/run/b.sock");
        assert_eq!(unix, Some(Ok(Address::Unix("/run/b.sock".into()))));
        // What is shown is read as the same, whatever the path begins with.
        for path in ["b.sock", "/run/b.sock", "//run/b.sock", "///b.sock"] {
            let address = Address::Unix(path.into());
            assert_eq!(Address::read(&address.to_string()), Some(Ok(address)), "{path}");
        }
        for wrong in ["bellwether://", "bellwethers://", "bellwether+unix:", "bellwether://host/q"]
        {
            assert!(matches!(Address::read(wrong), Some(Err(_))), "{wrong}");
        }
        assert_eq!(Address::read("file:./data"), None);
    }

    #[cfg(feature = "tls")]
    #[test]
    fn an_address_over_tls_is_told_from_a_plain_one() {
        let address = Address::read("bellwethers://localhost").unwrap().unwrap();
        assert_eq!(address, Address::Tls("localhost:7401".into()));
        assert_eq!(address.to_string(), "bellwethers://localhost:7401");
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn without_tls_the_feature_is_named() {
        let said = Address::read("bellwethers://localhost").unwrap().unwrap_err();
        assert!(said.contains("feature `tls`"), "{said}");
    }
}
