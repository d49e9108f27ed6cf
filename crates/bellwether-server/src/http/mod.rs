//! HTTP/JSON under `/v1`: a thin door.
//!
//! ```text
//!   request ──► read (extract, message, raw, cloud_events) ──► Command ──► the store
//!   answer  ◄── JSON, bytes or a problem ◄──────────────────── Outcome ◄──┘
//! ```
//!
//! 1. No rule lives here: a request becomes one command of the ledger, an outcome becomes JSON.
//! 2. Whatever is not an outcome is a problem in the form of RFC 9457 ([`problem`]).
//! 3. The description at `/v1/openapi.json` is derived from the handlers: a path cannot be in one
//!    and not in the other.
//! 4. A caller that goes away drops its handler: what waits is withdrawn, and what was handed out
//!    in that moment is given back.

mod backup;
mod caller;
mod changes;
pub(crate) mod cloud_events;
mod dead_letters;
mod elections;
pub(crate) mod extract;
pub(crate) mod id;
mod items;
mod jobs;
mod keys;
mod leases;
pub(crate) mod limits;
mod look;
mod members;
pub(crate) mod message;
mod messages;
mod number;
mod observer;
mod openapi;
pub(crate) mod problem;
mod queues;
pub(crate) mod raw;
mod schedules;
mod sessions;
mod settings;
mod settle;
mod state;
mod stats;
mod trace;

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use caller::Principal;
pub(crate) use observer::observe;
use problem::{Kind, Problem};
pub(crate) use state::State;
#[cfg(feature = "otlp")]
pub(crate) use trace::trace_of;

/// All paths of this door. What is under none of them, or has no such method, is for whoever puts
/// this router beside others: [`no_such_path`], [`method_not_allowed`].
pub(crate) fn router(state: State) -> Router {
    let paths = OpenApiRouter::with_openapi(openapi::head())
        .merge(queue_paths())
        .merge(dead_letter_paths())
        .merge(job_paths())
        .merge(other_paths());
    let (router, api) = paths.split_for_parts();
    let api = Arc::new(openapi::complete(api));
    router
        .route("/v1/openapi.json", get(move || async move { openapi::description(&api) }))
        .route("/v1/docs", get(openapi::page))
        .route("/v1/docs/page.js", get(openapi::script))
        .route("/v1/docs/page.css", get(openapi::style))
        .layer(axum::middleware::from_fn(caller::read_key))
        .with_state(state)
}

fn queue_paths() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(queues::list_queues))
        .routes(routes!(
            queues::create_queue,
            queues::show_queue,
            queues::change_queue,
            queues::delete_queue
        ))
        .routes(routes!(queues::purge_queue))
        .routes(routes!(messages::send_message, look::peek_messages))
        .routes(routes!(messages::send_batch))
        .routes(routes!(look::show_message))
        .routes(routes!(messages::cancel_messages))
        .routes(routes!(messages::receive_messages))
        .routes(routes!(messages::receive_deferred))
        .routes(routes!(settle::settle_messages))
        .routes(routes!(settle::renew_locks))
        .routes(routes!(sessions::list_sessions))
        .routes(routes!(sessions::accept_session))
        .routes(routes!(sessions::renew_session))
        .routes(routes!(sessions::close_session))
        .routes(routes!(
            sessions::session_state,
            sessions::set_session_state,
            sessions::clear_session_state
        ))
}

fn dead_letter_paths() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(dead_letters::peek_dead_letters))
        .routes(routes!(dead_letters::show_dead_letter))
        .routes(routes!(dead_letters::receive_dead_letters))
        .routes(routes!(dead_letters::receive_deferred_dead_letters))
        .routes(routes!(dead_letters::settle_dead_letters))
        .routes(routes!(dead_letters::renew_dead_letters))
        .routes(routes!(dead_letters::purge_dead_letters))
        .routes(routes!(dead_letters::redrive_dead_letters))
}

fn job_paths() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(jobs::list_jobs))
        .routes(routes!(jobs::create_job, jobs::show_job, jobs::forget_job))
        .routes(routes!(items::dispatch_items, items::list_items))
        .routes(routes!(jobs::end_job))
        .routes(routes!(items::complete_item))
        .routes(routes!(schedules::list_schedules))
        .routes(routes!(
            schedules::create_schedule,
            schedules::show_schedule,
            schedules::delete_schedule
        ))
        .routes(routes!(schedules::pause_schedule))
        .routes(routes!(schedules::resume_schedule))
        .routes(routes!(schedules::run_schedule))
}

fn other_paths() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(leases::list_leases))
        .routes(routes!(leases::show_lease))
        .routes(routes!(leases::acquire_lease))
        .routes(routes!(leases::renew_lease))
        .routes(routes!(leases::change_lease))
        .routes(routes!(leases::release_lease))
        .routes(routes!(leases::break_lease))
        .routes(routes!(elections::list_elections))
        .routes(routes!(elections::show_election))
        .routes(routes!(elections::show_leader))
        .routes(routes!(elections::ask_step_down))
        .routes(routes!(elections::hand_over))
        .routes(routes!(elections::pause))
        .routes(routes!(elections::resume))
        .routes(routes!(elections::election_history))
        .routes(routes!(members::list_members, members::join))
        .routes(routes!(members::heartbeat))
        .routes(routes!(members::leave))
        .routes(routes!(stats::show_stats))
        .routes(routes!(backup::take_backup))
        .routes(routes!(changes::stream_changes))
        .routes(routes!(openapi::list_problems))
        .routes(routes!(openapi::show_problem))
}

pub(crate) async fn no_such_path(uri: Uri) -> Box<Problem> {
    let detail = format!("there is nothing under {:?}; /v1/docs lists every path", uri.path());
    Problem::new(Kind::NoSuchPath, detail)
}

pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> Box<Problem> {
    let detail =
        format!("{:?} does not take {method}; the header Allow says what it takes", uri.path());
    Problem::new(Kind::MethodNotAllowed, detail)
}
