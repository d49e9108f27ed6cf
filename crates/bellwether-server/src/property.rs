//! A property's value as JSON, without loss.
//!
//! Properties are typed as AMQP types them, and JSON has fewer types. So texts, yes or no, nothing
//! and whole numbers within ±(2⁵³−1) stand for themselves (as `string`, `boolean`, `null`, `long`),
//! and everything else says what it is: `{"type": "ubyte", "value": 7}`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bellwether::message::Value;
use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value as Json, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::http::id;
use crate::time;

/// The largest whole number that survives JavaScript.
pub(crate) const INTEGER_MAX: u64 = (1 << 53) - 1;

const TYPES: [&str; 18] = [
    "null",
    "boolean",
    "ubyte",
    "byte",
    "ushort",
    "short",
    "uint",
    "int",
    "ulong",
    "long",
    "float",
    "double",
    "char",
    "timestamp",
    "uuid",
    "binary",
    "string",
    "symbol",
];

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Property(pub(crate) Value);

impl Serialize for Property {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        to_json(&self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Property {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_json(Json::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

pub(crate) fn to_json(value: &Value) -> Json {
    let typed = |name: &str, value: Json| json!({ "type": name, "value": value });
    match value {
        Value::Null => Json::Null,
        Value::Bool(yes) => (*yes).into(),
        Value::String(text) => text.as_str().into(),
        Value::Long(n) if n.unsigned_abs() <= INTEGER_MAX => (*n).into(),
        Value::Long(n) => typed("long", n.to_string().into()),
        Value::Ulong(n) => typed("ulong", n.to_string().into()),
        Value::Ubyte(n) => typed("ubyte", (*n).into()),
        Value::Byte(n) => typed("byte", (*n).into()),
        Value::Ushort(n) => typed("ushort", (*n).into()),
        Value::Short(n) => typed("short", (*n).into()),
        Value::Uint(n) => typed("uint", (*n).into()),
        Value::Int(n) => typed("int", (*n).into()),
        Value::Float(n) if n.is_finite() => typed("float", f64::from(*n).into()),
        Value::Float(n) => typed("float", bits(u64::from(n.to_bits()), n.is_nan(), *n < 0.0, 8)),
        Value::Double(n) if n.is_finite() => typed("double", (*n).into()),
        Value::Double(n) => typed("double", bits(n.to_bits(), n.is_nan(), *n < 0.0, 16)),
        Value::Char(c) => typed("char", c.to_string().into()),
        Value::Timestamp(ms) => {
            typed("timestamp", time::format(*ms).unwrap_or_else(|| ms.to_string()).into())
        }
        Value::Uuid(bytes) => typed("uuid", id::uuid(*bytes).into()),
        Value::Binary(bytes) => typed("binary", BASE64.encode(bytes).into()),
        Value::Symbol(word) => typed("symbol", word.as_str().into()),
    }
}

/// What JSON has no number for. A NaN is told by its bits: there are many.
fn bits(bits: u64, is_nan: bool, is_negative: bool, digits: usize) -> Json {
    match (is_nan, is_negative) {
        (true, _) => format!("0x{bits:0digits$x}").into(),
        (false, true) => "-Infinity".into(),
        (false, false) => "Infinity".into(),
    }
}

pub(crate) fn from_json(json: Json) -> Result<Value, String> {
    match json {
        Json::Null => Ok(Value::Null),
        Json::Bool(yes) => Ok(Value::Bool(yes)),
        Json::String(text) => Ok(Value::String(text)),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(n), _, _) => Ok(Value::Long(n)),
            (None, Some(n), _) => Ok(Value::Ulong(n)),
            (None, None, Some(n)) => Ok(Value::Double(n)),
            (None, None, None) => Err(format!("the number {number} does not fit")),
        },
        Json::Array(_) => Err("a property is one value, not a list".into()),
        Json::Object(mut object) => {
            let (name, value) = (object.remove("type"), object.remove("value"));
            match (name, value, object.keys().next()) {
                (Some(Json::String(name)), Some(value), None) => typed(&name, &value),
                _ => Err("an object is a typed value: {\"type\": …, \"value\": …}".into()),
            }
        }
    }
}

fn typed(name: &str, value: &Json) -> Result<Value, String> {
    let text = value.as_str();
    let read = match name {
        "null" => value.is_null().then_some(Value::Null),
        "boolean" => value.as_bool().map(Value::Bool),
        "ubyte" => integer(value).map(Value::Ubyte),
        "byte" => integer(value).map(Value::Byte),
        "ushort" => integer(value).map(Value::Ushort),
        "short" => integer(value).map(Value::Short),
        "uint" => integer(value).map(Value::Uint),
        "int" => integer(value).map(Value::Int),
        "ulong" => integer(value).map(Value::Ulong),
        "long" => integer(value).map(Value::Long),
        "float" => float(value).map(Value::Float),
        "double" => double(value).map(Value::Double),
        "char" => text.and_then(|text| text.parse().ok()).map(Value::Char),
        "timestamp" => text
            .and_then(|text| time::parse(text).or_else(|| text.parse().ok()))
            .or_else(|| value.as_i64())
            .map(Value::Timestamp),
        "uuid" => text.and_then(id::parse).map(|uuid| Value::Uuid(uuid.to_be_bytes())),
        "binary" => text
            .and_then(|text| BASE64.decode(text).ok())
            .map(|bytes| Value::Binary(Bytes::from(bytes))),
        "string" => text.map(|text| Value::String(text.to_owned())),
        "symbol" => text.map(|text| Value::Symbol(text.to_owned())),
        _ => return Err(format!("there is no type {name:?}; there are {}", TYPES.join(", "))),
    };
    read.ok_or_else(|| format!("{value} is no {name}"))
}

/// A value of a named type out of a text.
pub(crate) fn from_text(name: &str, text: &str) -> Result<Value, String> {
    let json = match name {
        // What JSON has a word for.
        "null" | "boolean" => serde_json::from_str(text).ok(),
        "float" | "double" => text.parse::<f64>().ok().filter(|n| n.is_finite()).map(Json::from),
        _ => None,
    };
    typed(name, &json.unwrap_or_else(|| text.into()))
}

/// A whole number, as a number or as its digits.
fn integer<T: TryFrom<i128>>(value: &Json) -> Option<T> {
    let n = match value {
        Json::String(digits) => digits.parse().ok()?,
        _ => value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))?,
    };
    T::try_from(n).ok()
}

fn double(value: &Json) -> Option<f64> {
    match value.as_str() {
        None => value.as_f64(),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        Some(text) => {
            let bits = u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
            Some(f64::from_bits(bits)).filter(|n| n.is_nan())
        }
    }
}

fn float(value: &Json) -> Option<f32> {
    match value.as_str() {
        None => value.as_f64().map(|n| n as f32).filter(|n| n.is_finite()),
        Some("Infinity") => Some(f32::INFINITY),
        Some("-Infinity") => Some(f32::NEG_INFINITY),
        Some(text) => {
            let bits = u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
            Some(f32::from_bits(bits)).filter(|n| n.is_nan())
        }
    }
}

impl PartialSchema for Property {
    fn schema() -> RefOr<Schema> {
        let plain = |kind| ObjectBuilder::new().schema_type(SchemaType::Type(kind));
        let typed = ObjectBuilder::new()
            .property("type", plain(Type::String).enum_values(Some(TYPES)))
            .property("value", plain(Type::String).schema_type(SchemaType::AnyValue))
            .required("type")
            .required("value")
            .additional_properties(Some(utoipa::openapi::schema::AdditionalProperties::FreeForm(
                false,
            )))
            .description(Some("A value that says what it is."));
        AnyOfBuilder::new()
            .item(plain(Type::String))
            .item(plain(Type::Boolean))
            .item(plain(Type::Number))
            .item(plain(Type::Null))
            .item(typed)
            .description(Some(
                "A property's value: itself, or typed as AMQP types it where JSON has no such type.",
            ))
            .into()
    }
}

impl ToSchema for Property {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_survives_json() {
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Ubyte(255),
            Value::Byte(-128),
            Value::Ushort(u16::MAX),
            Value::Short(i16::MIN),
            Value::Uint(u32::MAX),
            Value::Int(i32::MIN),
            Value::Ulong(u64::MAX),
            Value::Long(i64::MIN),
            Value::Long(-7),
            Value::Float(0.1),
            Value::Float(-0.0),
            Value::Float(f32::MIN_POSITIVE),
            Value::Float(f32::NEG_INFINITY),
            Value::Float(f32::from_bits(0x7fc0_0001)),
            Value::Double(0.1),
            Value::Double(1.0),
            Value::Double(-0.0),
            Value::Double(f64::MAX),
            // A reader of JSON that is in a hurry is off by one bit here.
            Value::Double(1.844_674_405_161_573_7e24),
            Value::Double(1.844_674_405_161_573_8e24),
            Value::Double(f64::INFINITY),
            Value::Double(f64::from_bits(0x7ff8_0000_0000_0001)),
            Value::Char('é'),
            Value::Timestamp(-1),
            Value::Timestamp(i64::MAX),
            Value::Uuid([7; 16]),
            Value::Binary(Bytes::from_static(b"\x00\xff")),
            Value::String("true".into()),
            Value::Symbol("word".into()),
        ];
        for value in values {
            let text = serde_json::to_string(&Property(value.clone())).unwrap();
            let back: Property = serde_json::from_str(&text).unwrap();
            assert_eq!(back.0, value, "{text}");
        }
    }

    #[test]
    fn a_text_is_a_value_of_the_type_it_is_said_to_be() {
        let read = |name, text| from_text(name, text).unwrap();
        assert_eq!(read("boolean", "false"), Value::Bool(false));
        assert_eq!(read("double", "-0.5"), Value::Double(-0.5));
        assert_eq!(read("float", "-Infinity"), Value::Float(f32::NEG_INFINITY));
        assert_eq!(read("ubyte", "255"), Value::Ubyte(255));
        assert_eq!(read("string", "true"), Value::String("true".into()));
        assert_eq!(read("null", "null"), Value::Null);
        for (name, text) in [("boolean", "yes"), ("double", "nan"), ("int", "1.5"), ("null", "0")] {
            assert!(from_text(name, text).is_err(), "{name} {text}");
        }
    }

    #[test]
    fn what_is_no_value_of_its_type_is_refused() {
        for text in [
            "[1]",
            r#"{"type":"ubyte","value":256}"#,
            r#"{"type":"ubyte","value":-1}"#,
            r#"{"type":"byte","value":1.5}"#,
            r#"{"type":"char","value":"ab"}"#,
            r#"{"type":"uuid","value":"7"}"#,
            r#"{"type":"binary","value":"*"}"#,
            r#"{"type":"double","value":"0x0"}"#,
            r#"{"type":"float","value":1e300}"#,
            r#"{"type":"list","value":[]}"#,
            r#"{"type":"int"}"#,
            r#"{"type":"int","value":1,"more":1}"#,
        ] {
            assert!(serde_json::from_str::<Property>(text).is_err(), "{text}");
        }
    }
}
