//! The library.
mod chance;
pub mod clock;
pub mod delivery;
pub mod engine;
pub mod error;
mod handle;
pub mod journal;
pub mod message;
mod open;
mod presence;
pub mod queue;
pub mod session;

pub use bellwether_core as core;
pub use bellwether_core::error::{LeaseRefusal, Refusal};
pub use bellwether_core::name::{SequenceNumber, Term};
pub use bellwether_core::settings::{Durability, QueueSettings, SettingsPatch, Status};
pub use clock::{Clock, VirtualClock};
pub use delivery::{Delivery, Received};
pub use error::Error;
pub use handle::Bellwether;
pub use message::Message;
pub use open::Open;
pub use queue::Queue;
pub use session::Session;
