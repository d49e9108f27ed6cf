//! The engine that is reached over the wire, with the file engine behind it.

use std::sync::{LazyLock, Mutex, PoisonError};

use bellwether::conformance::{Fixture, Opening, Store};
use bellwether::journal::file::FileOptions;
use bellwether::{Open, VirtualClock};

use crate::certificates::{Authority, Identity};
use crate::file::File;
use crate::proxy::Proxy;
use crate::server::Server;

static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);
static IDENTITY: LazyLock<Identity> = LazyLock::new(|| AUTHORITY.issue(&["127.0.0.1"]));

#[derive(Debug)]
struct Remote {
    file: File,
    /// The server of this life, and what stands between it and its clients.
    server: Mutex<Option<(Server, Option<Proxy>)>>,
    has_proxy: bool,
    has_tls: bool,
}

impl Remote {
    fn new(has_proxy: bool, has_tls: bool) -> Self {
        let file = File::new(FileOptions::default(), 64 << 20);
        Self { file, server: Mutex::new(None), has_proxy, has_tls }
    }

    fn take(&self) -> Option<(Server, Option<Proxy>)> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Store for Remote {
    fn open(&self, memory_bytes_max: Option<u64>) -> Opening<'_> {
        let old = self.take();
        let opening = async move {
            if let Some((server, _)) = old {
                server.stop().await;
            }
            let server = {
                let tls = self.has_tls.then(|| IDENTITY.acceptor());
                Server::start(self.file.open(memory_bytes_max).await?, tls).await
            };
            let proxy = if self.has_proxy { Some(Proxy::start(server.at).await) } else { None };
            let at = proxy.as_ref().map_or(server.at, |proxy| proxy.at);
            *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some((server, proxy));
            let clock = self.file.clock().expect("a clock that tests move");
            let open = if self.has_tls {
                Open::new(format!("bellwethers://{at}")).trust(AUTHORITY.pem.as_str())
            } else {
                Open::new(format!("bellwether://{at}"))
            };
            open.clock(clock).open().await
        };
        Box::pin(opening)
    }

    fn kill(&self) {
        self.file.kill();
        // The dead do not close what they had open.
        std::mem::forget(self.take());
    }

    fn clock(&self) -> Option<VirtualClock> {
        self.file.clock()
    }

    fn loses_answers(&self) -> bool {
        self.has_proxy
    }
}

mod direct {
    use super::{Fixture, Remote};

    async fn fixture() -> Fixture {
        Fixture::open(Remote::new(false, false)).await
    }

    bellwether::conformance_tests! { fixture: fixture, restart: yes, virtual_clock: yes }
}

mod through_a_bad_network {
    use super::{Fixture, Remote};

    async fn fixture() -> Fixture {
        Fixture::open(Remote::new(true, false)).await
    }

    bellwether::conformance_tests! { fixture: fixture, restart: yes, virtual_clock: yes }
}

mod over_tls {
    use super::{Fixture, Remote};

    async fn fixture() -> Fixture {
        Fixture::open(Remote::new(false, true)).await
    }

    bellwether::conformance_tests! { fixture: fixture, restart: yes, virtual_clock: yes }
}

/// A chosen part: the cases that are most sensitive to cuts. New here are those within a handshake.
mod over_tls_through_a_bad_network {
    use super::{Fixture, Remote};

    async fn fixture() -> Fixture {
        Fixture::open(Remote::new(true, true)).await
    }

    bellwether::conformance_tests! { @group yes fixture model [
        one_after_the_other with_waiting a_longer_story
    ] }
}
