//! Where somebody comes from.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bellwether::wire::accept::{Gate, Pass, Turned};
use tokio::net::TcpStream;

use super::Access;
use crate::serve::peer::Peer;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// From an address, and with these names in a certificate that was verified.
    Network { address: IpAddr, names: Arc<[String]> },
    /// By the Unix socket, which only this user can open.
    Socket,
}

impl Origin {
    pub(super) fn is_socket(&self) -> bool {
        matches!(self, Self::Socket)
    }

    /// Whoever is at the other end of a TCP connection.
    pub(crate) fn of(stream: &TcpStream) -> Self {
        // One that has gone again is nobody's.
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let address = stream.peer_addr().map_or(nowhere, |peer| peer.ip().to_canonical());
        Self::Network { address, names: [].into() }
    }

    /// The same, under the names that a handshake has shown.
    pub(crate) fn named(self, peer: Peer) -> Self {
        match self {
            Self::Network { address, .. } => Self::Network { address, names: peer.into_names() },
            Self::Socket => Self::Socket,
        }
    }

    /// The address, if it is another machine's.
    pub(crate) fn remote(&self) -> Option<IpAddr> {
        let address = self.address()?.to_canonical();
        (!address.is_loopback()).then_some(address)
    }

    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Network { address, .. } => Some(*address),
            Self::Socket => None,
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Self::Network { names, .. } => &names[..],
            Self::Socket => &[],
        };
        names.iter().map(String::as_str)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { address, .. } => write!(f, "{address}"),
            Self::Socket => f.write_str("socket"),
        }
    }
}

/// Asks for credentials at a connection of the wire.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) access: Arc<Access>,
    pub(crate) origin: Origin,
}

impl Gate for Door {
    fn admit(&self, credential: &str) -> Result<Arc<Pass>, Turned> {
        self.access.admit(credential, &self.origin)
    }
}
