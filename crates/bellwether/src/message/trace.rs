//! Which trace a message belongs to: W3C trace context, carried as properties.
//!
//! A trace follows work through many processes. Whoever sends writes down what it was doing, whoever
//! receives goes on from there; what stands in between only carries it.
//!
//! ```
//! use bellwether::message::{Message, TraceContext};
//!
//! let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
//! let context = TraceContext::parse(traceparent, None).expect("it is one");
//! let order = Message::new("three apples").trace_context(&context);
//! assert_eq!(order.properties["traceparent"], traceparent.into());
//!
//! // At the other end; a `Delivery` is read as its message is.
//! let context = order.traced().expect("it was sent with one");
//! assert_eq!(context.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
//! assert!(context.is_sampled());
//! ```
//!
//! There is nothing of a tracing library in here. With `opentelemetry`, a propagator injects into
//! `message.properties` and extracts from it: the names are its own.

use std::fmt;

use super::{Message, Value};

/// The names under which a context may stand, the first one that can be read counts: ours, which is
/// also that of OpenTelemetry and of Azure's newer clients; a CloudEvent's extension; and the name
/// that Azure's older clients have for it.
const NAMES: [(&str, Option<&str>); 3] = [
    (PARENT, Some(STATE)),
    ("cloudEvents:traceparent", Some("cloudEvents:tracestate")),
    ("Diagnostic-Id", None),
];
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";
/// What carries it need not carry more.
const STATE_BYTES_MAX: usize = 512;
/// `00-<32 digits>-<16 digits>-<2 digits>`.
const PARENT_BYTES: usize = 55;

/// A place in a trace: what was going on when a message was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace; never zero.
    pub trace_id: u128,
    /// The step in it; never zero.
    pub span_id: u64,
    /// The lowest bit says whether the step is recorded.
    pub flags: u8,
    /// What the tracing systems on the way noted down, in their own form; may be empty.
    pub state: String,
}

impl TraceContext {
    /// Reads the two headers of W3C trace context; `None` if the first is not one. Of the second,
    /// what nobody must carry is dropped.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let (head, rest) = traceparent.split_at_checked(PARENT_BYTES)?;
        let mut parts = head.split('-');
        let mut next = |digits| parts.next().and_then(|part| hex(part, digits));
        let (version, trace_id, span_id, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        // A later version may say more; this one may not, and there will be none called 255.
        let is_whole = rest.is_empty() || (version > 0 && rest.starts_with('-'));
        if version == 0xff || trace_id == 0 || span_id == 0 || !is_whole {
            return None;
        }
        let state = tracestate.unwrap_or_default();
        let is_carried = state.len() <= STATE_BYTES_MAX
            && state.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        Some(Self {
            trace_id,
            span_id: span_id as u64,
            flags: flags as u8,
            state: if is_carried { state.to_owned() } else { String::new() },
        })
    }

    /// Whether the step is recorded, so that what follows should be, too.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// The header `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl Message {
    /// Says which trace it belongs to, as the properties `traceparent` and `tracestate`.
    #[must_use]
    pub fn trace_context(mut self, context: &TraceContext) -> Self {
        self.set_trace_context(context);
        self
    }

    /// As [`Message::trace_context`], in place.
    pub fn set_trace_context(&mut self, context: &TraceContext) {
        self.properties.insert(PARENT.into(), context.to_string().into());
        if context.state.is_empty() {
            self.properties.remove(STATE);
        } else {
            self.properties.insert(STATE.into(), context.state.clone().into());
        }
    }

    /// The trace it belongs to, if whoever sent it said so: as `traceparent`, as a CloudEvent's
    /// extension of that name, or as `Diagnostic-Id`.
    pub fn traced(&self) -> Option<TraceContext> {
        if self.properties.is_empty() {
            return None;
        }
        let text = |name: &str| self.properties.get(name).and_then(Value::as_str);
        NAMES.iter().find_map(|(parent, state)| {
            TraceContext::parse(text(parent)?, state.as_ref().and_then(|state| text(state)))
        })
    }
}

/// So many digits in lower case, as a number.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_hex = text.len() == digits && text.bytes().all(is_digit);
    is_hex.then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_read_is_written_as_it_was() {
        let context = TraceContext::parse(TEXT, Some("vendor=1,other=2")).unwrap();
        assert_eq!(context.to_string(), TEXT);
        assert_eq!(context.state, "vendor=1,other=2");
        let message = Message::new("").trace_context(&context);
        assert_eq!(message.traced(), Some(context.clone()));
        let message = message.trace_context(&TraceContext { state: String::new(), ..context });
        assert!(!message.properties.contains_key("tracestate"), "it belonged to another one");
    }

    #[test]
    fn what_is_none_is_not_taken_for_one() {
        let long = format!("{TEXT}-more");
        let later = long.replacen("00", "01", 1);
        for bad in [
            "",
            "traceparent",
            &TEXT[..54],
            &long,
            &TEXT.replace("4bf", "4BF"),
            &TEXT.replacen("00", "ff", 1),
            &TEXT.replacen("00", "0x", 1),
            &TEXT.replace("00f067aa0ba902b7", "0000000000000000"),
            &TEXT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &TEXT.replace("-01", "é"),
            &"é".repeat(40),
        ] {
            assert_eq!(TraceContext::parse(bad, None), None, "{bad}");
        }
        assert!(TraceContext::parse(&later, None).is_some(), "a version to come says more");
        for state in [&"x".repeat(513), "a=\u{7}"] {
            assert_eq!(TraceContext::parse(TEXT, Some(state)).unwrap().state, "");
        }
    }

    #[test]
    fn others_call_it_by_other_names() {
        let other = TEXT.replace("4bf", "4be");
        let named = |name: &str, text: &str| Message::new("").property(name, text);
        for name in ["traceparent", "cloudEvents:traceparent", "Diagnostic-Id"] {
            assert_eq!(named(name, TEXT).traced().unwrap().to_string(), TEXT, "{name}");
        }
        let both = named("Diagnostic-Id", &other).property("traceparent", TEXT);
        assert_eq!(both.traced().unwrap().to_string(), TEXT, "the newer name counts");
        let both = named("Diagnostic-Id", TEXT).property("traceparent", "|no.such.1_");
        assert_eq!(both.traced().unwrap().to_string(), TEXT, "the one that can be read counts");
        assert_eq!(named("traceparent", "nonsense").traced(), None);
        assert_eq!(Message::new("").property("traceparent", 7).traced(), None);
    }
}
