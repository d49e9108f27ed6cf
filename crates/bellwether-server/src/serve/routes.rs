//! All routes together, and those for other people's tests.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Redirect, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use bellwether::clock::{Clock, VirtualClock};
use serde::{Deserialize, Serialize};

use super::Site;
use super::credentials;
use super::guard::{self, Guard};
use crate::http::limits::{self, BodyLimits};
use crate::http::problem::{Kind, Problem, Told};
use crate::http::{self, extract, method_not_allowed, no_such_path};
use crate::observe;

/// A hundred years: more than any test needs, and no time overflows.
const ADVANCE_MS_MAX: u64 = 100 * 366 * 24 * 3_600_000;

/// The routes of every door that speaks HTTP, behind the checks that all of them share. What needs
/// the store is there when the store is.
pub(super) fn all(site: &Arc<Site>, store: Option<http::State>) -> Router {
    let mut routes = observe::routes(site).route("/", get(front));
    let of_store = |state| match &site.traces {
        Some(traces) => traces.around(http::router(state)),
        None => http::router(state),
    };
    routes = match (store, &site.clock) {
        (None, _) => routes.fallback(opening),
        (Some(state), Clock::System) => routes.merge(of_store(state)).fallback(no_such_path),
        (Some(state), Clock::Virtual(clock)) => {
            let routes = routes.merge(of_store(state)).merge(of_tests(site, clock));
            routes.fallback(no_such_path)
        }
    };
    let body = BodyLimits {
        bytes_max: site.config.http_body_bytes_max.get(),
        time_max: site.config.http_body_ms_max.ms(),
        pace: site.config.pace(),
        budget: Arc::clone(&site.budget),
        refused: Arc::clone(&site.connections.bodies_refused),
    };
    let guard = Arc::new(Guard {
        hosts: site.config.http_hosts.0.clone(),
        refusals: Arc::clone(&site.connections.refusals),
    });
    routes = routes
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(body, limits::check));
    if let Some(access) = &site.access {
        let access = Arc::clone(access);
        routes = routes.layer(middleware::from_fn_with_state(access, credentials::check));
    }
    routes.layer(middleware::from_fn_with_state(guard, guard::check))
}

/// Whoever opens the address in a browser wants to read something.
async fn front() -> Redirect {
    Redirect::temporary("/v1/docs")
}

async fn opening() -> Box<Problem> {
    let detail = "the store is being opened; try again when /readyz says so";
    Problem::new(Kind::NotReady, detail).retry_after(1000)
}

/// Time and emptiness at will, for tests of programs that use the server.
fn of_tests(site: &Arc<Site>, clock: &VirtualClock) -> Router {
    let advance =
        Router::new().route("/v1/test/clock/advance", post(advance)).with_state(clock.clone());
    let reset = Router::new().route("/v1/test/reset", post(reset)).with_state(Arc::clone(site));
    advance.merge(reset)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    ms: u64,
}

#[derive(Serialize)]
struct Advanced {
    /// What the wall clock shows now, in milliseconds since 1970.
    wall_ms: u64,
}

/// What the moved time makes due has happened for every request that is sent after the answer.
async fn advance(
    State(clock): State<VirtualClock>,
    extract::Json(Advance { ms }): extract::Json<Advance>,
) -> Told<Response> {
    if ms > ADVANCE_MS_MAX {
        let why = format!("it is {ms} and may be at most {ADVANCE_MS_MAX}, a hundred years");
        return Err(Problem::invalid("ms", why));
    }
    clock.advance(Duration::from_millis(ms));
    Ok(extract::json(&Advanced { wall_ms: clock.now().wall.0 }))
}

/// The clock goes on from where it is: time never goes back.
async fn reset(State(site): State<Arc<Site>>) -> Told<StatusCode> {
    site.reset().await?;
    Ok(StatusCode::NO_CONTENT)
}
