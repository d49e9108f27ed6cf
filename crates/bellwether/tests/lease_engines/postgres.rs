//! PostgreSQL, reached directly, and through a pooler that gives every transaction another
//! connection.

use std::net::SocketAddr;

use bellwether::conformance::Running;
use bellwether::conformance::election::{Hall, Place};
use bellwether::{Elections, Error};
use tokio::sync::Mutex;

use crate::servers::{self, Process, free_ports};

#[derive(Debug)]
struct Postgres {
    at: SocketAddr,
    _pooler: Option<Process>,
    server: Mutex<servers::Postgres>,
}

fn address(at: SocketAddr) -> String {
    format!("postgres://postgres@{at}/postgres")
}

impl Place for Postgres {
    fn join(&self, by: Option<SocketAddr>) -> Running<'_, Result<Elections, Error>> {
        Box::pin(Elections::open(address(by.unwrap_or(self.at))))
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(self.at)
    }

    fn restart(&self) -> Running<'_, ()> {
        Box::pin(async { self.server.lock().await.restart().await })
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// In transaction mode, with two connections to the server for everybody.
async fn pooler(server: u16) -> (Process, SocketAddr) {
    let user = rustix::process::geteuid().is_root().then_some("postgres");
    let mut process = Process::new("pgbouncer", user);
    let [port] = free_ports();
    let config = process.folder.join("pgbouncer.ini");
    let text = format!(
        "[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
         default_pool_size = 2\nmax_client_conn = 200\nserver_login_retry = 1\n\
         [databases]\npostgres = host=127.0.0.1 port={server} user=postgres\n"
    );
    std::fs::write(&config, text).unwrap();
    process.start("/usr/sbin/pgbouncer", vec![config.display().to_string()]);
    let at = local(port);
    while tokio_postgres::connect(&address(at), tokio_postgres::NoTls).await.is_err() {
        process.must_run();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    (process, at)
}

async fn hall(is_pooled: bool) -> Hall {
    let server = servers::Postgres::start().await;
    let (pooler, at) = if is_pooled {
        let (process, at) = pooler(server.port()).await;
        (Some(process), at)
    } else {
        (None, local(server.port()))
    };
    Hall::open(Postgres { at, _pooler: pooler, server: Mutex::new(server) }).await
}

mod direct {
    use super::Hall;

    async fn hall() -> Hall {
        super::hall(false).await
    }

    bellwether::election_tests! { hall: hall, network: yes, restart: yes }
}

mod pooled {
    use super::Hall;

    async fn hall() -> Hall {
        super::hall(true).await
    }

    bellwether::election_tests! { hall: hall, network: yes, restart: yes }
}

#[tokio::test]
async fn tls_is_not_left_out_in_silence() {
    let address = "postgres://user:secret@127.0.0.1:1/db?sslmode=require";
    let refused = Elections::open(address).await.unwrap_err();
    assert!(matches!(refused, Error::Address { .. }), "{refused}");
    assert!(refused.to_string().contains("sslmode=require"), "{refused}");
    assert!(!refused.to_string().contains("secret"), "{refused}");
}

#[tokio::test]
async fn tables_are_made_once_by_many_at_once() {
    let server = servers::Postgres::start().await;
    let opening: Vec<_> = (0..8).map(|_| tokio::spawn(Elections::open(server.url()))).collect();
    for opened in opening {
        opened.await.unwrap().unwrap().close().await;
    }
}

/// A grant that the server forgot in a crash would be granted twice.
#[tokio::test]
async fn a_grant_outlives_a_crash_of_a_server_that_does_not_flush() {
    let mut server =
        servers::Postgres::start_with(&["synchronous_commit=off", "wal_writer_delay=10s"]).await;
    let elections = Elections::open(server.url()).await.unwrap();
    let election = elections.election("reports").unwrap();
    let guard = election.contend().await.unwrap();
    server.restart().await;
    let leader = Elections::open(server.url()).await.unwrap();
    let leader = leader.election("reports").unwrap().leader().await.unwrap();
    assert_eq!(leader.map(|leader| leader.term), Some(guard.term()));
}
