//! From OpenTelemetry's variables to what exports spans. Endpoint, headers and timeout are read by
//! the exporter, sampler and batches by the SDK; what neither of them reads, or says nothing about
//! when it is wrong, is read here.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;

use super::export::{Client, Exporter};
use super::{Inner, Traces};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const TIMEOUTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
const TIMEOUT: Duration = Duration::from_secs(10);
const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];

/// What the environment asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Nothing,
    Traces,
    /// This, which cannot be.
    Other(String),
}

pub(super) fn traces() -> Option<Traces> {
    let said = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let built = match wanted(said) {
        Wanted::Nothing => return None,
        Wanted::Traces => build(said),
        Wanted::Other(why) => Err(why),
    };
    if let Err(why) = &built {
        tracing::warn!("no traces are exported: {why}");
    }
    built.ok()
}

fn wanted(said: impl Fn(&str) -> Option<String>) -> Wanted {
    let is_disabled = said("OTEL_SDK_DISABLED").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    let exporter = said("OTEL_TRACES_EXPORTER");
    let endpoint = first(&said, ENDPOINTS);
    match exporter.as_deref() {
        _ if is_disabled => return Wanted::Nothing,
        Some("none") => return Wanted::Nothing,
        None if endpoint.is_none() => return Wanted::Nothing,
        None | Some("otlp") => {}
        Some(other) => {
            let why = format!("OTEL_TRACES_EXPORTER is {other:?}; here it is otlp or none");
            return Wanted::Other(why);
        }
    }
    if let Some((name, protocol)) = first(&said, PROTOCOLS)
        && protocol != "http/protobuf"
    {
        return Wanted::Other(format!(
            "{name} is {protocol:?}; only http/protobuf is spoken here, which a collector takes on \
             port 4318"
        ));
    }
    if let Some((name, endpoint)) = endpoint
        && !endpoint.starts_with("http://")
    {
        return Wanted::Other(format!(
            "{name} is {endpoint:?}; it begins with http:// here: send to a collector nearby, \
             which speaks TLS to what is far"
        ));
    }
    Wanted::Traces
}

fn build(said: impl Fn(&str) -> Option<String>) -> Result<Traces, String> {
    if let Some(sampler) = said("OTEL_TRACES_SAMPLER")
        && !SAMPLERS.contains(&sampler.as_str())
    {
        let known = SAMPLERS.join(", ");
        tracing::warn!(
            "OTEL_TRACES_SAMPLER is {sampler:?}, taken for {}; there are {known}",
            SAMPLERS[3]
        );
    }
    let timeout = first(&said, TIMEOUTS).and_then(|(_, ms)| ms.parse().ok());
    let client = Client::new(timeout.map_or(TIMEOUT, Duration::from_millis));
    let why = client.why();
    let exporter = SpanExporter::builder().with_http().with_http_client(client).build();
    let exporter = Exporter::new(exporter.map_err(|e| e.to_string())?, why);
    let provider = SdkTracerProvider::builder()
        .with_resource(resource(&said))
        .with_batch_exporter(exporter)
        .build();
    let scope = InstrumentationScope::builder("bellwether").with_version(VERSION).build();
    let tracer = provider.tracer_with_scope(scope);
    Ok(Traces(Arc::new(Inner { provider, tracer })))
}

/// Who exports: `bellwether`, unless the environment has another name for it.
fn resource(said: impl Fn(&str) -> Option<String>) -> Resource {
    let resource = Resource::builder_empty()
        .with_service_name("bellwether")
        .with_attribute(KeyValue::new("service.version", VERSION))
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match said("OTEL_SERVICE_NAME") {
        Some(name) => resource.with_service_name(name).build(),
        None => resource.build(),
    }
}

/// The first of these variables that says something.
fn first<'a>(
    said: impl Fn(&str) -> Option<String>,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<(&'a str, String)> {
    names.into_iter().find_map(|name| Some((name, said(name)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted_by(variables: &[(&str, &str)]) -> Wanted {
        wanted(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn traces_are_exported_where_the_variables_say() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        assert_eq!(wanted_by(&[]), Wanted::Nothing);
        assert_eq!(wanted_by(&[("OTEL_SERVICE_NAME", "orders"), http]), Wanted::Nothing);
        assert_eq!(wanted_by(&[endpoint]), Wanted::Traces);
        assert_eq!(wanted_by(&[endpoint, http]), Wanted::Traces);
        assert_eq!(wanted_by(&[("OTEL_TRACES_EXPORTER", "otlp")]), Wanted::Traces);
        assert_eq!(wanted_by(&[endpoint, ("OTEL_TRACES_EXPORTER", "none")]), Wanted::Nothing);
        assert_eq!(wanted_by(&[endpoint, ("OTEL_SDK_DISABLED", "True")]), Wanted::Nothing);
        assert_eq!(wanted_by(&[endpoint, ("OTEL_SDK_DISABLED", "no")]), Wanted::Traces);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        let cases = [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector.example"),
        ];
        for (name, value) in cases {
            match wanted_by(&[endpoint, (name, value)]) {
                Wanted::Other(why) => assert!(why.contains(name) && why.contains(value), "{why}"),
                other => panic!("{name}={value}: {other:?}"),
            }
        }
    }
}
