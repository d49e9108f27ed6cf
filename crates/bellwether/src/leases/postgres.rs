//! Leases in a PostgreSQL that runs already: one row a lease, on the database's clock.
//!
//! ```text
//!   bellwether_leases   name │ term │ id, member, metadata │ ttl │ ends at │ …
//!   bellwether_line     name │ id, member │ priority, arrived │ until │ named
//! ```
//!
//! 1. *No session state.* Every ask is one message of the simple protocol, which is one transaction:
//!    what a pooler in transaction mode may hand to any of its connections. Nothing is locked
//!    between two asks, nothing is prepared, nothing is set for longer than a transaction.
//! 2. *One clock.* Only `clock_timestamp()` decides, read after the row is locked. A lease that is
//!    not renewed is granted to somebody else after 105 % of its ttl.
//! 3. *Told, and looking.* Who waits is told by NOTIFY, where a connection can LISTEN; behind a
//!    pooler it cannot, so who waits looks, too, and takes over when the time of the holder is up.
//! 4. *Durable.* What is granted or renewed is flushed, even where `synchronous_commit` is off.

mod link;
mod sql;

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::candidacy::LossReason;
use bellwether_core::command::{Acquire, LeaseKind};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::outcome::{LeaseInfo, LeaseState, TermInfo};
use bellwether_core::time::{BootTime, WallTime};
use tokio::sync::broadcast;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, SimpleQueryRow};
use tokio_util::sync::CancellationToken;

use super::facts::POSTGRES;
use super::heart::{Beating, Heart, Held, Renewing, leases_by_heart};
use super::{Answer, Facts, Hold, Leases, Renewal, on_renewer};
use crate::clock::Clock;
use crate::error::Error;
use link::Link;

/// Longest time between two looks of whoever waits.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// For what nobody's trust depends on.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(super) struct Postgres {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    member: MemberId,
    heart: Heart,
    /// Renewals have a connection to themselves: an ask that waits for a row must not hold them up.
    renewals: Link,
    asks: Link,
    /// Names of leases that changed; a hint.
    news: broadcast::Sender<String>,
    closed: CancellationToken,
}

/// Opens it, and makes its tables if they are not there.
pub(crate) async fn open(address: String) -> Result<Arc<dyn Leases>, Error> {
    let wrong = |why: String| Error::Address { address: without_password(&address), why };
    let mut config: Config = address.parse().map_err(|error| {
        wrong(format!("{error}; it looks like postgres://USER:PASSWORD@HOST:PORT/DATABASE"))
    })?;
    if config.get_ssl_mode() == SslMode::Require {
        return Err(wrong(
            "it asks for TLS (sslmode=require), which this engine cannot do; connect by a local \
             proxy that does, or write sslmode=disable if the network may be trusted"
                .into(),
        ));
    }
    if config.get_application_name().is_none() {
        config.application_name("bellwether");
    }
    let shown = without_password(&address);
    let shared = Arc::new(Shared {
        clock: Clock::System,
        member: MemberId(crate::chance::random_u128()),
        heart: Heart::default(),
        renewals: Link::new(config.clone(), shown.clone()),
        asks: Link::new(config.clone(), shown),
        news: broadcast::Sender::new(256),
        closed: CancellationToken::new(),
    });
    let opening = Arc::clone(&shared);
    on_renewer(&Clock::System, async move { opening.make_tables().await }).await?;
    let ear = link::hear(config, shared.news.clone(), shared.closed.clone());
    crate::renewer::spawn(&Clock::System, ear);
    Ok(Arc::new(Postgres { shared }))
}

/// What may be shown and logged.
fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return "postgres://".into() };
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    // Parameters may hold one, too.
    format!("{scheme}://{}", rest.split('?').next().unwrap_or_default())
}

/// What a look at a lease tells whoever wants it.
struct Look {
    is_mine: bool,
    is_free: bool,
    is_first: bool,
    /// Until the holder's time is up.
    ends_in: Duration,
    /// Until our place in line is.
    place_ends_in: Duration,
}

impl Shared {
    fn deadline(&self, after: Duration) -> BootTime {
        self.clock.boot().plus_ms(crate::queue::ms(after))
    }

    async fn ask(&self, sql: &str, patience: Duration) -> Result<Vec<SimpleQueryRow>, Error> {
        self.asks.query(sql, patience).await
    }

    async fn make_tables(&self) -> Result<(), Error> {
        // Whoever may not create tables can use those that are there.
        let there = self.ask(sql::ARE_TABLES_THERE, PATIENCE).await?;
        if there.first().and_then(|row| row.get(0)) == Some("t") {
            return Ok(());
        }
        self.ask(sql::TABLES, PATIENCE).await.map(|_| ())
    }

    async fn acquire(&self, ask: &Acquire) -> Result<Term, Error> {
        let ttl = Duration::from_millis(ask.ttl_ms);
        // An ask that hangs is repeated under its id: soon, for its grant would be running out.
        let patience = (ttl / 2).max(Duration::from_millis(500));
        let until = self.clock.boot().plus_ms(ask.wait_ms);
        let mut news = self.news.subscribe();
        loop {
            let look = self.look(ask, patience).await?;
            if look.is_mine || (look.is_free && look.is_first) {
                let taken = self.ask(&sql::take(self.member, ask, patience), patience).await?;
                if let Some(term) = taken.iter().find_map(|row| row.get("term")) {
                    return Ok(Term(term.parse().map_err(|_| odd("a term"))?));
                }
            }
            let left = Duration::from_millis(self.clock.boot().ms_until(until));
            if left.is_zero() {
                return Err(Refusal::Lease(LeaseRefusal::NotGranted(ask.lease.clone())).into());
            }
            if look.place_ends_in < ttl / 2 {
                self.ask(&sql::line_up(self.member, ask, patience), patience).await?;
            }
            let jitter = Duration::from_millis(crate::chance::random_u64() % 50);
            let mut pause = (ttl / 4).min(LOOK_MAX);
            if !look.is_free {
                pause = pause.min(look.ends_in + Duration::from_millis(1));
            }
            let told = async {
                // What was missed may have been about this one.
                while news.recv().await.is_ok_and(|name| name != ask.lease.as_str()) {}
            };
            tokio::select! {
                () = told => {}
                () = tokio::time::sleep((pause + jitter).min(left)) => {}
            }
        }
    }

    async fn look(&self, ask: &Acquire, patience: Duration) -> Result<Look, Error> {
        let rows = self.ask(&sql::look(ask), patience).await?;
        let Some(row) = rows.first() else {
            return Ok(Look {
                is_mine: false,
                is_free: true,
                is_first: true,
                ends_in: Duration::ZERO,
                place_ends_in: Duration::ZERO,
            });
        };
        let is = |name: &str| row.get(name) == Some("t");
        let time = |name: &str| Duration::from_millis(number(row, name).unwrap_or_default());
        Ok(Look {
            is_mine: is("is_mine"),
            is_free: is("is_free"),
            is_first: is("is_first"),
            ends_in: time("ends_in"),
            place_ends_in: time("place_ends_in"),
        })
    }

    async fn describe(&self, lease: &LeaseName) -> Result<Option<LeaseInfo>, Error> {
        let rows = self.ask(&sql::describe(lease), PATIENCE).await?;
        rows.first().map(|row| info(lease, row)).transpose()
    }

    async fn close(&self) {
        if self.closed.is_cancelled() {
            return;
        }
        self.closed.cancel();
        let held = self.heart.held();
        // What cannot be said now runs out by itself.
        let _ = self.renewals.query(&sql::goodbye(self.member, &held), PATIENCE).await;
        self.renewals.close().await;
        self.asks.close().await;
    }
}

fn odd(what: &str) -> Error {
    Error::Failed(format!("PostgreSQL answered {what} that cannot be read"))
}

fn number(row: &SimpleQueryRow, name: &str) -> Option<u64> {
    // What is past is less than nothing.
    row.get(name)?.parse::<i64>().ok().map(|number| number.max(0).unsigned_abs())
}

fn member(text: &str) -> Option<MemberId> {
    u128::from_str_radix(text, 16).ok().map(MemberId)
}

fn info(lease: &LeaseName, row: &SimpleQueryRow) -> Result<LeaseInfo, Error> {
    let number = |name: &str| number(row, name).ok_or_else(|| odd(name));
    let (remaining_ms, is_held) = (number("ends_in")?, row.get("is_held") == Some("t"));
    let metadata = row.get("metadata").and_then(sql::bytes).ok_or_else(|| odd("metadata"))?;
    let waiting = row.get("waiting").unwrap_or_default();
    Ok(LeaseInfo {
        slots: 1,
        others: Vec::new(),
        paused: false,
        successor: None,
        name: lease.clone(),
        kind: LeaseKind::Bound,
        state: match (row.get("id"), is_held) {
            (None, _) => LeaseState::Available,
            (Some(_), true) => LeaseState::Leased,
            (Some(_), false) => LeaseState::Expired,
        },
        term: Term(number("term")?),
        id: row
            .get("id")
            .filter(|_| is_held)
            .and_then(|id| u128::from_str_radix(id, 16).ok())
            .map(LeaseId),
        holder: row.get("member").filter(|_| is_held).and_then(member),
        metadata: String::from_utf8(metadata).map_err(|_| odd("metadata"))?,
        ttl_ms: number("ttl_ms")?,
        remaining_ms: if is_held { remaining_ms } else { 0 },
        granted_at: WallTime(number("granted_at")?),
        // One that ran out is another one to see, though nobody wrote that down.
        version: number("version")? * 2 + u64::from(row.get("id").is_some() && !is_held),
        step_down_asked: is_held && row.get("step_down") == Some("t"),
        waiting: waiting.split(',').filter_map(member).collect(),
    })
}

impl Beating for Shared {
    fn heart(&self) -> &Heart {
        &self.heart
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn beat(self: Arc<Self>, held: Vec<Held>) -> Answer<Vec<Renewal>> {
        Box::pin(async move {
            if self.closed.is_cancelled() {
                return vec![Renewal::Closed; held.len()];
            }
            let Ok(rows) = self.renewals.query(&sql::renew(&held), PATIENCE).await else {
                return vec![Renewal::Unknown; held.len()];
            };
            let fate = |one: &Held| {
                let id = sql::id(one.id);
                let row = rows.iter().find(|row| row.get("id") == Some(&id));
                // The statement is done and has not found it: it is over.
                let Some(row) = row else { return Renewal::Lost };
                if row.get("step_down") == Some("t") {
                    self.heart.step_down(&one.lease, one.id);
                }
                Renewal::Renewed
            };
            held.iter().map(fate).collect()
        })
    }
}

impl Leases for Postgres {
    leases_by_heart! { POSTGRES }

    fn release(
        &self,
        lease: LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
        _: LossReason,
    ) -> Answer<Result<(), Error>> {
        let shared = Arc::clone(&self.shared);
        let release: Arc<str> = sql::release(&lease, id, successor).into();
        super::again(move || {
            let (shared, release) = (Arc::clone(&shared), Arc::clone(&release));
            Box::pin(async move { shared.renewals.query(&release, PATIENCE).await.map(|_| ()) })
        })
    }

    fn watch(
        &self,
        lease: LeaseName,
        seen: u64,
        wait: Duration,
    ) -> Answer<Result<Option<LeaseInfo>, Error>> {
        let shared = Arc::clone(&self.shared);
        let until = shared.deadline(wait);
        on_renewer(&self.shared.clock, async move {
            let mut news = shared.news.subscribe();
            loop {
                let info = shared.describe(&lease).await?;
                let version = info.as_ref().map_or(0, |info| info.version);
                let left = Duration::from_millis(shared.clock.boot().ms_until(until));
                if version != seen || left.is_zero() {
                    return Ok(info);
                }
                let told =
                    async { while news.recv().await.is_ok_and(|name| name != lease.as_str()) {} };
                tokio::select! {
                    () = told => {}
                    () = tokio::time::sleep(LOOK_MAX.min(left)) => {}
                }
            }
        })
    }

    fn ask_step_down(&self, lease: LeaseName) -> Answer<Result<(), Error>> {
        let shared = Arc::clone(&self.shared);
        on_renewer(&self.shared.clock, async move {
            let asked = shared.ask(&sql::ask_step_down(&lease), PATIENCE).await?;
            if asked.is_empty() {
                return Err(Refusal::Lease(LeaseRefusal::NotPresent(lease)).into());
            }
            Ok(())
        })
    }
}
