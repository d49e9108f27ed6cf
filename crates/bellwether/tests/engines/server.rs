//! A server in this process, for engines that are reached over the wire.

use std::net::SocketAddr;

use bellwether::Bellwether;
use bellwether::wire::accept::{Acceptor, Limits};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A store and those who are let into it.
#[derive(Debug)]
pub(crate) struct Server {
    store: Bellwether,
    stop: CancellationToken,
    connections: TaskTracker,
    pub(crate) at: SocketAddr,
}

impl Server {
    pub(crate) async fn start(store: Bellwether, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let acceptor = Acceptor::new(&store, Limits::default()).unwrap();
        let (stop, connections) = (CancellationToken::new(), TaskTracker::new());
        let (stopping, tracker) = (stop.clone(), connections.clone());
        connections.spawn(async move {
            while let Some(Ok((stream, _))) = stopping.run_until_cancelled(listener.accept()).await
            {
                stream.set_nodelay(true).unwrap();
                let (acceptor, stop, tls) = (acceptor.clone(), stopping.clone(), tls.clone());
                tracker.spawn(async move {
                    match tls {
                        None => drop(acceptor.serve(stream, stop).await),
                        // Who does not get through the handshake was cut off by the network.
                        Some(tls) => {
                            if let Some(Ok(stream)) =
                                stop.run_until_cancelled(tls.accept(stream)).await
                            {
                                drop(acceptor.serve(stream, stop.clone()).await);
                            }
                        }
                    }
                });
            }
        });
        Self { store, stop, connections, at }
    }

    /// Lets everybody out, then closes the store.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.connections.close();
        self.connections.wait().await;
        self.store.close().await;
    }
}
