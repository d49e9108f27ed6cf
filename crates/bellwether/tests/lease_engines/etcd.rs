//! etcd, one member.

use std::net::SocketAddr;

use bellwether::conformance::Running;
use bellwether::conformance::election::{Hall, Place};
use bellwether::{Elections, Error};
use tokio::sync::Mutex;

use crate::servers;

#[derive(Debug)]
struct Etcd {
    at: SocketAddr,
    server: Mutex<servers::Etcd>,
}

impl Place for Etcd {
    fn join(&self, by: Option<SocketAddr>) -> Running<'_, Result<Elections, Error>> {
        Box::pin(Elections::open(format!("etcd://{}", by.unwrap_or(self.at))))
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(self.at)
    }

    fn restart(&self) -> Running<'_, ()> {
        Box::pin(async { self.server.lock().await.restart().await })
    }
}

async fn hall() -> Hall {
    let server = servers::Etcd::start().await;
    let at = server.url().trim_start_matches("http://").parse().unwrap();
    Hall::open(Etcd { at, server: Mutex::new(server) }).await
}

bellwether::election_tests! { hall: hall, network: yes, restart: yes }

#[tokio::test]
async fn an_address_that_cannot_be_is_refused() {
    for wrong in ["etcd://", "etcd://host:1/path", "etcd://user:secret@127.0.0.1:2379"] {
        let refused = Elections::open(wrong).await.unwrap_err();
        assert!(matches!(refused, Error::Address { .. }), "{wrong}: {refused}");
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
}
