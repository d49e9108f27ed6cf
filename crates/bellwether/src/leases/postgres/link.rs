//! Connections to PostgreSQL: one that asks, made again when it breaks, and one that listens.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::{Mutex, broadcast};
use tokio::task::AbortHandle;
use tokio_postgres::error::Error as PostgresError;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, SimpleQueryMessage, SimpleQueryRow};
use tokio_util::sync::CancellationToken;

use super::sql;
use crate::error::Error;

/// Between two tries to connect; it doubles up to the maximum.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub(super) struct Link {
    config: Config,
    /// The address as it may be shown.
    shown: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: Option<Open>,
    /// Connections that failed in a row.
    failed: u32,
}

#[derive(Clone, Debug)]
struct Open {
    client: std::sync::Arc<Client>,
    connection: AbortHandle,
}

impl Link {
    pub(super) fn new(config: Config, shown: String) -> Self {
        Self { config, shown, state: Mutex::default() }
    }

    /// Asks, within so much time with everything it takes to connect. One ask is one transaction.
    pub(super) async fn query(
        &self,
        sql: &str,
        patience: Duration,
    ) -> Result<Vec<SimpleQueryRow>, Error> {
        let mut used = None;
        let asked = async {
            let open = self.connected().await?;
            used = Some(open.clone());
            let answer = open.client.simple_query(sql).await.map_err(|e| self.failure(&e))?;
            let row = |message| match message {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            };
            // Those of a lock or a setting say nothing.
            let says = |row: &SimpleQueryRow| {
                row.columns().first().is_some_and(|column| column.name() != "set_config")
            };
            Ok(answer.into_iter().filter_map(row).filter(says).collect())
        };
        let asked = tokio::time::timeout(patience, asked).await;
        let answer = asked.unwrap_or_else(|_| {
            let why = format!("{} has not answered within {patience:?}", self.shown);
            Err(if used.is_some() { Error::Unknown(why) } else { self.unreachable(&why) })
        });
        if matches!(answer, Err(Error::Unknown(_)))
            && let Some(used) = used
        {
            // What comes over it later would answer something else.
            used.connection.abort();
        }
        answer
    }

    async fn connected(&self) -> Result<Open, Error> {
        let mut state = self.state.lock().await;
        if let Some(open) = &state.open
            && !open.client.is_closed()
            && !open.connection.is_finished()
        {
            return Ok(open.clone());
        }
        state.open = None;
        if state.failed > 0 {
            let pause = PAUSE_MIN * (1 << (state.failed - 1).min(10));
            let pause = pause.min(PAUSE_MAX).as_millis() as u64;
            let jitter = crate::chance::random_u64() % (pause / 2 + 1);
            tokio::time::sleep(Duration::from_millis(pause / 2 + jitter)).await;
        }
        state.failed += 1;
        let connected = self.config.connect(NoTls).await;
        let (client, connection) = connected.map_err(|e| match e.as_db_error() {
            Some(said) => Error::Denied { address: self.shown.clone(), why: said.message().into() },
            None => self.unreachable(&innermost(&e)),
        })?;
        // It ends with its client, or with the server; the client is told.
        let connection = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        let open = Open { client: std::sync::Arc::new(client), connection };
        (state.open, state.failed) = (Some(open.clone()), 0);
        Ok(open)
    }

    pub(super) async fn close(&self) {
        self.state.lock().await.open = None;
    }

    fn unreachable(&self, why: &str) -> Error {
        Error::Failed(format!("cannot reach {}: {why}; nothing was asked of it", self.shown))
    }

    fn failure(&self, error: &PostgresError) -> Error {
        match error.as_db_error() {
            // It was undone, whatever it was.
            Some(said) if !error.is_closed() => Error::Failed(format!(
                "{} said {}: {}",
                self.shown,
                said.code().code(),
                said.message()
            )),
            _ => Error::Unknown(format!("{}: {}", self.shown, innermost(error))),
        }
    }
}

fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Listens until closed. What it hears are hints; where it hears nothing, those who wait look.
pub(super) async fn hear(
    config: Config,
    news: broadcast::Sender<String>,
    closed: CancellationToken,
) {
    let mut pause = PAUSE_MIN;
    while !closed.is_cancelled() {
        tokio::select! {
            () = closed.cancelled() => return,
            heard = listen(&config, &news) => if heard { pause = PAUSE_MIN },
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Until the connection breaks; whether there was one.
async fn listen(config: &Config, news: &broadcast::Sender<String>) -> bool {
    let Ok((client, mut connection)) = config.connect(NoTls).await else { return false };
    let listening = format!("LISTEN {}", sql::CHANNEL);
    let listening = client.batch_execute(&listening);
    let hearing = async {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(told) = message {
                // Nobody waits at the moment, if nobody takes it.
                let _ = news.send(told.payload().to_owned());
            }
        }
    };
    // The connection carries the LISTEN, too.
    let listening = async {
        if listening.await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = hearing => {}
        () = listening => {}
    }
    true
}
