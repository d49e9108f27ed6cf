//! 64-bit numbers as JSON: out as texts, which survive JavaScript; in as texts or numbers.

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// A 64-bit number on its way in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Number(pub(crate) u64);

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number of 64 bits, or its digits as a text")
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<Number, E> {
        Ok(Number(n))
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<Number, E> {
        let wrong = || E::invalid_value(Unexpected::Signed(n), &self);
        u64::try_from(n).map(Number).map_err(|_| wrong())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
        let is_digits = text.bytes().all(|b| b.is_ascii_digit());
        let read = text.parse().ok().filter(|_| is_digits).map(Number);
        read.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl PartialSchema for Number {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .pattern(Some("^[0-9]{1,19}$"));
        let number = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Integer))
            .minimum(Some(0))
            .maximum(Some(9_007_199_254_740_991_u64));
        let description = "A 64-bit number, as its digits or as a number.";
        AnyOfBuilder::new().item(text).item(number).description(Some(description)).into()
    }
}

impl ToSchema for Number {}
