//! Rows that only the latest term may write. With the feature `fencing-postgres`.
//!
//! The term is a row of its own, compared and locked in the transaction of the write: transactions
//! under one term share the lock once the first of them has committed, a later term waits until they have ended, and an earlier one is
//! refused by an error of the database, after which that transaction cannot commit anything. So in
//! the order of commits terms never go down.
//!
//! All of it is the function `bellwether_fence(election, term)` in [`SETUP_SQL`]; other languages
//! call it by the same name and look for SQLSTATE `ZBW01`.
//!
//! A leader that is frozen inside a transaction keeps its successor waiting. Give the server
//! `idle_in_transaction_session_timeout`, of the order of the lease's ttl: it then rolls back what
//! the frozen one had begun.

use bellwether_core::name::Term;
use tokio_postgres::{Client, Transaction};

use super::{FenceError, Fenced};
use crate::elector::Fence;

/// What the database needs once: a table and a function. Does nothing where they are there.
pub const SETUP_SQL: &str = include_str!("postgres.sql");

/// The SQLSTATE of the refusal.
pub const FENCED_SQLSTATE: &str = "ZBW01";

/// Why a transaction was not let through.
pub type Error = FenceError<tokio_postgres::Error>;

/// Runs [`SETUP_SQL`], in the schema that the connection's `search_path` names first. All writers
/// must have the same one in front: two tables are two fences.
pub async fn install(client: &Client) -> Result<(), tokio_postgres::Error> {
    // Two that begin together would both find no table, and one of them would fail. Sent as one
    // text it is one transaction, and the lock goes with it.
    client.batch_execute(&format!("SELECT pg_advisory_xact_lock(40318); {SETUP_SQL}")).await
}

/// Lets the transaction through if no later term was here. Call it before the transaction's
/// first write; on an error drop the transaction.
///
/// ```no_run
/// # async fn write(client: &mut tokio_postgres::Client, leadership: &bellwether::Leadership)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use bellwether::fencing::postgres::fenced;
///
/// let transaction = client.transaction().await?;
/// fenced(&transaction, &leadership.ensure()?).await?;
/// transaction.execute("UPDATE prices SET cents = $1 WHERE item = 'tea'", &[&250]).await?;
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
pub async fn fenced(transaction: &Transaction<'_>, fence: &Fence) -> Result<(), Error> {
    // As text, so that the database itself says that a number is too large for it.
    let (election, term) = (fence.election.as_str(), fence.term.to_string());
    let asked = transaction
        .execute("SELECT bellwether_fence($1::text, $2::text::bigint)", &[&election, &term])
        .await;
    match asked {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(refusal(fence, &error).map_or(FenceError::Fault(error), FenceError::from))
        }
    }
}

fn refusal(fence: &Fence, error: &tokio_postgres::Error) -> Option<Fenced> {
    let said = error.as_db_error().filter(|said| said.code().code() == FENCED_SQLSTATE)?;
    Some(Fenced::new(fence, Term(said.detail()?.parse().ok()?)))
}
