//! Typed property values: texts, yes and no, and 64-bit integers as they are in JSON, all others as
//! `{"type": …, "value": …}`.

use bellwether::message::Value;
use bytes::Bytes;
use serde_json::{Value as Json, json};

use super::super::human;
use super::{Fields, base64, read_base64};

/// A value as JSON; no type and no bit is lost.
pub(crate) fn to_json(value: &Value) -> Json {
    let typed = |name: &str, value: Json| json!({ "type": name, "value": value });
    match value {
        Value::Null => Json::Null,
        Value::Bool(yes) => json!(yes),
        Value::String(text) => json!(text),
        Value::Long(n) => json!(n),
        Value::Ubyte(n) => typed("ubyte", json!(n)),
        Value::Byte(n) => typed("byte", json!(n)),
        Value::Ushort(n) => typed("ushort", json!(n)),
        Value::Short(n) => typed("short", json!(n)),
        Value::Uint(n) => typed("uint", json!(n)),
        Value::Int(n) => typed("int", json!(n)),
        Value::Ulong(n) => typed("ulong", json!(n)),
        // As text: JSON's numbers know neither minus zero nor what is not a number.
        Value::Float(n) if n.is_finite() => typed("float", json!(format!("{n:?}"))),
        Value::Float(n) => typed("float", json!(format!("bits:{:08x}", n.to_bits()))),
        Value::Double(n) if n.is_finite() => typed("double", json!(format!("{n:?}"))),
        Value::Double(n) => typed("double", json!(format!("bits:{:016x}", n.to_bits()))),
        Value::Char(c) => typed("char", json!(c.to_string())),
        Value::Timestamp(ms) => typed("timestamp", json!(ms)),
        Value::Uuid(bytes) => typed("uuid", json!(format!("{:032x}", u128::from_be_bytes(*bytes)))),
        Value::Binary(bytes) => typed("binary", json!(base64(bytes))),
        Value::Symbol(text) => typed("symbol", json!(text)),
    }
}

/// A value back from its JSON.
pub(crate) fn from_json(json: &Json) -> Option<Value> {
    match json {
        Json::Null => Some(Value::Null),
        Json::Bool(yes) => Some(Value::Bool(*yes)),
        Json::String(text) => Some(Value::String(text.clone())),
        Json::Number(n) => n.as_i64().map(Value::Long),
        Json::Array(_) => None,
        Json::Object(_) => {
            let fields = Fields::of(json, "a value").ok()?;
            typed(fields.get("type")?.as_str()?, fields.get("value")?)
        }
    }
}

fn typed(name: &str, value: &Json) -> Option<Value> {
    let text = value.as_str();
    let unsigned = || value.as_u64();
    let signed = || value.as_i64();
    Some(match name {
        "ubyte" => Value::Ubyte(unsigned()?.try_into().ok()?),
        "byte" => Value::Byte(signed()?.try_into().ok()?),
        "ushort" => Value::Ushort(unsigned()?.try_into().ok()?),
        "short" => Value::Short(signed()?.try_into().ok()?),
        "uint" => Value::Uint(unsigned()?.try_into().ok()?),
        "int" => Value::Int(signed()?.try_into().ok()?),
        "ulong" => Value::Ulong(unsigned()?),
        "long" => Value::Long(signed()?),
        "timestamp" => Value::Timestamp(signed()?),
        _ => return from_text(name, text?),
    })
}

/// A value of a named type out of a text: what `--property NAME:TYPE=TEXT` says.
pub(crate) fn from_text(name: &str, text: &str) -> Option<Value> {
    Some(match name {
        "string" => Value::String(text.into()),
        "symbol" => Value::Symbol(text.into()),
        "bool" => Value::Bool(text.parse().ok()?),
        "ubyte" => Value::Ubyte(text.parse().ok()?),
        "byte" => Value::Byte(text.parse().ok()?),
        "ushort" => Value::Ushort(text.parse().ok()?),
        "short" => Value::Short(text.parse().ok()?),
        "uint" => Value::Uint(text.parse().ok()?),
        "int" => Value::Int(text.parse().ok()?),
        "ulong" => Value::Ulong(text.parse().ok()?),
        "long" => Value::Long(text.parse().ok()?),
        "float" => Value::Float(match text.strip_prefix("bits:") {
            Some(bits) => f32::from_bits(u32::from_str_radix(bits, 16).ok()?),
            None => text.parse().ok()?,
        }),
        "double" => Value::Double(match text.strip_prefix("bits:") {
            Some(bits) => f64::from_bits(u64::from_str_radix(bits, 16).ok()?),
            None => text.parse().ok()?,
        }),
        "char" => {
            let mut chars = text.chars();
            Value::Char(chars.next().filter(|_| chars.next().is_none())?)
        }
        "timestamp" => match human::parse_rfc3339(text) {
            Some(time) => Value::from(time),
            None => Value::Timestamp(text.parse().ok()?),
        },
        "uuid" => {
            let digits: String = text.chars().filter(|c| *c != '-').collect();
            let number = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok())?;
            Value::Uuid(number?.to_be_bytes())
        }
        "binary" => Value::Binary(Bytes::from(read_base64(text)?)),
        "null" => Value::Null,
        _ => return None,
    })
}

/// A value as people read it.
pub(crate) fn to_text(value: &Value) -> String {
    match value {
        Value::String(text) | Value::Symbol(text) => text.clone(),
        Value::Long(n) => n.to_string(),
        Value::Bool(yes) => yes.to_string(),
        Value::Null => "null".into(),
        other => match to_json(other).get("value") {
            Some(Json::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        },
    }
}

/// A property as `--property` says it: `NAME=TEXT`, or `NAME:TYPE=TEXT`.
pub(crate) fn parse_property(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE or NAME:TYPE=VALUE")?;
    let Some((name, kind)) = name.rsplit_once(':') else {
        return Ok((name.into(), Value::String(value.into())));
    };
    let typed = from_text(kind, value).ok_or_else(|| {
        format!(
            "{value:?} is no {kind:?}; the types are string, bool, int, long, uint, ulong, short, \
             ushort, byte, ubyte, float, double, char, timestamp, uuid, binary (base64), symbol, null"
        )
    })?;
    Ok((name.into(), typed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_survives_the_way_through_json() {
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
            Value::Float(-0.0),
            Value::Float(f32::from_bits(0x7fc0_0001)),
            Value::Double(0.1),
            Value::Double(f64::NEG_INFINITY),
            Value::Char('ß'),
            Value::Timestamp(-1),
            Value::Uuid([7; 16]),
            Value::Binary(Bytes::from_static(b"\x00\xff")),
            Value::String("5".into()),
            Value::Symbol("amqp:x".into()),
        ];
        for value in values {
            let line = to_json(&value).to_string();
            let read: Json = serde_json::from_str(&line).unwrap();
            assert_eq!(from_json(&read), Some(value), "{line}");
        }
    }

    #[test]
    fn a_property_is_a_text_unless_it_says_otherwise() {
        assert_eq!(parse_property("a=b=c"), Ok(("a".into(), Value::String("b=c".into()))));
        assert_eq!(parse_property("n:int=5"), Ok(("n".into(), Value::Int(5))));
        assert_eq!(parse_property("urn:x:bool=true"), Ok(("urn:x".into(), Value::Bool(true))));
        assert!(parse_property("n:int=five").unwrap_err().contains("\"five\" is no \"int\""));
        assert!(parse_property("n").unwrap_err().contains("NAME=VALUE"));
    }
}
