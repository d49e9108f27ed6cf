//! What a property can be.

use std::collections::BTreeMap;

use bellwether_core::codec::{BadBytes, Reader, put_number, put_text};
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::time::WallTime;
use bytes::Bytes;

/// The value of a property, typed as AMQP types it, so that what a sender meant as an `ubyte`
/// reaches its receiver as one.
///
/// Floats are equal when their bits are: a NaN equals itself, and zero is not minus zero.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing; not the same as no property.
    Null,
    /// Yes or no.
    Bool(bool),
    /// Unsigned, 8 bits.
    Ubyte(u8),
    /// Signed, 8 bits.
    Byte(i8),
    /// Unsigned, 16 bits.
    Ushort(u16),
    /// Signed, 16 bits.
    Short(i16),
    /// Unsigned, 32 bits.
    Uint(u32),
    /// Signed, 32 bits.
    Int(i32),
    /// Unsigned, 64 bits.
    Ulong(u64),
    /// Signed, 64 bits.
    Long(i64),
    /// Floating point, 32 bits.
    Float(f32),
    /// Floating point, 64 bits.
    Double(f64),
    /// One Unicode character.
    Char(char),
    /// Milliseconds since the Unix epoch; negative ones lie before it.
    Timestamp(i64),
    /// A UUID, in network order.
    Uuid([u8; 16]),
    /// Bytes.
    Binary(Bytes),
    /// A text.
    String(String),
    /// A word of some vocabulary; ASCII in AMQP, which its door sees to.
    Symbol(String),
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Ubyte(a), Self::Ubyte(b)) => a == b,
            (Self::Byte(a), Self::Byte(b)) => a == b,
            (Self::Ushort(a), Self::Ushort(b)) => a == b,
            (Self::Short(a), Self::Short(b)) => a == b,
            (Self::Uint(a), Self::Uint(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Ulong(a), Self::Ulong(b)) => a == b,
            (Self::Long(a), Self::Long(b)) | (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Double(a), Self::Double(b)) => a.to_bits() == b.to_bits(),
            (Self::Char(a), Self::Char(b)) => a == b,
            (Self::Uuid(a), Self::Uuid(b)) => a == b,
            (Self::Binary(a), Self::Binary(b)) => a == b,
            (Self::String(a), Self::String(b)) | (Self::Symbol(a), Self::Symbol(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Value {
    /// The text of a string or symbol.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Symbol(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is an integer of any width and fits.
    pub fn as_i64(&self) -> Option<i64> {
        Some(match *self {
            Self::Ubyte(n) => n.into(),
            Self::Byte(n) => n.into(),
            Self::Ushort(n) => n.into(),
            Self::Short(n) => n.into(),
            Self::Uint(n) => n.into(),
            Self::Int(n) => n.into(),
            Self::Ulong(n) => return i64::try_from(n).ok(),
            Self::Long(n) => n,
            _ => return None,
        })
    }

    /// Yes or no, if it is that.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(yes) => Some(yes),
            _ => None,
        }
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),+ $(,)?) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )+};
}
value_from! {
    bool => Bool, u8 => Ubyte, i8 => Byte, u16 => Ushort, i16 => Short, u32 => Uint, i32 => Int,
    u64 => Ulong, i64 => Long, f32 => Float, f64 => Double, char => Char, Bytes => Binary,
    Vec<u8> => Binary, &str => String, &String => String, String => String,
}

impl From<WallTime> for Value {
    fn from(time: WallTime) -> Self {
        Self::Timestamp(i64::try_from(time.0).unwrap_or(i64::MAX))
    }
}

// Tags are in somebody's journal and keep their meaning for ever. Zero is none of them: overlays
// use it for a property that was removed.
mod tag {
    pub(super) const NULL: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const TRUE: u8 = 3;
    pub(super) const UBYTE: u8 = 4;
    pub(super) const BYTE: u8 = 5;
    pub(super) const USHORT: u8 = 6;
    pub(super) const SHORT: u8 = 7;
    pub(super) const UINT: u8 = 8;
    pub(super) const INT: u8 = 9;
    pub(super) const ULONG: u8 = 10;
    pub(super) const LONG: u8 = 11;
    pub(super) const FLOAT: u8 = 12;
    pub(super) const DOUBLE: u8 = 13;
    pub(super) const CHAR: u8 = 14;
    pub(super) const TIMESTAMP: u8 = 15;
    pub(super) const UUID: u8 = 16;
    pub(super) const BINARY: u8 = 17;
    pub(super) const STRING: u8 = 18;
    pub(super) const SYMBOL: u8 = 19;
}

const EXPECTED: &str = "the value of a property";

impl Value {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Null => tag::NULL,
            Self::Bool(false) => tag::FALSE,
            Self::Bool(true) => tag::TRUE,
            Self::Ubyte(_) => tag::UBYTE,
            Self::Byte(_) => tag::BYTE,
            Self::Ushort(_) => tag::USHORT,
            Self::Short(_) => tag::SHORT,
            Self::Uint(_) => tag::UINT,
            Self::Int(_) => tag::INT,
            Self::Ulong(_) => tag::ULONG,
            Self::Long(_) => tag::LONG,
            Self::Float(_) => tag::FLOAT,
            Self::Double(_) => tag::DOUBLE,
            Self::Char(_) => tag::CHAR,
            Self::Timestamp(_) => tag::TIMESTAMP,
            Self::Uuid(_) => tag::UUID,
            Self::Binary(_) => tag::BINARY,
            Self::String(_) => tag::STRING,
            Self::Symbol(_) => tag::SYMBOL,
        });
        match self {
            Self::Null | Self::Bool(_) => {}
            Self::Ubyte(n) => out.push(*n),
            Self::Byte(n) => out.push(n.cast_unsigned()),
            Self::Ushort(n) => put_number((*n).into(), out),
            Self::Short(n) => put_signed((*n).into(), out),
            Self::Uint(n) => put_number((*n).into(), out),
            Self::Int(n) => put_signed((*n).into(), out),
            Self::Ulong(n) => put_number(*n, out),
            Self::Long(n) | Self::Timestamp(n) => put_signed(*n, out),
            Self::Float(n) => out.extend_from_slice(&n.to_le_bytes()),
            Self::Double(n) => out.extend_from_slice(&n.to_le_bytes()),
            Self::Char(c) => put_number((*c).into(), out),
            Self::Uuid(bytes) => out.extend_from_slice(bytes),
            Self::Binary(bytes) => {
                put_number(bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            }
            Self::String(text) | Self::Symbol(text) => put_text(text, out),
        }
    }

    pub(super) fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let offset = r.position();
        Self::get_maybe(r)?.ok_or(BadBytes { expected: EXPECTED, offset })
    }

    /// A value, or a zero where none is.
    pub(super) fn get_maybe(r: &mut Reader<'_>) -> Result<Option<Self>, BadBytes> {
        let offset = r.position();
        Ok(Some(match r.byte(EXPECTED)? {
            0 => return Ok(None),
            tag::NULL => Self::Null,
            tag::FALSE => Self::Bool(false),
            tag::TRUE => Self::Bool(true),
            tag::UBYTE => Self::Ubyte(r.byte(EXPECTED)?),
            tag::BYTE => Self::Byte(r.byte(EXPECTED)?.cast_signed()),
            tag::USHORT => Self::Ushort(get_narrow(r)?),
            tag::SHORT => Self::Short(get_signed(r)?),
            tag::UINT => Self::Uint(get_narrow(r)?),
            tag::INT => Self::Int(get_signed(r)?),
            tag::ULONG => Self::Ulong(r.number()?),
            tag::LONG => Self::Long(get_signed(r)?),
            tag::FLOAT => Self::Float(f32::from_le_bytes(r.array(EXPECTED)?)),
            tag::DOUBLE => Self::Double(f64::from_le_bytes(r.array(EXPECTED)?)),
            tag::CHAR => Self::Char(get_char(r)?),
            tag::TIMESTAMP => Self::Timestamp(get_signed(r)?),
            tag::UUID => Self::Uuid(r.array(EXPECTED)?),
            tag::BINARY => {
                let len = r.len_of_next()?;
                Self::Binary(Bytes::copy_from_slice(r.take(len)?))
            }
            tag::STRING => Self::String(r.text()?.to_owned()),
            tag::SYMBOL => Self::Symbol(r.text()?.to_owned()),
            _ => return Err(BadBytes { expected: EXPECTED, offset }),
        }))
    }
}

fn get_narrow<T: TryFrom<u64>>(r: &mut Reader<'_>) -> Result<T, BadBytes> {
    let offset = r.position();
    T::try_from(r.number()?).map_err(|_| BadBytes { expected: "a number within its type", offset })
}

/// Zig-zag: small numbers of either sign take few bytes.
fn put_signed(n: i64, out: &mut Vec<u8>) {
    put_number(((n << 1) ^ (n >> 63)).cast_unsigned(), out);
}

fn get_signed<T: TryFrom<i64>>(r: &mut Reader<'_>) -> Result<T, BadBytes> {
    let offset = r.position();
    let folded = r.number()?;
    T::try_from((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
        .map_err(|_| BadBytes { expected: "a number within its type", offset })
}

fn get_char(r: &mut Reader<'_>) -> Result<char, BadBytes> {
    let offset = r.position();
    char::from_u32(get_narrow(r)?).ok_or(BadBytes { expected: "a character", offset })
}

/// Appends properties: how many, then name and value of each, by name.
pub(super) fn put_properties<V>(
    properties: &BTreeMap<String, V>,
    out: &mut Vec<u8>,
    put: impl Fn(&V, &mut Vec<u8>),
) {
    put_number(properties.len() as u64, out);
    for (key, value) in properties {
        put_text(key, out);
        put(value, out);
    }
}

/// Whether there are no more properties than may be: a list that begins at the front of `bytes`. What
/// makes no sense as far as that goes is left to whoever receives it.
pub(super) fn check_properties<V>(
    bytes: &[u8],
    get: impl Fn(&mut Reader<'_>) -> Result<V, BadBytes>,
) -> Result<(), Refusal> {
    // The writer must not be kept by what is too long anyway.
    let looked_at = &bytes[..bytes.len().min(limits::PROPERTIES_BYTES_MAX)];
    let mut r = Reader::new(looked_at);
    let Ok(count) = r.number() else { return Ok(()) };
    if count > limits::PROPERTIES_MAX as u64 {
        let max = limits::PROPERTIES_MAX as u64;
        return Err(Refusal::TooMany { what: "properties of a message", max });
    }
    let is_whole = (0..count).all(|_| r.text().is_ok() && get(&mut r).is_ok());
    if is_whole || looked_at.len() == bytes.len() {
        return Ok(());
    }
    let max = limits::PROPERTIES_BYTES_MAX;
    let why =
        format!("they have more than {max} bytes together; what is long belongs into the body");
    Err(Refusal::InvalidValue { what: "properties", why })
}

/// Reads properties. A name out of order or twice is refused: the same properties are always the
/// same bytes.
pub(super) fn get_properties<V>(
    r: &mut Reader<'_>,
    get: impl Fn(&mut Reader<'_>) -> Result<V, BadBytes>,
) -> Result<BTreeMap<String, V>, BadBytes> {
    let mut properties = BTreeMap::<String, V>::new();
    for _ in 0..r.len_of_next()? {
        let offset = r.position();
        let key = r.text()?;
        if properties.last_key_value().is_some_and(|(last, _)| last.as_str() >= key) {
            return Err(BadBytes { expected: "the next property by name", offset });
        }
        properties.insert(key.to_owned(), get(r)?);
    }
    Ok(properties)
}
