//! Our own engines: in memory, in a file, and a server over the wire.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use bellwether::conformance::Running;
use bellwether::conformance::election::{Hall, Place};
use bellwether::wire::accept::{Acceptor, Limits};
use bellwether::{Bellwether, Elections, Error};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::folder::Folder;

/// A store inside this process: everybody is the same member.
#[derive(Debug)]
struct Inside {
    elections: Elections,
    _folder: Folder,
}

impl Inside {
    async fn open(address: impl FnOnce(&Folder) -> String) -> Self {
        let folder = Folder::new();
        Self { elections: Elections::open(address(&folder)).await.unwrap(), _folder: folder }
    }
}

impl Place for Inside {
    fn join(&self, _: Option<SocketAddr>) -> Running<'_, Result<Elections, Error>> {
        Box::pin(std::future::ready(Ok(self.elections.clone())))
    }

    fn server(&self) -> Option<SocketAddr> {
        None
    }

    fn restart(&self) -> Running<'_, ()> {
        unreachable!("it ends with its members")
    }
}

/// A server, with a file behind it.
#[derive(Debug)]
pub(crate) struct Server {
    folder: Folder,
    at: SocketAddr,
    running: Mutex<Option<Serving>>,
}

#[derive(Debug)]
struct Serving {
    store: Bellwether,
    stop: CancellationToken,
    connections: TaskTracker,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let folder = Folder::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let serving = serve(folder.path().to_owned(), listener).await;
        Self { folder, at, running: Mutex::new(Some(serving)) }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<Serving>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(folder: PathBuf, listener: TcpListener) -> Serving {
    let store = Bellwether::open(format!("file:{}", folder.display())).await.unwrap();
    let acceptor = Acceptor::new(&store, Limits::default()).unwrap();
    let (stop, connections) = (CancellationToken::new(), TaskTracker::new());
    let (stopping, tracker) = (stop.clone(), connections.clone());
    connections.spawn(async move {
        while let Some(Ok((stream, _))) = stopping.run_until_cancelled(listener.accept()).await {
            stream.set_nodelay(true).unwrap();
            let (acceptor, stop) = (acceptor.clone(), stopping.clone());
            tracker.spawn(async move { drop(acceptor.serve(stream, stop).await) });
        }
    });
    Serving { store, stop, connections }
}

impl Place for Server {
    fn join(&self, by: Option<SocketAddr>) -> Running<'_, Result<Elections, Error>> {
        Box::pin(Elections::open(format!("bellwether://{}", by.unwrap_or(self.at))))
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(self.at)
    }

    fn restart(&self) -> Running<'_, ()> {
        Box::pin(async {
            let Serving { store, stop, connections } = self.running().take().unwrap();
            stop.cancel();
            connections.close();
            connections.wait().await;
            store.close().await;
            let listener = TcpListener::bind(self.at).await.unwrap();
            let serving = serve(self.folder.path().to_owned(), listener).await;
            *self.running() = Some(serving);
        })
    }
}

mod memory {
    use super::{Hall, Inside};

    async fn hall() -> Hall {
        Hall::open(Inside::open(|_| "memory:".to_owned()).await).await
    }

    bellwether::election_tests! { hall: hall, network: no, restart: no }
}

mod file {
    use super::{Hall, Inside};

    async fn hall() -> Hall {
        Hall::open(Inside::open(|folder| format!("file:{}", folder.path().display())).await).await
    }

    bellwether::election_tests! { hall: hall, network: no, restart: no }
}

mod server {
    use super::{Hall, Server};

    async fn hall() -> Hall {
        Hall::open(Server::start().await).await
    }

    bellwether::election_tests! { hall: hall, network: yes, restart: yes }
}
