//! The native wire: the ledger's own vocabulary over a stream of bytes.
//!
//! ```text
//!   client                                             server
//!     │ magic, Hello ──────────────────────────────────► │
//!     │ ◄────────────────────────────── magic, Welcome   │
//!     │ Ask 1, Ask 2, Ask 3 ───────────────────────────► │  many are in flight
//!     │ ◄──────────────────────────── Answer 2, Answer 1 │  answered in any order
//!     │ Withdraw 3 ────────────────────────────────────► │
//!     │ Ping ──────────────────────────────────────────► │
//!     │ ◄─────────────────────────────────────────  Pong │
//!     │ ◄────────────────────────────────────── Goodbye  │
//! ```
//!
//! 1. A frame is short ([`FRAME_BYTES_MAX`]), so that a long ask or answer never holds up the
//!    others: it travels in parts, between which other frames may stand.
//! 2. Nothing is allocated for a length before its bytes are there.
//! 3. A frame that is not understood ends the connection, with a [`Goodbye`] that says why; it
//!    never ends more than that.
//! 4. Whoever breaks a limit of the [`Welcome`] is sent away: a client counts its own asks.
//!
//! [`frame`] cuts the stream into frames, [`parts`] puts long ones together again, [`hello`] and
//! [`call`] are what stands in them; none of these does I/O. `accept` is the server's side of a
//! connection, [`crate::engine::remote`] the client's. `docs/wire.md` says the same for those who
//! write a client in another language.

#[cfg(feature = "listen")]
pub mod accept;
pub mod call;
pub mod frame;
pub mod hello;
mod numbered;
pub mod parts;
pub(crate) mod pipe;
pub mod process;
#[cfg(test)]
mod tests;

pub use frame::{FRAME_BYTES_MAX, Frame, Kind};
pub use hello::{Goodbye, Hello, Welcome, Why};

use bellwether_core::codec::BadBytes;

/// The first bytes of either direction: a wrong port is noticed before anything is read from it.
pub const MAGIC: &[u8; 8] = b"bellwire";

/// The name of the protocol in the handshake of TLS: a door that speaks another one says so there.
pub const ALPN: &[u8] = MAGIC;

/// The version spoken by this program, and the oldest one it still speaks.
pub const VERSION: u16 = 1;
/// See [`VERSION`].
pub const VERSION_MIN: u16 = 1;

/// What the other side must not send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It does not speak this protocol at all.
    #[error("it does not speak Bellwether's wire; is this the right port?")]
    Magic,
    /// A frame that is longer than any may be.
    #[error("a frame of {len} bytes; {max} are allowed")]
    TooLong {
        /// What it said.
        len: u32,
        /// What is allowed.
        max: u32,
    },
    /// A kind of frame that this version does not have, or not in this direction.
    #[error("a frame of kind {0} where there can be none")]
    Kind(u8),
    /// What stands in a frame is not what it should be.
    #[error("{what}: {bad}")]
    Bad {
        /// Which frame.
        what: &'static str,
        /// What is wrong with it.
        bad: BadBytes,
    },
    /// More parts than an ask or answer may have, or more of them begun than may be.
    #[error("more than {max} bytes of unfinished parts")]
    Parts {
        /// How much may be unfinished.
        max: usize,
    },
}

impl WireError {
    fn of(what: &'static str) -> impl Fn(BadBytes) -> Self {
        move |bad| Self::Bad { what, bad }
    }
}
