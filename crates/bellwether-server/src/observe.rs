//! How the server is seen from outside: is it alive, is it ready, what has it done, what does it
//! log.

pub(crate) mod health;
pub(crate) mod log;
pub(crate) mod look;
pub(crate) mod metrics;
#[cfg(feature = "otlp")]
pub(crate) mod traces;
#[cfg(not(feature = "otlp"))]
#[path = "observe/traces/off.rs"]
pub(crate) mod traces;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::serve::Site;

/// `/livez`, `/readyz` and `/metrics`.
pub(crate) fn routes(site: &Arc<Site>) -> Router {
    Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::show))
        .with_state(Arc::clone(site))
}
