//! Typed property values as people write and read them; as JSON they are what HTTP has
//! (`property.rs`).

use bellwether::message::Value;
use serde_json::Value as Json;

use super::super::human;
use crate::property;

/// A value as people read it.
pub(crate) fn to_text(value: &Value) -> String {
    match property::to_json(value) {
        Json::String(text) => text,
        Json::Object(typed) => match &typed["value"] {
            Json::String(text) => text.clone(),
            plain => plain.to_string(),
        },
        plain => plain.to_string(),
    }
}

/// A property as `--property` says it: `NAME=TEXT`, or `NAME:TYPE=TEXT`.
pub(crate) fn parse_property(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE or NAME:TYPE=VALUE")?;
    let Some((name, kind)) = name.rsplit_once(':') else {
        return Ok((name.into(), Value::String(value.into())));
    };
    // As everywhere on a command line, a day is enough of a time.
    let typed = match human::parse_rfc3339(value).filter(|_| kind == "timestamp") {
        Some(time) => Value::from(time),
        None => property::from_text(kind, value)?,
    };
    Ok((name.into(), typed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_a_text_unless_it_says_otherwise() {
        assert_eq!(parse_property("a=b=c"), Ok(("a".into(), Value::String("b=c".into()))));
        assert_eq!(parse_property("n:int=5"), Ok(("n".into(), Value::Int(5))));
        assert_eq!(parse_property("urn:x:boolean=true"), Ok(("urn:x".into(), Value::Bool(true))));
        assert_eq!(parse_property("t:timestamp=1970-01-02"), {
            Ok(("t".into(), Value::Timestamp(86_400_000)))
        });
        assert!(parse_property("n:int=five").unwrap_err().contains("\"five\" is no int"));
        assert!(parse_property("n:bool=true").unwrap_err().contains("there are null, boolean"));
        assert!(parse_property("n").unwrap_err().contains("NAME=VALUE"));
    }

    #[test]
    fn a_value_is_read_as_it_was_written() {
        for (kind, text) in [("double", "0.5"), ("ulong", "18446744073709551615"), ("null", "null")]
        {
            let (_, value) = parse_property(&format!("n:{kind}={text}")).unwrap();
            assert_eq!(to_text(&value), text);
        }
    }
}
