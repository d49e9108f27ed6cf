//! The targets. Those whose decoders are private stand beside them, and are only named here.

use std::fmt::Debug;

use bellwether::core::codec::{self, BadBytes, Reader};
use bellwether::core::time::BootTime;
use bellwether::engine::fuzz as engine;
use bellwether::journal::file::fuzz as journal;
use bellwether::message::{self, Overlay};
use bellwether::wire::call::{get_answer, get_call, put_answer, put_call};
use bellwether::wire::frame::{put_frame, take_frame, take_magic};
use bellwether::wire::parts::{Parts, put_parts};
use bellwether::wire::{Goodbye, Hello, Kind, Welcome, WireError};
use bellwether_server::fuzz as server;
use bytes::{Bytes, BytesMut};

use crate::Target;

/// Every target there is.
pub const TARGETS: &[Target] = &[
    Target { name: "change", run: change },
    Target { name: "request", run: request },
    Target { name: "outcome", run: outcome },
    Target { name: "refusal", run: refusal },
    Target { name: "content", run: content },
    Target { name: "overlay", run: overlay },
    Target { name: "replay", run: engine::replay },
    Target { name: "address", run: engine::address },
    Target { name: "journal_frame", run: journal::frame },
    Target { name: "journal_unit", run: journal::unit_header },
    Target { name: "journal_snapshot", run: journal::snapshot },
    Target { name: "journal_name", run: journal::name },
    Target { name: "wire_words", run: wire_words },
    Target { name: "wire_call", run: wire_call },
    Target { name: "wire_answer", run: wire_answer },
    Target { name: "wire_stream", run: wire_stream },
    Target { name: "times", run: server::times },
    Target { name: "ids", run: server::ids },
    Target { name: "properties", run: server::properties },
    Target { name: "messages", run: server::messages },
    Target { name: "cloud_event", run: server::cloud_event },
    Target { name: "headers", run: server::headers },
    Target { name: "config", run: server::config },
    Target { name: "exports", run: server::exports },
    Target { name: "words", run: server::words },
];

/// Boot times are never written: whoever reads says what time it is.
const NOW: BootTime = BootTime(1_000_000);

/// What was read is read again as it is written.
fn there_and_back<T: Debug + PartialEq>(
    bytes: &[u8],
    get: impl Fn(&mut Reader<'_>) -> Result<T, BadBytes>,
    put: impl Fn(&T, &mut Vec<u8>),
) {
    let mut reader = Reader::new(bytes);
    let Ok(value) = get(&mut reader) else { return };
    let mut out = Vec::new();
    put(&value, &mut out);
    let mut reader = Reader::new(&out);
    let again = get(&mut reader).expect("what was written is read");
    assert_eq!(reader.remaining(), 0, "all that was written is read");
    assert_eq!(again, value);
}

fn change(bytes: &[u8]) {
    let get = |r: &mut Reader<'_>| codec::decode_change(r, NOW);
    there_and_back(bytes, get, |value, out| codec::encode_change(value, NOW, out));
}

fn request(bytes: &[u8]) {
    there_and_back(bytes, codec::decode_request, codec::encode_request);
}

fn outcome(bytes: &[u8]) {
    let get = |r: &mut Reader<'_>| codec::decode_outcome(r, NOW);
    there_and_back(bytes, get, |value, out| codec::encode_outcome(value, NOW, out));
}

fn refusal(bytes: &[u8]) {
    there_and_back(bytes, codec::decode_refusal, codec::encode_refusal);
}

fn content(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok(message) = message::decode(bytes.clone()) {
        assert_eq!(message::encode(&message), bytes, "one message has one form");
    }
}

fn overlay(bytes: &[u8]) {
    if let Ok(overlay) = Overlay::decode(bytes) {
        assert_eq!(overlay.encode(), bytes, "one overlay has one form");
    }
}

/// The first and the last words. A later version may append fields: only what is known comes back.
fn wire_words(bytes: &[u8]) {
    fn words<T: Debug + PartialEq>(
        bytes: &[u8],
        get: impl Fn(&[u8]) -> Result<T, WireError>,
        put: impl Fn(&T, &mut Vec<u8>),
    ) {
        let Ok(word) = get(bytes) else { return };
        let mut out = Vec::new();
        put(&word, &mut out);
        assert_eq!(get(&out).as_ref(), Ok(&word));
        assert!(bytes.starts_with(&out), "one word has one form");
    }
    words(bytes, Hello::get, Hello::put);
    words(bytes, Welcome::get, Welcome::put);
    words(bytes, Goodbye::get, Goodbye::put);
}

fn wire_call(bytes: &[u8]) {
    let Ok(call) = get_call(bytes) else { return };
    let mut out = Vec::new();
    put_call(&call, &mut out);
    let again = get_call(&out).expect("what was written is read");
    assert_eq!((again.request, again.contents), (call.request, call.contents));
}

fn wire_answer(bytes: &[u8]) {
    let Ok(Some(answer)) = get_answer(&Bytes::copy_from_slice(bytes), NOW) else { return };
    let mut out = Vec::new();
    put_answer(&answer, NOW, &mut out);
    let again = get_answer(&out.into(), NOW).expect("what was written is read");
    assert_eq!(format!("{again:?}"), format!("{:?}", Some(answer)));
}

/// A whole connection, from the magic on, read at once and in pieces.
fn wire_stream(bytes: &[u8]) {
    let whole = read_stream(bytes, bytes.len().max(1));
    assert_eq!(read_stream(bytes, 7), whole, "it does not matter where a stream is cut");
    let mut again = Vec::new();
    for (kind, body) in &whole.0 {
        put_frame(*kind, &mut again, |out| out.extend_from_slice(body));
    }
    let magic = bellwether::wire::MAGIC.len();
    assert!(whole.0.is_empty() || bytes[magic..].starts_with(&again), "one frame has one form");
}

/// The frames of a stream, and what ended it.
type Heard = (Vec<(Kind, Bytes)>, Option<WireError>);

fn read_stream(bytes: &[u8], step: usize) -> Heard {
    let mut heard = (Vec::new(), None);
    heard.1 = read_frames(bytes, step, &mut heard.0).err();
    heard
}

fn read_frames(
    bytes: &[u8],
    step: usize,
    frames: &mut Vec<(Kind, Bytes)>,
) -> Result<(), WireError> {
    const PARTS_BYTES_MAX: usize = 4096;
    let (mut read, mut is_open) = (BytesMut::new(), false);
    let mut parts = Parts::new(PARTS_BYTES_MAX);
    for piece in bytes.chunks(step) {
        read.extend_from_slice(piece);
        is_open = is_open || take_magic(&mut read)?;
        while is_open && let Some(frame) = take_frame(&mut read)? {
            frames.push((frame.kind, frame.body.clone()));
            if matches!(frame.kind, Kind::Ask | Kind::AskPart | Kind::Answer | Kind::AnswerPart)
                && let Some((number, whole)) = parts.take(frame)?
            {
                let mut out = Vec::new();
                put_parts(Kind::Ask, number, &whole, &mut out);
                let mut out = BytesMut::from(&out[..]);
                let mut again = Parts::new(usize::MAX);
                let taken = std::iter::from_fn(|| take_frame(&mut out).unwrap());
                let taken: Vec<_> = taken.filter_map(|frame| again.take(frame).unwrap()).collect();
                assert_eq!(taken, [(number, whole)]);
            }
        }
    }
    Ok(())
}
