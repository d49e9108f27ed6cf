//! The first and the last words on a connection.
//!
//! ```text
//! Hello     oldest version, newest version, name, credential, process
//! Welcome   version, name, asks, bytes, silence in ms
//! Goodbye   why, text for people
//! ```
//!
//! A later version may append fields; what follows the known ones is not read.

use bellwether_core::codec::{BadBytes, Reader, put_number, put_text};

use super::{VERSION, VERSION_MIN, WireError};

/// The client says who it is. What it shows is not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Hello {
    /// The oldest and the newest version it speaks.
    pub versions: (u16, u16),
    /// The program, for people who look at connections.
    pub name: String,
    /// What shows its rights; empty where none are asked for.
    pub credential: String,
    /// Which process speaks, if it says so ([`super::process`]); else empty, and then not written.
    pub process: String,
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let credential = if self.credential.is_empty() { "none" } else { "<secret>" };
        f.debug_struct("Hello")
            .field("versions", &self.versions)
            .field("name", &self.name)
            .field("credential", &credential)
            .field("process", &self.process)
            .finish()
    }
}

impl Hello {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_number(self.versions.0.into(), out);
        put_number(self.versions.1.into(), out);
        put_text(&self.name, out);
        put_text(&self.credential, out);
        if !self.process.is_empty() {
            put_text(&self.process, out);
        }
    }

    /// Reads it.
    pub fn get(body: &[u8]) -> Result<Self, WireError> {
        let read = || {
            let mut r = Reader::new(body);
            let versions = (version(&mut r)?, version(&mut r)?);
            let (name, credential) = (r.text()?.to_owned(), r.text()?.to_owned());
            let process = if r.remaining() > 0 { r.text()?.to_owned() } else { String::new() };
            Ok(Self { versions, name, credential, process })
        };
        read().map_err(WireError::of("a hello"))
    }

    /// The newest version that both sides speak.
    pub fn common_version(&self) -> Option<u16> {
        let newest = self.versions.1.min(VERSION);
        (newest >= self.versions.0.max(VERSION_MIN)).then_some(newest)
    }
}

/// The server says what it allows on this connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version spoken from here on.
    pub version: u16,
    /// The server, for people.
    pub name: String,
    /// Asks that may be unanswered at a time.
    pub asks_max: u32,
    /// Bytes that unanswered asks may have together.
    pub bytes_max: u32,
    /// Whoever is silent for so long is taken for dead.
    pub silence_ms_max: u32,
}

impl Welcome {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_number(self.version.into(), out);
        put_text(&self.name, out);
        for limit in [self.asks_max, self.bytes_max, self.silence_ms_max] {
            put_number(limit.into(), out);
        }
    }

    /// Reads it.
    pub fn get(body: &[u8]) -> Result<Self, WireError> {
        let read = || {
            let mut r = Reader::new(body);
            Ok(Self {
                version: version(&mut r)?,
                name: r.text()?.to_owned(),
                asks_max: narrow(&mut r)?,
                bytes_max: narrow(&mut r)?,
                silence_ms_max: narrow(&mut r)?,
            })
        };
        read().map_err(WireError::of("a welcome"))
    }
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is over; nothing is wrong.
    Done,
    /// The server is stopping; try again.
    Closing,
    /// The two sides have no version in common.
    Version,
    /// The credential is missing, wrong or revoked.
    Credential,
    /// The other side sent what cannot be understood.
    Protocol,
    /// The other side broke a limit.
    Limit,
    /// A reason that this version does not know.
    Other(u8),
}

impl Why {
    fn byte(self) -> u8 {
        match self {
            Self::Done => 1,
            Self::Closing => 2,
            Self::Version => 3,
            Self::Credential => 4,
            Self::Protocol => 5,
            Self::Limit => 6,
            Self::Other(byte) => byte,
        }
    }

    fn of(byte: u8) -> Self {
        match byte {
            1 => Self::Done,
            2 => Self::Closing,
            3 => Self::Version,
            4 => Self::Credential,
            5 => Self::Protocol,
            6 => Self::Limit,
            other => Self::Other(other),
        }
    }
}

/// The last frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goodbye {
    /// For programs.
    pub why: Why,
    /// For people.
    pub text: String,
}

impl Goodbye {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(self.why.byte());
        put_text(&self.text, out);
    }

    /// Reads it.
    pub fn get(body: &[u8]) -> Result<Self, WireError> {
        let read = || {
            let mut r = Reader::new(body);
            Ok(Self { why: Why::of(r.byte("a reason")?), text: r.text()?.to_owned() })
        };
        read().map_err(WireError::of("a goodbye"))
    }
}

fn version(r: &mut Reader<'_>) -> Result<u16, BadBytes> {
    let offset = r.position();
    u16::try_from(r.number()?).map_err(|_| BadBytes { expected: "a version", offset })
}

fn narrow(r: &mut Reader<'_>) -> Result<u32, BadBytes> {
    let offset = r.position();
    u32::try_from(r.number()?).map_err(|_| BadBytes { expected: "a limit", offset })
}
