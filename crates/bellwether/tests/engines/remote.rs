//! The engine that is reached over the wire, with the file engine behind it.

use std::sync::{Mutex, PoisonError};

use bellwether::conformance::{Fixture, Opening, Store};
use bellwether::journal::file::FileOptions;
use bellwether::{Open, VirtualClock};

use crate::file::File;
use crate::proxy::Proxy;
use crate::server::Server;

#[derive(Debug)]
struct Remote {
    file: File,
    /// The server of this life, and what stands between it and its clients.
    server: Mutex<Option<(Server, Option<Proxy>)>>,
    has_proxy: bool,
}

impl Remote {
    fn new(has_proxy: bool) -> Self {
        let file = File::new(FileOptions::default(), 64 << 20);
        Self { file, server: Mutex::new(None), has_proxy }
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
            let server = Server::start(self.file.open(memory_bytes_max).await?).await;
            let proxy = if self.has_proxy { Some(Proxy::start(server.at).await) } else { None };
            let at = proxy.as_ref().map_or(server.at, |proxy| proxy.at);
            *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some((server, proxy));
            let clock = self.file.clock().expect("a clock that tests move");
            Open::new(format!("bellwether://{at}")).clock(clock).open().await
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
        Fixture::open(Remote::new(false)).await
    }

    bellwether::conformance_tests! { fixture: fixture, restart: yes, virtual_clock: yes }
}

mod through_a_bad_network {
    use super::{Fixture, Remote};

    async fn fixture() -> Fixture {
        Fixture::open(Remote::new(true)).await
    }

    bellwether::conformance_tests! { fixture: fixture, restart: yes, virtual_clock: yes }
}
