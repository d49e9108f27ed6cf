//! Traces: what a request was part of, and what it did here, told to an OpenTelemetry collector.
//!
//! ```text
//!   POST /v1/queues/orders/messages        traceparent ─► the request's span
//!     └ send orders                        its context ─► the messages' property traceparent
//!   POST /v1/queues/orders/receive
//!     └ receive orders                     ◄─ links to the contexts of what was received
//! ```
//!
//! 1. Nothing is started, and no request costs anything, unless OpenTelemetry's own variables say
//!    where the collector is ([`setup`]).
//! 2. A broker is worth more than its traces: a variable that makes no sense, and a collector that
//!    is not there, are logged and otherwise cost spans only. What waits to be exported is bounded.
//! 3. Names and attributes are those of OpenTelemetry's conventions for HTTP and for messaging.

mod export;
mod setup;
mod span;

use std::sync::Arc;
use std::time::Duration;

use axum::{Router, middleware};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

pub(crate) use span::{Operation, OperationSpan, RequestSpan};

/// How long the last spans may take to get out when the server stops.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// What makes spans and exports them. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Traces(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Traces {
    /// As the environment says; `None` if it does not speak of traces.
    pub(crate) fn start() -> Option<Self> {
        setup::traces()
    }

    /// Makes a span of every request that these routes take.
    pub(crate) fn around(&self, routes: Router) -> Router {
        routes.layer(middleware::from_fn_with_state(self.clone(), span::of_request))
    }

    /// Exports what is still there. Takes its time, so it is not for a thread that serves.
    pub(crate) fn stop(self) {
        // What could not be exported was logged.
        let _ = self.0.provider.shutdown_with_timeout(LAST_SPANS);
    }
}
