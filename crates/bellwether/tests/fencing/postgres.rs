//! PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use bellwether::Fence;
use bellwether::conformance::fencing::{self, FencedResource};
use bellwether::fencing::postgres::{Error, FENCED_SQLSTATE, fenced, install};
use bellwether::fencing::{FenceError, Fenced};
use tokio::sync::Mutex;
use tokio_postgres::IsolationLevel;
use tokio_postgres::error::SqlState;

use crate::servers::Postgres;
use crate::{ELECTION, fence};

/// A table that is written by a new connection each time, as by other processes.
struct Table {
    server: Mutex<Postgres>,
    isolation: IsolationLevel,
}

impl Table {
    async fn new(isolation: IsolationLevel) -> Self {
        let server = Postgres::start().await;
        let client = server.connect().await;
        install(&client).await.unwrap();
        let records = "CREATE TABLE records (at bigserial PRIMARY KEY, record text NOT NULL)";
        client.batch_execute(records).await.unwrap();
        Self { server: Mutex::new(server), isolation }
    }

    async fn client(&self) -> tokio_postgres::Client {
        self.server.lock().await.connect().await
    }
}

impl FencedResource for Table {
    type Fault = tokio_postgres::Error;

    async fn append(&self, fence: &Fence, record: &str) -> Result<(), Error> {
        let mut client = self.client().await;
        loop {
            let build = client.build_transaction().isolation_level(self.isolation);
            let transaction = build.start().await.map_err(FenceError::Fault)?;
            let written = async {
                fenced(&transaction, fence).await?;
                let insert = "INSERT INTO records (record) VALUES ($1)";
                transaction.execute(insert, &[&record]).await.map_err(FenceError::Fault)?;
                transaction.commit().await.map_err(FenceError::Fault)
            };
            match written.await {
                // What strict isolation asks of everybody: try again.
                Err(FenceError::Fault(e))
                    if e.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {}
                done => return done,
            }
        }
    }

    async fn records(&self) -> Vec<String> {
        let rows = self.client().await.query("SELECT record FROM records ORDER BY at", &[]).await;
        rows.unwrap().iter().map(|row| row.get(0)).collect()
    }
}

#[tokio::test]
async fn a_late_write_is_refused() {
    let table = Table::new(IsolationLevel::ReadCommitted).await;
    let restart = async || table.server.lock().await.restart().await;
    fencing::a_late_write_is_refused(&table, ELECTION, restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_never_go_down() {
    for isolation in [IsolationLevel::ReadCommitted, IsolationLevel::Serializable] {
        let table = Table::new(isolation).await;
        fencing::terms_never_go_down(Arc::new(table), ELECTION).await;
    }
}

/// The deposed leader was let through before its successor came, and is slow: the successor waits,
/// and is not overtaken.
#[tokio::test]
async fn a_successor_waits_for_what_was_let_through_before_it() {
    let table = Arc::new(Table::new(IsolationLevel::ReadCommitted).await);
    let (mut slow, mut second) = (table.client().await, table.client().await);
    table.append(&fence(7), "the first of its term").await.unwrap();
    let begun = slow.transaction().await.unwrap();
    fenced(&begun, &fence(7)).await.unwrap();
    // Another transaction of the same leader does not wait.
    let beside = second.transaction().await.unwrap();
    fenced(&beside, &fence(7)).await.unwrap();
    beside.commit().await.unwrap();
    let successor = tokio::spawn({
        let table = Arc::clone(&table);
        async move { table.append(&fence(8), "the new leader").await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!successor.is_finished(), "the successor went past an open transaction");
    begun.execute("INSERT INTO records (record) VALUES ('the old leader')", &[]).await.unwrap();
    begun.commit().await.unwrap();
    successor.await.unwrap().unwrap();
    assert_eq!(
        table.records().await,
        ["the first of its term", "the old leader", "the new leader"]
    );
}

/// A leader frozen in a transaction does not block its successor for ever if the server is told so.
#[tokio::test]
async fn a_frozen_transaction_is_ended_by_the_servers_limit() {
    let server = Postgres::start_with(&["idle_in_transaction_session_timeout=200ms"]).await;
    let (mut frozen, mut successor) = (server.connect().await, server.connect().await);
    install(&frozen).await.unwrap();
    let begun = frozen.transaction().await.unwrap();
    fenced(&begun, &fence(7)).await.unwrap();
    let next = successor.transaction().await.unwrap();
    fenced(&next, &fence(8)).await.unwrap();
    next.commit().await.unwrap();
    begun.commit().await.unwrap_err();
}

/// For every language: the function by its name, the refusal by its SQLSTATE and detail; and the
/// transaction of a caller that does not look at the error commits nothing.
#[tokio::test]
async fn the_function_speaks_for_itself() {
    let table = Table::new(IsolationLevel::ReadCommitted).await;
    let client = table.client().await;
    client.batch_execute("SELECT bellwether_fence('plain', 8)").await.unwrap();
    let error = client.batch_execute("SELECT bellwether_fence('plain', 7)").await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!((error.code().code(), error.detail()), (FENCED_SQLSTATE, Some("8")));
    assert!(error.message().contains("term 7 of election \"plain\" is fenced off"), "{error}");

    client.batch_execute("BEGIN").await.unwrap();
    client.batch_execute("INSERT INTO records (record) VALUES ('late')").await.unwrap();
    client.batch_execute("SELECT bellwether_fence('plain', 7)").await.unwrap_err();
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(table.records().await, [""; 0]);
}

#[tokio::test]
async fn installing_is_done_by_many_at_once_and_a_number_too_large_is_the_databases_error() {
    let server = Arc::new(Postgres::start().await);
    let installing: Vec<_> = (0..8)
        .map(|_| {
            let server = Arc::clone(&server);
            tokio::spawn(async move { install(&server.connect().await).await })
        })
        .collect();
    for one in installing {
        one.await.unwrap().unwrap();
    }
    let mut client = server.connect().await;
    let transaction = client.transaction().await.unwrap();
    match fenced(&transaction, &fence(u64::MAX)).await.unwrap_err() {
        FenceError::Fault(e) => assert_eq!(e.code().unwrap().code(), "22003"),
        FenceError::Fenced(Fenced { newest, .. }) => panic!("fenced off by {newest}"),
    }
}
