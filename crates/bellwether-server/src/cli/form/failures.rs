//! What a queue does about deliveries that fail, and the outage it may be in.

use bellwether::core::outcome::OutageInfo;
use bellwether::core::settings::{Backoff, Failures, OutagePolicy};
use serde_json::{Value, json};

use super::{Fields, time};

pub(crate) fn to_json(failures: &Failures) -> Value {
    let retry = failures.retry.map(|retry| {
        json!({
            "first_ms": retry.first_ms,
            "max_ms": retry.max_ms,
            "jitter_percent": retry.jitter_percent,
        })
    });
    let outage = failures.outage.map(|outage| {
        json!({
            "failures": outage.failures,
            "pause_ms_min": outage.pause_ms_min,
            "pause_ms_max": outage.pause_ms_max,
        })
    });
    json!({ "retry": retry, "crashes_max": failures.crashes_max, "outage": outage })
}

/// Back from its JSON. What is left out is as it is by default, what is null is switched off.
pub(crate) fn read(json: &Value) -> Result<Failures, String> {
    let usual = Failures::default();
    let fields = Fields::of(json, "failures")?;
    let retry = json.get("retry").filter(|retry| !retry.is_null()).map(read_retry).transpose()?;
    let outage = match json.get("outage") {
        None => usual.outage,
        Some(Value::Null) => None,
        Some(outage) => Some(read_outage(outage)?),
    };
    let crashes_max = fields.number("crashes_max")?.unwrap_or(usual.crashes_max);
    Ok(Failures { retry, crashes_max, outage })
}

fn read_retry(json: &Value) -> Result<Backoff, String> {
    let fields = Fields::of(json, "retry")?;
    Ok(Backoff {
        first_ms: must(&fields, "first_ms")?,
        max_ms: must(&fields, "max_ms")?,
        jitter_percent: fields.number("jitter_percent")?.unwrap_or(0),
    })
}

fn read_outage(json: &Value) -> Result<OutagePolicy, String> {
    let fields = Fields::of(json, "outage")?;
    Ok(OutagePolicy {
        failures: must(&fields, "failures")?,
        pause_ms_min: must(&fields, "pause_ms_min")?,
        pause_ms_max: must(&fields, "pause_ms_max")?,
    })
}

fn must<T: TryFrom<u64>>(fields: &Fields<'_>, field: &str) -> Result<T, String> {
    fields.must(field, |value| value.as_u64().and_then(|n| T::try_from(n).ok()))
}

/// An outage as it is shown.
pub(crate) fn outage(outage: Option<&OutageInfo>) -> Value {
    outage.map_or(Value::Null, |outage| {
        json!({
            "since": time(outage.since),
            "failures": outage.failures,
            "last_failed": outage.last_failed.0,
            "tries": outage.tries,
            "try_in_ms": outage.try_in_ms,
            "trying": outage.trying.map(|sequence| sequence.0),
        })
    })
}
