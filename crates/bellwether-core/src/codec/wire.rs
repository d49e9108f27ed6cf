//! The building blocks: what everything else is put together from.

use super::{BadBytes, Reader};
use crate::few::Few;

/// A value with one form in bytes.
pub(super) trait Wire: Sized {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads it.
    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes>;
}

/// Appends a number, LEB128 in its shortest form.
#[inline]
pub fn put_number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a text.
pub fn put_text(text: &str, out: &mut Vec<u8>) {
    put_number(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

impl Wire for u64 {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        put_number(*self, out);
    }

    #[inline]
    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        r.number()
    }
}

macro_rules! wire_narrow {
    ($($name:ident, $expected:literal;)+) => {$(
        impl Wire for $name {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                put_number(u64::from(*self), out);
            }

            #[inline]
            fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
                let offset = r.position();
                Self::try_from(r.number()?)
                    .map_err(|_| BadBytes { expected: $expected, offset })
            }
        }
    )+};
}
wire_narrow! {
    u16, "a number of 16 bits";
    u32, "a number of 32 bits";
}

impl Wire for i32 {
    fn put(&self, out: &mut Vec<u8>) {
        ((self << 1) ^ (self >> 31)).cast_unsigned().put(out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let folded = u32::get(r)?;
        Ok((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
    }
}

impl Wire for u128 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        Ok(Self::from_le_bytes(r.array("16 bytes")?))
    }
}

impl Wire for bool {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    #[inline]
    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        const EXPECTED: &str = "yes or no";
        let offset = r.position();
        match r.byte(EXPECTED)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(BadBytes { expected: EXPECTED, offset }),
        }
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(self, out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        r.text().map(str::to_owned)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        bool::get(r)?.then(|| T::get(r)).transpose()
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        T::get(r).map(Self::new)
    }
}

fn put_list<T: Wire>(list: &[T], out: &mut Vec<u8>) {
    put_number(list.len() as u64, out);
    for value in list {
        value.put(out);
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_list(self, out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let len = r.len_of_next()?;
        // An element may take more room in memory than in bytes: the list then grows as its
        // elements really arrive.
        let room = r.remaining() / size_of::<T>().max(1);
        let mut list = Self::with_capacity(len.min(room));
        for _ in 0..len {
            list.push(T::get(r)?);
        }
        Ok(list)
    }
}

impl<T: Wire> Wire for Few<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_list(self, out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        Vec::get(r).map(Self::from)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        Ok((A::get(r)?, B::get(r)?))
    }
}

/// A struct: its fields in the order given here, which is the order of the bytes.
macro_rules! wire_struct {
    ($name:ident { $($field:ident),+ $(,)? }) => {
        impl Wire for $name {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field),+ } = self;
                $($field.put(out);)+
            }

            #[inline]
            fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
                $(let $field = Wire::get(r)?;)+
                Ok(Self { $($field),+ })
            }
        }
    };
}

/// A struct of one number.
macro_rules! wire_number {
    ($($name:ident),+ $(,)?) => {$(
        impl Wire for $name {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }

            #[inline]
            fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
                Wire::get(r).map(Self)
            }
        }
    )+};
}

/// An enum: tag, variant, and its fields in the order of the bytes. A tag given twice is an
/// unreachable pattern, a variant left out a missing one: the compiler sees both.
macro_rules! wire_enum {
    ($name:ident, $expected:literal, {
        $($tag:literal => $variant:ident
            $({ $($field:ident),+ $(,)? })? $(( $($inner:ident),+ ))?),+ $(,)?
    }) => {
        impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $({ $($field),+ })? $(( $($inner),+ ))? => {
                        out.push($tag);
                        $($($field.put(out);)+)?
                        $($($inner.put(out);)+)?
                    })+
                }
            }

            fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
                let offset = r.position();
                Ok(match r.byte($expected)? {
                    $($tag => {
                        $($(let $field = Wire::get(r)?;)+)?
                        $($(let $inner = Wire::get(r)?;)+)?
                        Self::$variant $({ $($field),+ })? $(( $($inner),+ ))?
                    })+
                    _ => return Err(BadBytes { expected: $expected, offset }),
                })
            }
        }
    };
}

pub(super) use {wire_enum, wire_number, wire_struct};
