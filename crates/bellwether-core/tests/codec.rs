//! Bytes: what is written is what is read, and what cannot be read does no harm.

#![allow(clippy::unwrap_used, reason = "a helper of a test is a test")]

#[path = "codec/golden.rs"]
mod golden;
#[path = "codec/random.rs"]
mod random;
#[path = "codec/tables.rs"]
mod tables;
#[path = "codec/words.rs"]
mod words;

use std::fmt::Debug;

use bellwether_core::change::{Change, KeptOutcome};
use bellwether_core::codec::{self, BadBytes, Reader};
use bellwether_core::command::{Command, Request};
use bellwether_core::content::ContentId;
use bellwether_core::error::Refusal;
use bellwether_core::lease::{self, Lease};
use bellwether_core::message::{MessageView, State};
use bellwether_core::note::NoteState;
use bellwether_core::outcome::Outcome;
use bellwether_core::time::BootTime;
use random::{Random, Rng};

const WRITTEN_AT: BootTime = BootTime(1_000_000);
const READ_AT: BootTime = BootTime(500);

/// What the codec reads and writes, seen from outside.
trait Coded: Random + Clone + Debug + PartialEq {
    fn encode(&self, out: &mut Vec<u8>);
    fn decode(r: &mut Reader<'_>) -> Result<Self, BadBytes>;
    /// The value without what is never written, as it is at [`READ_AT`].
    fn once_read(self) -> Self;
}

impl Coded for Change {
    fn encode(&self, out: &mut Vec<u8>) {
        codec::encode_change(self, WRITTEN_AT, out);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        codec::decode_change(r, READ_AT)
    }

    fn once_read(mut self) -> Self {
        match &mut self {
            Self::Content { index, .. } => *index = 0,
            Self::Message { message, .. } => {
                message.mark = 0;
                restart_lock(&mut message.standing.state);
            }
            Self::Standing { standing, .. } => restart_lock(&mut standing.state),
            Self::Note { note, .. } => restart_note(&mut note.state),
            Self::Kept {
                outcome: KeptOutcome::Plain(Outcome::Received(views) | Outcome::Peeked(views)),
                ..
            } => restart_views(views),
            Self::Kept { outcome: KeptOutcome::Plain(Outcome::Result(Some(info))), .. } => {
                restart_note(&mut info.state);
            }
            Self::Lease { lease, .. } => match &mut lease.hold {
                lease::Hold::Free => {}
                lease::Hold::Held { renewed_at, .. } => *renewed_at = READ_AT,
                lease::Hold::Broken { until, .. } if *until == BootTime::NEVER => {}
                lease::Hold::Broken { until, .. } => {
                    *until = READ_AT.plus_ms(WRITTEN_AT.ms_until(*until));
                }
            },
            _ => {}
        }
        self
    }
}

fn restart_lock(state: &mut State) {
    if let State::Locked(lock) = state {
        lock.until = READ_AT.plus_ms(lock.lock_ms.into());
    }
}

fn restart_note(state: &mut NoteState) {
    if let NoteState::Held(hold) = state {
        hold.until = READ_AT.plus_ms(hold.lock_ms.into());
    }
}

fn restart_views(views: &mut [MessageView]) {
    for view in views {
        view.message.mark = 0;
        restart_lock(&mut view.message.standing.state);
    }
}

impl Coded for Outcome {
    fn encode(&self, out: &mut Vec<u8>) {
        codec::encode_outcome(self, WRITTEN_AT, out);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        codec::decode_outcome(r, READ_AT)
    }

    fn once_read(mut self) -> Self {
        if let Self::Result(Some(info)) = &mut self {
            restart_note(&mut info.state);
        }
        if let Self::Received(views) | Self::Peeked(views) = &mut self {
            for view in views {
                view.message.mark = 0;
                if let State::Locked(lock) = &mut view.message.standing.state
                    && lock.until != BootTime::NEVER
                {
                    lock.until = READ_AT.plus_ms(WRITTEN_AT.ms_until(lock.until));
                }
            }
        }
        self
    }
}

impl Coded for Result<Outcome, Refusal> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Ok(outcome) => {
                out.push(1);
                codec::encode_outcome(outcome, WRITTEN_AT, out);
            }
            Err(refusal) => {
                out.push(2);
                codec::encode_refusal(refusal, out);
            }
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        match r.byte("an outcome or a refusal")? {
            1 => Outcome::decode(r).map(Ok),
            _ => codec::decode_refusal(r).map(Err),
        }
    }

    fn once_read(self) -> Self {
        self.map(Outcome::once_read)
    }
}

macro_rules! coded_as_is {
    ($($name:ident, $encode:ident, $decode:ident;)+) => {$(
        impl Coded for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                codec::$encode(self, out);
            }

            fn decode(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
                codec::$decode(r)
            }

            fn once_read(self) -> Self {
                self
            }
        }
    )+};
}
coded_as_is! {
    Refusal, encode_refusal, decode_refusal;
    Command, encode_command, decode_command;
    Request, encode_request, decode_request;
}

fn bytes_of<T: Coded>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

/// Names that differ only in case are equal, so what they look like is compared as well.
#[track_caller]
fn assert_same<T: Coded>(read: &T, wanted: &T) {
    assert_eq!(read, wanted);
    assert_eq!(format!("{read:?}"), format!("{wanted:?}"));
}

fn survives_the_round_trip<T: Coded>(seed: u64) {
    let mut rng = Rng::new(seed);
    for round in 0..200 {
        for variant in 0..T::VARIANTS {
            let value = T::variant(variant, &mut rng);
            let bytes = bytes_of(&value);
            let mut reader = Reader::new(&bytes);
            let read = T::decode(&mut reader)
                .unwrap_or_else(|bad| panic!("round {round}: {bad}: {value:?}"));
            assert_same(&read, &value.once_read());
            assert_eq!(reader.finish(), Ok(()));
        }
    }
}

fn is_refused_when_cut_short<T: Coded>(seed: u64) {
    let mut rng = Rng::new(seed);
    for _ in 0..20 {
        for variant in 0..T::VARIANTS {
            let value = T::variant(variant, &mut rng);
            let bytes = bytes_of(&value);
            for cut in 0..bytes.len() {
                let bad = T::decode(&mut Reader::new(&bytes[..cut]));
                let bad = bad.expect_err("half a value was read as a whole one");
                assert!(bad.offset <= cut, "{bad}");
            }
        }
    }
}

/// Whatever is read from any bytes can be written, and then reads the same.
fn makes_sense_or_is_refused<T: Coded>(bytes: &[u8]) {
    if let Ok(value) = T::decode(&mut Reader::new(bytes)) {
        let again = T::decode(&mut Reader::new(&bytes_of(&value)));
        assert_same(&again.expect("what was written is read"), &value.once_read());
    }
}

fn stands_any_bytes<T: Coded>(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut noise = [0; 64];
    for _ in 0..200_000 {
        let len = rng.below(noise.len() as u64) as usize;
        noise[..len].fill_with(|| rng.next_u64() as u8);
        // Half of them begin with a tag that exists, to come further than the first byte.
        if rng.coin() {
            noise[0] = 1 + rng.below(T::VARIANTS as u64) as u8;
        }
        makes_sense_or_is_refused::<T>(&noise[..len]);
    }
    for _ in 0..200 {
        for variant in 0..T::VARIANTS {
            let mut bytes = bytes_of(&T::variant(variant, &mut rng));
            for _ in 0..=rng.below(3) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            makes_sense_or_is_refused::<T>(&bytes);
        }
    }
}

macro_rules! for_all_types {
    ($($module:ident: $name:ty, $seed:literal;)+) => {$(
        mod $module {
            use super::*;

            #[test]
            fn survives_the_round_trip() {
                super::survives_the_round_trip::<$name>($seed);
            }

            #[test]
            fn is_refused_when_cut_short() {
                super::is_refused_when_cut_short::<$name>($seed);
            }

            #[test]
            fn stands_any_bytes() {
                super::stands_any_bytes::<$name>($seed);
            }
        }
    )+};
}
for_all_types! {
    change: Change, 0xbe11;
    outcome: Outcome, 0xbe12;
    result: Result<Outcome, Refusal>, 0xbe13;
    refusal: Refusal, 0xbe14;
    command: Command, 0xbe15;
    request: Request, 0xbe16;
}

#[test]
fn content_bytes_follow_their_change() {
    let change = Change::Content { id: ContentId(9), index: 0, len: 11 };
    let mut journal = bytes_of(&change);
    journal.extend_from_slice(&0xdead_beef_u32.to_le_bytes());
    journal.extend_from_slice(b"the content");

    let mut reader = Reader::new(&journal);
    assert_eq!(Change::decode(&mut reader), Ok(change));
    assert_eq!(reader.take(4), Ok(&0xdead_beef_u32.to_le_bytes()[..]));
    assert_eq!(reader.position(), journal.len() - b"the content".len());
    assert_eq!(reader.take(11), Ok(&b"the content"[..]));
    assert_eq!(reader.take(1).unwrap_err().to_string(), "expected more bytes at byte 18");
}

#[test]
fn a_length_beyond_the_bytes_is_refused_before_anything_is_allocated() {
    // Send, to "q", with 2^60 messages.
    let bytes = [7, 1, b'q', 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10, 0];
    let bad = Command::decode(&mut Reader::new(&bytes)).unwrap_err();
    assert_eq!(bad, BadBytes { expected: "a length within the bytes", offset: 3 });
}

#[test]
fn a_number_has_one_form_and_an_end() {
    let count = |bytes: &[u8]| Outcome::decode(&mut Reader::new(&[&[6], bytes].concat()));
    assert_eq!(count(&[0]), Ok(Outcome::Count(0)));
    assert_eq!(count(&[0x80, 1]), Ok(Outcome::Count(128)));
    let full = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    assert_eq!(count(&full), Ok(Outcome::Count(u64::MAX)));
    let bad = Err(BadBytes { expected: "a number", offset: 1 });
    assert_eq!(count(&[0x80, 0]), bad, "padded");
    assert_eq!(count(&[[0x80; 9].as_slice(), &[2]].concat()), bad, "65 bits");
    assert_eq!(count(&[0x80; 11]), bad, "endless");
}

#[test]
fn a_break_that_never_completes_stays_so() {
    let mut rng = Rng::new(2);
    let hold = lease::Hold::Broken { id: Random::random(&mut rng), until: BootTime::NEVER };
    let lease = Box::new(Lease { hold, ..Random::random(&mut rng) });
    let change = Change::Lease { name: Random::random(&mut rng), slot: 0, lease };
    let bytes = bytes_of(&change);
    assert_same(&Change::decode(&mut Reader::new(&bytes)).unwrap(), &change);
}
