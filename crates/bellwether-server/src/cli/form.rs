//! Things as JSON: the stable forms that programs read, described in docs/cli.md.

pub(crate) mod exported;
pub(crate) mod job;
pub(crate) mod lease;
pub(crate) mod message;
pub(crate) mod queue;
pub(crate) mod schedule;
pub(crate) mod value;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bellwether::core::time::WallTime;
use serde_json::{Map, Value};

use super::human::{Wall, parse_rfc3339};

/// A JSON object being put together; what is not there is left out.
pub(crate) type Object = Map<String, Value>;

/// Adds a field if there is something to say.
pub(crate) fn put(object: &mut Object, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(name.into(), value.into());
    }
}

/// A wall-clock time: RFC 3339, or the number of milliseconds where that has no form for it.
pub(crate) fn time(time: WallTime) -> Value {
    Value::String(Wall(time).to_string())
}

pub(crate) fn read_time(value: &Value) -> Option<WallTime> {
    let text = value.as_str()?;
    parse_rfc3339(text).or_else(|| text.parse().ok().map(WallTime))
}

/// A duration that may be for ever, which is `null`.
pub(crate) fn span(ms: u64) -> Value {
    if ms == u64::MAX { Value::Null } else { ms.into() }
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(crate) fn read_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Reads the fields of an object, and says which of them made no sense.
pub(crate) struct Fields<'a> {
    object: &'a Object,
    what: &'a str,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(value: &'a Value, what: &'a str) -> Result<Self, String> {
        let object = value.as_object().ok_or_else(|| format!("{what} is not an object"))?;
        Ok(Self { object, what })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// A field that may be left out.
    pub(crate) fn maybe<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let bad = || format!("{}: {name:?} makes no sense", self.what);
        self.get(name).map(|value| read(value).ok_or_else(bad)).transpose()
    }

    /// A field that must be there.
    pub(crate) fn must<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, String> {
        self.maybe(name, read)?.ok_or_else(|| format!("{}: {name:?} is missing", self.what))
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, String> {
        self.maybe(name, |value| value.as_str().map(str::to_owned))
    }

    pub(crate) fn number<T: TryFrom<u64>>(&self, name: &str) -> Result<Option<T>, String> {
        self.maybe(name, |value| value.as_u64().and_then(|n| T::try_from(n).ok()))
    }
}
