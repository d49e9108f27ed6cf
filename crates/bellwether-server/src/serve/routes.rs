//! All routes together, and those for other people's tests.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router, middleware};
use bellwether::Bellwether;
use bellwether::clock::{Clock, VirtualClock};
use serde::{Deserialize, Serialize};

use super::guard::{self, Guard};
use super::limits::{self, BodyLimits};
use super::{Site, problem};
use crate::observe;

/// A hundred years: more than any test needs, and no time overflows.
const ADVANCE_MS_MAX: u64 = 100 * 366 * 24 * 3_600_000;

/// The routes of every door that speaks HTTP, behind the checks that all of them share. What needs
/// the store is there when the store is.
pub(super) fn all(site: &Arc<Site>, store: Option<&Bellwether>) -> Router {
    let mut routes = observe::routes(site);
    if let (Some(_), Clock::Virtual(clock)) = (store, &site.clock) {
        routes = routes.merge(of_tests(site, clock));
    }
    let fallback = if store.is_some() { no_route } else { opening };
    let body = BodyLimits {
        bytes_max: site.config.http_body_bytes_max.get(),
        time_max: site.config.http_body_ms_max.ms(),
    };
    let guard = Arc::new(Guard {
        hosts: site.config.http_hosts.0.clone(),
        refusals: Arc::clone(&site.connections.refusals),
    });
    routes
        .fallback(fallback)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(site.config.http_body_bytes_max.size()))
        .layer(middleware::from_fn_with_state(body, limits::check))
        .layer(middleware::from_fn_with_state(guard, guard::check))
}

fn no_route() -> std::future::Ready<Response> {
    let detail = "there is nothing at this path; the API is under /v1";
    std::future::ready(problem(StatusCode::NOT_FOUND, "no such path", detail))
}

fn no_method() -> std::future::Ready<Response> {
    let detail = "this path is there, but not for this method; the allow header names those it has";
    std::future::ready(problem(StatusCode::METHOD_NOT_ALLOWED, "no such method here", detail))
}

fn opening() -> std::future::Ready<Response> {
    let detail = "the store is being opened; try again when /readyz says so";
    let answer = problem(StatusCode::SERVICE_UNAVAILABLE, "not ready yet", detail);
    std::future::ready(([("retry-after", "1")], answer).into_response())
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
    asked: Result<Json<Advance>, axum::extract::rejection::JsonRejection>,
) -> Response {
    let Json(Advance { ms }) = match asked {
        Ok(asked) => asked,
        Err(e) => {
            let detail = format!("{}; send {{\"ms\": NUMBER}} as JSON", e.body_text());
            return problem(e.status(), "cannot read the request", &detail);
        }
    };
    if ms > ADVANCE_MS_MAX {
        let detail = format!("ms is {ms} and may be at most {ADVANCE_MS_MAX}, a hundred years");
        return problem(StatusCode::BAD_REQUEST, "too far into the future", &detail);
    }
    clock.advance(Duration::from_millis(ms));
    Json(Advanced { wall_ms: clock.now().wall.0 }).into_response()
}

/// The clock goes on from where it is: time never goes back.
async fn reset(State(site): State<Arc<Site>>) -> Response {
    match site.reset().await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(e) => problem(StatusCode::INTERNAL_SERVER_ERROR, "cannot reset", &e.to_string()),
    }
}
