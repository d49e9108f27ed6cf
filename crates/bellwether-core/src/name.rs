//! Names and numbers: what things are called and how they are told apart.

use std::fmt;
use std::sync::Arc;

use crate::error::Refusal;
use crate::limits;

/// Name of a queue. Kept as it was written; compared without regard to ASCII case.
#[derive(Clone)]
pub struct QueueName(Arc<Spelling>);

struct Spelling {
    text: Box<str>,
    /// The form that is compared.
    folded: Box<str>,
}

impl QueueName {
    /// Checks and takes a name.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        check_name("queue name", text)?;
        let folded = text.to_ascii_lowercase().into();
        Ok(Self(Arc::new(Spelling { text: text.into(), folded })))
    }

    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

impl PartialEq for QueueName {
    fn eq(&self, other: &Self) -> bool {
        self.0.folded == other.0.folded
    }
}
impl Eq for QueueName {}
impl PartialOrd for QueueName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for QueueName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.folded.cmp(&other.0.folded)
    }
}
impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.text)
    }
}
impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

macro_rules! text_name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes a name.
            pub fn new(text: &str) -> Result<Self, Refusal> {
                check_name($what, text)?;
                Ok(Self(Arc::from(text)))
            }

            /// The name as it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_name!(
    /// Name of a lease, and so of the election for it. Case matters.
    LeaseName,
    "lease name"
);
text_name!(
    /// Name of a job. Case matters.
    JobName,
    "job name"
);
text_name!(
    /// Name of a schedule. Case matters.
    ScheduleName,
    "schedule name"
);
text_name!(
    /// Name of a session: an ordered group of messages.
    SessionId,
    "session id"
);

fn check_name(what: &'static str, text: &str) -> Result<(), Refusal> {
    if text.is_empty() {
        return Err(Refusal::InvalidName { what, why: "it is empty" });
    }
    if text.len() > limits::NAME_BYTES_MAX {
        return Err(Refusal::InvalidName { what, why: "it is longer than 260 bytes" });
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::InvalidName { what, why: "it contains a control character" });
    }
    Ok(())
}

/// One process that takes part, unique per start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u128);

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The number under which the ledger knows a member; never reused. Zero is nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberSlot(pub u32);

/// The id a holder proposes for its lease and shows with every later action on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u128);

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number!(
    /// Number of a grant of a lease; only grows; the fencing token.
    Term(u64)
);
number!(
    /// A message's number in its queue: unique, growing, never reused. Zero is no message.
    SequenceNumber(u64)
);
number!(
    /// Grows with every hand-out of a message; the fence of a delivery.
    DeliveryNumber(u32)
);
number!(
    /// Grows with every opening of a shard, and with every queue that goes: a queue of the same
    /// name counts its messages from one again, and must not know the tokens of the old one.
    Incarnation(u32)
);
number!(
    /// The ledger's number for a queue; never reused.
    QueueId(u32)
);
number!(
    /// The ledger's number for a job; never reused.
    JobId(u32)
);
number!(
    /// A member's number for a request. A request with the same number is the same request.
    /// Zero asks for no memory of the outcome.
    RequestNumber(u64)
);
number!(
    /// The engine's number for a request in flight; grows with every request.
    Ticket(u64)
);

/// What a receiver holds: proof of one delivery. Unique, not secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockToken {
    /// Which message.
    pub sequence: SequenceNumber,
    /// Which hand-out of it.
    pub number: DeliveryNumber,
    /// In which life of the shard it was handed out.
    pub incarnation: Incarnation,
}

impl LockToken {
    /// The token as one 128-bit number, as Azure's doors show it.
    pub fn to_u128(self) -> u128 {
        (u128::from(self.sequence.0) << 64)
            | (u128::from(self.number.0) << 32)
            | u128::from(self.incarnation.0)
    }

    /// The token back from its 128-bit form.
    pub fn from_u128(bits: u128) -> Self {
        Self {
            sequence: SequenceNumber((bits >> 64) as u64),
            number: DeliveryNumber((bits >> 32) as u32),
            incarnation: Incarnation(bits as u32),
        }
    }
}

impl fmt::Debug for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.sequence.0, self.number.0, self.incarnation.0)
    }
}

/// What the holder of a session shows: proof of one hold of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionToken {
    /// Which session.
    pub session: SessionId,
    /// Which hold of it; grows with every hold.
    pub number: DeliveryNumber,
    /// In which life of the shard it was accepted.
    pub incarnation: Incarnation,
}

/// The two halves of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The queue itself.
    Main,
    /// Its dead letters.
    Dead,
}

/// A queue or its dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePath {
    /// The queue.
    pub queue: QueueName,
    /// Which half.
    pub part: Part,
}

impl QueuePath {
    /// The queue itself.
    pub fn main(queue: QueueName) -> Self {
        Self { queue, part: Part::Main }
    }

    /// The queue's dead letters.
    pub fn dead(queue: QueueName) -> Self {
        Self { queue, part: Part::Dead }
    }
}

/// Where the ledger keeps a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// The queue.
    pub queue: QueueId,
    /// Which half of it.
    pub part: Part,
    /// The message.
    pub sequence: SequenceNumber,
}
