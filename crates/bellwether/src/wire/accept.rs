//! The server's side of the wire: a store, open to those who connect.
//!
//! The caller owns the sockets: it listens, and hands every stream it accepts to
//! [`Acceptor::serve`], whose future is the connection.

mod connection;

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{Goodbye, VERSION, Welcome, Why};
use crate::engine::Engine;
use crate::engine::local::Local;
use crate::error::Error;
use crate::handle::Bellwether;
use connection::Connection;

/// What one connection may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Asks that may be unanswered at a time.
    pub asks_max: u32,
    /// Bytes that unanswered asks may have together.
    pub bytes_max: u32,
    /// Whoever is silent for so long is taken for dead.
    pub silence_ms_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { asks_max: 16_384, bytes_max: 128 << 20, silence_ms_max: 30_000 }
    }
}

/// How a connection ended.
#[derive(Debug)]
pub enum Ended {
    /// The other side closed it, or was silent too long.
    Left,
    /// It was sent away, for this reason; or the server stopped.
    SentAway(Goodbye),
    /// The stream broke.
    Broken(std::io::Error),
}

/// Opens a store to those who connect. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Acceptor {
    local: Arc<Local>,
    limits: Limits,
    name: Arc<str>,
}

impl Acceptor {
    /// Opens the store of this process. A store that is itself reached over a wire has a server
    /// already.
    pub fn new(bellwether: &Bellwether, limits: Limits) -> Result<Self, Error> {
        let local = match &bellwether.inner.engine {
            Engine::Local { local, .. } => local,
            Engine::Remote(remote) => {
                let address = remote.options().address.to_string();
                let why = "only the process that has the store open can let others in".into();
                return Err(Error::Address { address, why });
            }
        };
        let name = format!("bellwether {}", env!("CARGO_PKG_VERSION")).into();
        Ok(Self { local: Arc::clone(local), limits, name })
    }

    /// Serves one connection until it ends, or until `stop`: then what was asked is answered first.
    pub async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        stop: CancellationToken,
    ) -> Ended {
        Connection::new(&self.local, &self.limits, &self.name, stream).run(stop).await
    }

    fn welcome(limits: &Limits, name: &str) -> Welcome {
        let Limits { asks_max, bytes_max, silence_ms_max } = *limits;
        Welcome { version: VERSION, name: name.to_owned(), asks_max, bytes_max, silence_ms_max }
    }
}

fn goodbye(why: Why, text: impl Into<String>) -> Goodbye {
    Goodbye { why, text: text.into() }
}
