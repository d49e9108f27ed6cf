//! The way out: one thread that posts batches, and says when it cannot.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bellwether::Stopwatch;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

/// A collector that is away is spoken of so often at most.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// Why the last request did not arrive; the library above does not pass it on.
type WhyNot = Arc<Mutex<Option<String>>>;

/// Posts to the collector, and waits for the answer: the thread that exports does nothing else.
#[derive(Debug)]
pub(super) struct Client {
    agent: ureq::Agent,
    why_not: WhyNot,
}

impl Client {
    pub(super) fn new(timeout: Duration) -> Self {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            // A collector is next door.
            .proxy(None)
            .build();
        Self { agent: agent.into(), why_not: WhyNot::default() }
    }

    pub(super) fn why(&self) -> WhyNot {
        Arc::clone(&self.why_not)
    }

    fn post(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (parts, body) = request.into_parts();
        let mut response = self.agent.run(Request::from_parts(parts, &body[..]))?;
        let body = response.body_mut().read_to_vec()?;
        Ok(response.map(|_| body.into()))
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.post(request).map_err(|e| {
            *self.why_not.lock().unwrap_or_else(PoisonError::into_inner) = Some(e.to_string());
            e.into()
        })
    }
}

/// Exports, and counts what was lost.
#[derive(Debug)]
pub(super) struct Exporter {
    otlp: opentelemetry_otlp::SpanExporter,
    why_not: WhyNot,
    lost: Mutex<Lost>,
}

#[derive(Debug, Default)]
struct Lost {
    /// Not spoken of yet.
    spans: usize,
    said: Option<Stopwatch>,
}

impl Lost {
    /// Counts, and returns how many are to be spoken of, if it is time for it.
    fn count(&mut self, spans: usize) -> Option<usize> {
        self.spans += spans;
        if self.said.is_some_and(|said| said.elapsed() < SAY_EVERY) {
            return None;
        }
        self.said = Some(Stopwatch::start());
        Some(std::mem::take(&mut self.spans))
    }
}

impl Exporter {
    pub(super) fn new(otlp: opentelemetry_otlp::SpanExporter, why_not: WhyNot) -> Self {
        Self { otlp, why_not, lost: Mutex::default() }
    }

    fn lost(&self, spans: usize, why: &dyn std::fmt::Display) {
        let said = self.why_not.lock().unwrap_or_else(PoisonError::into_inner).take();
        let why = said.unwrap_or_else(|| why.to_string());
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).count(spans);
        if let Some(lost) = lost {
            tracing::warn!(
                lost,
                "spans could not be exported: {why}; is the collector that \
                 OTEL_EXPORTER_OTLP_ENDPOINT names there? This is said once a minute at most"
            );
        }
    }
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let exported = self.otlp.export(batch).await;
        if let Err(e) = &exported {
            self.lost(spans, e);
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.otlp.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.otlp.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.otlp.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_spoken_of_seldom_and_counted_in_full() {
        let mut lost = Lost::default();
        assert_eq!(lost.count(3), Some(3));
        assert_eq!(lost.count(4), None);
        assert_eq!(lost.count(5), None);
        lost.said = None;
        assert_eq!(lost.count(1), Some(10));
    }
}
