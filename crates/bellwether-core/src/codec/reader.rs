//! Where decoders read from.

use std::fmt;

use crate::time::BootTime;

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBytes {
    /// What should have been there.
    pub expected: &'static str,
    /// Where it should have begun.
    pub offset: usize,
}

impl fmt::Display for BadBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} at byte {}", self.expected, self.offset)
    }
}

impl std::error::Error for BadBytes {}

/// A position in some bytes. After an error it stands somewhere inside what could not be read.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    len: usize,
    now: BootTime,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, len: bytes.len(), now: BootTime(0) }
    }

    /// How many bytes have been read.
    pub const fn position(&self) -> usize {
        self.len - self.rest.len()
    }

    /// How many are left.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether none are left.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next `len` bytes as they are.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], BadBytes> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.bad("more bytes"));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// Makes sure that nothing is left.
    pub fn finish(&self) -> Result<(), BadBytes> {
        if self.is_empty() { Ok(()) } else { Err(self.bad("the end")) }
    }

    /// Sets the time that stands in for the times that are never written.
    pub(super) fn at_time(&mut self, now: BootTime) {
        self.now = now;
    }

    pub(super) fn now(&self) -> BootTime {
        self.now
    }

    /// The error of something that should begin here.
    #[cold]
    pub(super) fn bad(&self, expected: &'static str) -> BadBytes {
        BadBytes { expected, offset: self.position() }
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self, expected: &'static str) -> Result<u8, BadBytes> {
        let Some((&byte, rest)) = self.rest.split_first() else {
            return Err(self.bad(expected));
        };
        self.rest = rest;
        Ok(byte)
    }

    /// Takes the next byte if it is this one.
    pub(super) fn take_if(&mut self, wanted: u8) -> bool {
        let is_wanted = self.rest.first() == Some(&wanted);
        self.rest = &self.rest[usize::from(is_wanted)..];
        is_wanted
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], BadBytes> {
        let Some((array, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.bad(expected));
        };
        self.rest = rest;
        Ok(*array)
    }

    /// The next number, LEB128 in its shortest form.
    #[inline]
    pub fn number(&mut self) -> Result<u64, BadBytes> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(byte))
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, BadBytes> {
        let mut bytes = self.rest.iter();
        let mut value = 0;
        // 64 bits are nine groups of seven and one of one.
        for shift in (0..64).step_by(7) {
            let Some(&byte) = bytes.next() else { break };
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                let overflows = shift == 63 && byte > 1;
                let is_padded = shift > 0 && byte == 0;
                if overflows || is_padded {
                    break;
                }
                self.rest = bytes.as_slice();
                return Ok(value);
            }
        }
        Err(self.bad("a number"))
    }

    /// The next text.
    pub fn text(&mut self) -> Result<&'a str, BadBytes> {
        let offset = self.position();
        let len = self.len_of_next()?;
        let bytes = self.take(len)?;
        std::str::from_utf8(bytes).map_err(|_| BadBytes { expected: "a text", offset })
    }

    /// The length of a text or list. Every byte or element takes at least one byte, so a length
    /// beyond what is left is a lie and is told apart before anything is allocated for it.
    pub fn len_of_next(&mut self) -> Result<usize, BadBytes> {
        let offset = self.position();
        match usize::try_from(self.number()?) {
            Ok(len) if len <= self.remaining() => Ok(len),
            _ => Err(BadBytes { expected: "a length within the bytes", offset }),
        }
    }
}
