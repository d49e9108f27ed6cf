//! Random values, the same ones for the same seed.

use bellwether_core::content::{ContentId, Place};
use bellwether_core::error::Refusal;
use bellwether_core::few::Few;
use bellwether_core::message::{Standing, State};
use bellwether_core::name::{
    DeliveryNumber, Incarnation, JobId, JobName, LeaseId, LeaseName, MemberId, MemberSlot, QueueId,
    QueueName, RequestNumber, ScheduleName, SequenceNumber, SessionId, Term,
};
use bellwether_core::outcome::{Outcome, Sequences};
use bellwether_core::time::{BootTime, WallTime};

/// Xorshift64*: small, and the same everywhere.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next_u64() >> 16) % end
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A type with random values.
pub(crate) trait Random: Sized {
    /// How many variants it has.
    const VARIANTS: usize = 1;

    /// A value of that variant.
    fn variant(variant: usize, rng: &mut Rng) -> Self;

    /// A value of any variant.
    fn random(rng: &mut Rng) -> Self {
        let variant = rng.below(Self::VARIANTS as u64) as usize;
        Self::variant(variant, rng)
    }
}

macro_rules! random {
    ($($name:ty: $value:expr;)+) => {$(
        impl Random for $name {
            fn variant(_: usize, rng: &mut Rng) -> Self {
                let value: fn(&mut Rng) -> Self = $value;
                value(rng)
            }
        }
    )+};
}

random! {
    // All sizes are equally likely, and so are the ends of the range.
    u64: |rng| match rng.below(8) {
        0 => 0,
        1 => u64::MAX,
        _ => { let bits = rng.below(64); rng.next_u64() >> bits }
    };
    u32: |rng| match rng.below(8) {
        0 => 0,
        1 => u32::MAX,
        _ => { let bits = rng.below(32); (rng.next_u64() as u32) >> bits }
    };
    u16: |rng| u32::random(rng) as u16;
    u8: |rng| u32::random(rng) as u8;
    i32: |rng| u32::random(rng).cast_signed();
    u128: |rng| match rng.below(4) {
        0 => 0,
        _ => (u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64()),
    };
    bool: Rng::coin;
    String: |rng| text(0, rng);
    &'static str: |rng| ["queue name", "it is empty", "lock_ms", "value"][rng.below(4) as usize];
    QueueName: |rng| QueueName::new(&text(1, rng)).unwrap();
    JobName: |rng| JobName::new(&text(1, rng)).unwrap();
    ScheduleName: |rng| ScheduleName::new(&text(1, rng)).unwrap();
    JobId: |rng| JobId(u32::random(rng));
    LeaseName: |rng| LeaseName::new(&text(1, rng)).unwrap();
    SessionId: |rng| SessionId::new(&text(1, rng)).unwrap();
    BootTime: |rng| BootTime(u64::random(rng));
    WallTime: |rng| WallTime(u64::random(rng));
    ContentId: |rng| ContentId(u64::random(rng));
    DeliveryNumber: |rng| DeliveryNumber(u32::random(rng));
    Incarnation: |rng| Incarnation(u32::random(rng));
    LeaseId: |rng| LeaseId(u128::random(rng));
    MemberId: |rng| MemberId(u128::random(rng));
    MemberSlot: |rng| MemberSlot(u32::random(rng));
    QueueId: |rng| QueueId(u32::random(rng));
    RequestNumber: |rng| RequestNumber(u64::random(rng));
    SequenceNumber: |rng| SequenceNumber(u64::random(rng));
    Term: |rng| Term(u64::random(rng));
    Place: |rng| match rng.below(4) {
        0 => Place::default(),
        _ => Place {
            unit: Random::random(rng),
            offset: Random::random(rng),
            len: Random::random(rng),
        },
    };
    // Half of them as they were sent: the codec takes a short cut there.
    Standing: |rng| {
        let state = State::random(rng);
        if rng.coin() {
            return Standing::new(state);
        }
        Standing {
            state,
            number: Random::random(rng),
            deliveries: Random::random(rng),
            failures: Random::random(rng),
            crashes: Random::random(rng),
            releases: Random::random(rng),
            reason: Random::random(rng),
            hops: Random::random(rng),
            overlay: Random::random(rng),
        }
    };
}

fn text(min: u64, rng: &mut Rng) -> String {
    const LETTERS: [char; 8] = ['a', 'Z', '0', '-', ' ', 'ä', '漢', '🐑'];
    let len = if rng.below(8) == 0 { min + 60 } else { min + rng.below(8) };
    (0..len).map(|_| LETTERS[rng.below(8) as usize]).collect()
}

impl<T: Random> Random for Option<T> {
    fn variant(_: usize, rng: &mut Rng) -> Self {
        if rng.coin() { Some(T::random(rng)) } else { None }
    }
}

impl<T: Random> Random for Box<T> {
    fn variant(_: usize, rng: &mut Rng) -> Self {
        Self::new(T::random(rng))
    }
}

impl<T: Random> Random for Vec<T> {
    fn variant(_: usize, rng: &mut Rng) -> Self {
        (0..rng.below(4)).map(|_| T::random(rng)).collect()
    }
}

impl<T: Random> Random for Few<T> {
    fn variant(nth: usize, rng: &mut Rng) -> Self {
        Vec::variant(nth, rng).into_iter().collect()
    }
}

impl<A: Random, B: Random> Random for (A, B) {
    fn variant(_: usize, rng: &mut Rng) -> Self {
        (A::random(rng), B::random(rng))
    }
}

impl<T: Random> Random for [T; 2] {
    fn variant(_: usize, rng: &mut Rng) -> Self {
        [T::random(rng), T::random(rng)]
    }
}

impl Random for Result<Outcome, Refusal> {
    const VARIANTS: usize = 2;

    fn variant(variant: usize, rng: &mut Rng) -> Self {
        if variant == 0 { Ok(Random::random(rng)) } else { Err(Random::random(rng)) }
    }
}

impl Random for Sequences {
    const VARIANTS: usize = 2;

    fn variant(variant: usize, rng: &mut Rng) -> Self {
        if variant == 0 {
            let count = u32::random(rng);
            let last = u64::MAX - u64::from(count);
            Self::Run { first: SequenceNumber(u64::random(rng).min(last)), count }
        } else {
            Self::List(Random::random(rng))
        }
    }
}
