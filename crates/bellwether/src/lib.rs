//! The library.
pub mod clock;
pub mod engine;
pub mod error;
pub mod journal;
pub mod message;

pub use clock::{Clock, VirtualClock};
pub use error::Error;
