//! Effects in PostgreSQL that happen once. With the feature `once-postgres`.
//!
//! Marker and effect are one transaction of the database: both are there, or neither is, and there is
//! no gap for a crash to fall into. The marker is a row under a primary key. Of two transactions that
//! insert it at once one waits until the other has ended, and then finds it, or inserts it itself.
//!
//! ```no_run
//! # async fn pay(client: &mut tokio_postgres::Client, order: &bellwether::Delivery)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use bellwether::once::postgres::{Marked, mark, record};
//!
//! let transaction = client.transaction().await?;
//! let key = order.id.as_deref().ok_or("an order has an id")?;
//! match mark(&transaction, "payments", key, Some(order.body())).await? {
//!     Marked::First => {
//!         transaction.execute("UPDATE accounts SET cents = cents - 250 WHERE id = 7", &[]).await?;
//!         record(&transaction, "payments", key, b"receipt 7").await?;
//!         transaction.commit().await?;
//!     }
//!     Marked::Before { outcome } => drop(outcome), // paid already: complete the message
//!     Marked::Conflict => return Err("another order has this id".into()), // dead-letter it
//! }
//! # Ok(()) }
//! ```

use std::time::Duration;

use tokio_postgres::{Client, Error, Transaction};

/// What the database needs once: a table. Does nothing where it is there.
pub const SETUP_SQL: &str = "
CREATE TABLE IF NOT EXISTS bellwether_once (
    scope   text        NOT NULL,
    key     text        NOT NULL,
    content bytea,
    outcome bytea,
    at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, key)
);
CREATE INDEX IF NOT EXISTS bellwether_once_at ON bellwether_once (scope, at);
";

/// Whether the work is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marked {
    /// Nobody did it before: do it, and commit. If this transaction does not commit, it was not
    /// marked.
    First,
    /// It was done.
    Before {
        /// What was recorded of it.
        outcome: Option<Vec<u8>>,
    },
    /// The key was used for other content: an alert or a dead letter, not a silent skip.
    Conflict,
}

/// Runs [`SETUP_SQL`], in the schema that the connection's `search_path` names first.
pub async fn install(client: &Client) -> Result<(), Error> {
    // Two that begin together would both find no table, and one of them would fail. Sent as one
    // text it is one transaction, and the lock goes with it.
    client.batch_execute(&format!("SELECT pg_advisory_xact_lock(40319); {SETUP_SQL}")).await
}

/// Marks a piece of work as done by this transaction, unless it was done before. Call it before the
/// effect. `content`, if given, tells the same work from other work under the same key; it is kept as
/// a hash.
///
/// Waits for another transaction that has marked the same key and has not ended. Under stricter
/// isolation than the database's own it may fail with a serialization failure instead: begin again,
/// as always there.
pub async fn mark(
    transaction: &Transaction<'_>,
    scope: &str,
    key: &str,
    content: Option<&[u8]>,
) -> Result<Marked, Error> {
    // Never check, then insert: the insert is the check.
    let insert = "INSERT INTO bellwether_once (scope, key, content) \
                  VALUES ($1, $2, sha256($3::bytea)) ON CONFLICT DO NOTHING";
    if transaction.execute(insert, &[&scope, &key, &content]).await? == 1 {
        return Ok(Marked::First);
    }
    let found = "SELECT outcome, content IS DISTINCT FROM sha256($3::bytea) \
                 AND content IS NOT NULL AND $3::bytea IS NOT NULL \
                 FROM bellwether_once WHERE scope = $1 AND key = $2";
    let row = transaction.query_one(found, &[&scope, &key, &content]).await?;
    let is_other: bool = row.get(1);
    Ok(if is_other { Marked::Conflict } else { Marked::Before { outcome: row.get(0) } })
}

/// Records what came of it, for whoever finds it done; in the transaction that marked it.
pub async fn record(
    transaction: &Transaction<'_>,
    scope: &str,
    key: &str,
    outcome: &[u8],
) -> Result<(), Error> {
    let update = "UPDATE bellwether_once SET outcome = $3 WHERE scope = $1 AND key = $2";
    transaction.execute(update, &[&scope, &key, &outcome]).await?;
    Ok(())
}

/// Forgets markers older than `keep`; returns how many. Keep them longer than the longest redelivery,
/// and longer than an operator may take to send dead letters again.
pub async fn forget(client: &Client, scope: &str, keep: Duration) -> Result<u64, Error> {
    let delete = "DELETE FROM bellwether_once WHERE scope = $1 \
                  AND at < now() - make_interval(secs => $2)";
    client.execute(delete, &[&scope, &keep.as_secs_f64()]).await
}
