//! Stats: the whole store in a few numbers.

use axum::response::Response;
use bellwether::core::command::Command;
use bellwether::core::outcome::{Counts, LeaseState, Outcome, Totals};
use serde::Serialize;
use utoipa::ToSchema;

use super::extract::json;
use super::keys::is_key;
use super::problem::Told;
use super::queues::{PAGE_MAX, ShownCounts, ShownTotals};
use super::state::{Door, State, unexpected};

/// The whole store in a few numbers.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Stats {
    /// How many queues there are.
    queues: u64,
    /// What is in all of them.
    counts: ShownCounts,
    /// What has passed through those that are there.
    totals: ShownTotals,
    /// How many leases there are.
    leases: u64,
    /// How many of them somebody holds.
    leases_held: u64,
    /// How many members are here.
    members: u64,
}

/// The whole store in a few numbers. Every queue and lease is looked at: not for every second.
#[utoipa::path(
    get, path = "/v1/stats", tag = "stats",
    responses((status = 200, description = "The numbers", body = Stats))
)]
pub(crate) async fn show_stats(Door(state): Door<State>) -> Told<Response> {
    let mut stats = Stats::default();
    count_queues(&state, &mut stats).await?;
    count_leases(&state, &mut stats).await?;
    let members = state.members().await?;
    stats.members = members.iter().filter(|member| !is_key(&member.metadata)).count() as u64;
    Ok(json(&stats))
}

async fn count_queues(state: &State, stats: &mut Stats) -> Told<()> {
    let (mut counts, mut totals) = (Counts::default(), Totals::default());
    let mut after = None;
    loop {
        let queues = match state.ask(Command::ListQueues { after, max: PAGE_MAX }).await? {
            Outcome::Queues(queues) => queues,
            other => unexpected(&other),
        };
        for queue in &queues {
            add_counts(&mut counts, queue.counts);
            add_totals(&mut totals, queue.totals);
        }
        stats.queues += queues.len() as u64;
        after = queues.last().map(|last| last.name.clone());
        if queues.len() < PAGE_MAX as usize {
            break;
        }
    }
    (stats.counts, stats.totals) = (counts.into(), totals.into());
    Ok(())
}

async fn count_leases(state: &State, stats: &mut Stats) -> Told<()> {
    let mut after = None;
    loop {
        let leases = match state.ask(Command::ListLeases { after, max: PAGE_MAX }).await? {
            Outcome::Leases(leases) => leases,
            other => unexpected(&other),
        };
        let held = |state| matches!(state, LeaseState::Leased | LeaseState::Breaking);
        stats.leases += leases.len() as u64;
        stats.leases_held += leases.iter().filter(|lease| held(lease.state)).count() as u64;
        after = leases.last().map(|last| last.name.clone());
        if leases.len() < PAGE_MAX as usize {
            return Ok(());
        }
    }
}

fn add_counts(sum: &mut Counts, one: Counts) {
    sum.ready += one.ready;
    sum.locked += one.locked;
    sum.scheduled += one.scheduled;
    sum.deferred += one.deferred;
    sum.dead_letters += one.dead_letters;
    sum.size_bytes += one.size_bytes;
}

fn add_totals(sum: &mut Totals, one: Totals) {
    sum.sent += one.sent;
    sum.duplicates += one.duplicates;
    sum.completed += one.completed;
    sum.expired += one.expired;
    sum.purged += one.purged;
    sum.cancelled += one.cancelled;
    sum.forwarded += one.forwarded;
    sum.dead_lettered += one.dead_lettered;
    sum.shed += one.shed;
}
