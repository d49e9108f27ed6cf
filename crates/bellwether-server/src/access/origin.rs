//! Where somebody comes from.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use bellwether::wire::accept::{Gate, Pass, Turned};
use tokio::net::TcpStream;

use super::Access;
use crate::serve::peer::Peer;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// From an address, and with a certificate that was verified, if one was shown.
    Network { address: IpAddr, peer: Peer },
    /// By the Unix socket, which only this user can open.
    Socket,
}

impl Origin {
    /// Whoever is at the other end of a TCP connection.
    pub(crate) fn of(stream: &TcpStream) -> Self {
        // One that has gone again is nobody's.
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let address = stream.peer_addr().map_or(nowhere, |peer| peer.ip().to_canonical());
        Self::at(address)
    }

    /// Whoever comes from there, known by nothing else.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Network { address, peer: Peer::default() }
    }

    /// The same, with what a handshake has shown.
    pub(crate) fn shown(self, peer: Peer) -> Self {
        match self {
            Self::Network { address, .. } => Self::Network { address, peer },
            Self::Socket => Self::Socket,
        }
    }

    /// Where another machine is, for what is counted there. One machine has all the addresses of a
    /// network of IPv6, so there the network counts.
    pub(crate) fn remote(&self) -> Option<IpAddr> {
        let Self::Network { address, .. } = self else { return None };
        let address = address.to_canonical();
        (!address.is_loopback()).then(|| match address {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            IpAddr::V4(_) => address,
        })
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
