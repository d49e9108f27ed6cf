//! Frames, parts, words and calls: there and back, cut anywhere, and with bytes turned.

use bellwether_core::command::{Command, Request};
use bellwether_core::error::Refusal;
use bellwether_core::few::Few;
use bellwether_core::message::NewMessage;
use bellwether_core::name::{MemberSlot, QueueName, RequestNumber, SequenceNumber};
use bellwether_core::outcome::{Outcome, Sequences};
use bellwether_core::time::BootTime;
use bytes::{Bytes, BytesMut};

use super::call::{get_answer, get_call, put_answer, put_call, put_withdrawn};
use super::frame::{put_frame, take_frame, take_magic};
use super::parts::{Parts, put_parts};
use super::*;
use crate::engine::{Call, Reply};
use crate::error::Error;

fn call(contents: &[&[u8]]) -> Call {
    let message = |content: &&[u8]| NewMessage {
        content_bytes: content.len() as u32,
        ..NewMessage::default()
    };
    let queue = QueueName::new("orders").unwrap();
    let messages = contents.iter().map(message).collect();
    let request = Request {
        member: MemberSlot(3),
        number: RequestNumber(17),
        answered_below: RequestNumber(16),
        command: Command::Send { queue, messages },
        fence: None,
    };
    let contents = contents.iter().map(|content| Bytes::copy_from_slice(content)).collect();
    Call { request, contents }
}

fn answers() -> Vec<Result<Reply, Error>> {
    let sent = Outcome::Sent(Sequences::Run { first: SequenceNumber(7), count: 2 });
    let contents =
        vec![Ok(Bytes::from_static(b"one")), Err("gone".to_owned()), Ok(Bytes::from(vec![7; 300]))];
    vec![
        Ok(Reply { outcome: sent, contents: contents.into() }),
        Ok(Reply { outcome: Outcome::Done, contents: Few::default() }),
        Err(Refusal::Busy { retry_after_ms: 100 }.into()),
        Err(Error::Unknown("cut off".into())),
        Err(Error::Failed("out of order".into())),
    ]
}

/// A stream with a frame of every kind, and a call and an answer that travel in parts.
fn stream() -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let hello = Hello {
        versions: (1, 2),
        name: "a test".into(),
        credential: String::new(),
        process: String::new(),
    };
    put_frame(Kind::Hello, &mut out, |out| hello.put(out));
    let welcome = Welcome {
        version: 1,
        name: "a server".into(),
        asks_max: 1000,
        bytes_max: 1 << 24,
        silence_ms_max: 30_000,
    };
    put_frame(Kind::Welcome, &mut out, |out| welcome.put(out));
    let mut whole = Vec::new();
    put_call(&call(&[b"short", &vec![9; 150_000]]), &mut whole);
    put_parts(Kind::Ask, 1, &whole, &mut out);
    put_frame(Kind::Withdraw, &mut out, |out| out.push(1));
    for answer in answers() {
        whole.clear();
        put_answer(&answer, BootTime(0), &mut whole);
        put_parts(Kind::Answer, 1, &whole, &mut out);
    }
    put_frame(Kind::Ping, &mut out, |out| out.push(5));
    put_frame(Kind::Pong, &mut out, |out| out.push(5));
    let goodbye = Goodbye { why: Why::Done, text: "that was all".into() };
    put_frame(Kind::Goodbye, &mut out, |out| goodbye.put(out));
    out
}

/// Reads a whole stream as either side would, in pieces of `step` bytes.
fn read(stream: &[u8], step: usize) -> Result<Vec<Kind>, WireError> {
    let (mut asks, mut answers) = (Parts::new(1 << 20), Parts::new(1 << 20));
    let (mut buffer, mut kinds, mut is_open) = (BytesMut::new(), Vec::new(), false);
    for piece in stream.chunks(step) {
        buffer.extend_from_slice(piece);
        is_open = is_open || take_magic(&mut buffer)?;
        while is_open && let Some(frame) = take_frame(&mut buffer)? {
            kinds.push(frame.kind);
            match frame.kind {
                Kind::Hello => drop(Hello::get(&frame.body)?),
                Kind::Welcome => drop(Welcome::get(&frame.body)?),
                Kind::Goodbye => drop(Goodbye::get(&frame.body)?),
                Kind::Ask | Kind::AskPart => {
                    if let Some((_, whole)) = asks.take(frame)? {
                        get_call(&whole)?;
                    }
                }
                Kind::Answer | Kind::AnswerPart => {
                    if let Some((_, whole)) = answers.take(frame)? {
                        let _answer = get_answer(&whole, BootTime(0))?;
                    }
                }
                Kind::Withdraw | Kind::Ping | Kind::Pong => {}
            }
        }
    }
    Ok(kinds)
}

#[test]
fn a_stream_reads_the_same_wherever_it_is_cut() {
    let stream = stream();
    let whole = read(&stream, stream.len()).unwrap();
    assert_eq!(whole.iter().filter(|kind| **kind == Kind::AskPart).count(), 2);
    assert_eq!(whole.last(), Some(&Kind::Goodbye));
    for step in [1, 3, 7, 4096, 65_537] {
        assert_eq!(read(&stream, step).unwrap(), whole);
    }
}

#[test]
fn calls_and_answers_come_back_as_they_were() {
    let long = vec![1; 70_000];
    for contents in [vec![], vec![b"one".as_slice()], vec![b"", &long, b"three"]] {
        let (sent, mut whole) = (call(&contents), Vec::new());
        put_call(&sent, &mut whole);
        let came = get_call(&whole).unwrap();
        assert_eq!((came.request, came.contents), (sent.request, sent.contents));
    }
    for answer in answers() {
        let mut whole = Vec::new();
        put_answer(&answer, BootTime(0), &mut whole);
        let came = get_answer(&whole.into(), BootTime(0)).unwrap().expect("it was not withdrawn");
        assert_eq!(format!("{came:?}"), format!("{answer:?}"));
    }
    let mut whole = Vec::new();
    put_withdrawn(&mut whole);
    assert!(get_answer(&whole.into(), BootTime(0)).unwrap().is_none());
}

#[test]
fn parts_of_several_asks_may_be_mixed() {
    let [one, two] = [vec![1; 100_000], vec![2; 100_000]];
    let frames = |ask, whole: &[u8]| {
        let mut out = Vec::new();
        put_parts(Kind::Ask, ask, whole, &mut out);
        let mut out = BytesMut::from(&out[..]);
        std::iter::from_fn(|| take_frame(&mut out).unwrap()).collect::<Vec<_>>()
    };
    let mut parts = Parts::new(1 << 20);
    let mixed = frames(1, &one).into_iter().zip(frames(2, &two));
    let whole: Vec<_> =
        mixed.flat_map(|(a, b)| [a, b]).filter_map(|frame| parts.take(frame).unwrap()).collect();
    assert_eq!(whole, [(1, Bytes::from(one)), (2, Bytes::from(two))]);
}

#[test]
fn what_must_not_be_sent_is_refused_before_it_is_waited_for() {
    let refused = |bytes: &[u8]| take_frame(&mut BytesMut::from(bytes)).unwrap_err();
    let max = FRAME_BYTES_MAX;
    assert_eq!(refused(&[0xff; 4]), WireError::TooLong { len: u32::MAX, max });
    assert_eq!(refused(&[0, 0, 0, 0]), WireError::Kind(0));
    assert_eq!(refused(&[9, 0, 0, 0, 99]), WireError::Kind(99));
    assert_eq!(take_magic(&mut BytesMut::from("GET / HTTP")), Err(WireError::Magic));
    let mut parts = Parts::new(200);
    let part = |body: &[u8]| Frame { kind: Kind::AskPart, body: Bytes::copy_from_slice(body) };
    assert_eq!(parts.take(part(&[1; 100])), Ok(None));
    assert_eq!(parts.take(part(&[1; 30])), Ok(None));
    // A part of nothing takes room as well.
    assert_eq!(parts.take(part(&[2])), Err(WireError::Parts { max: 200 }));
}

#[test]
fn the_newest_common_version_is_spoken() {
    let common = |oldest, newest| {
        let name = String::new();
        Hello { versions: (oldest, newest), credential: name.clone(), name, process: String::new() }
            .common_version()
    };
    assert_eq!(common(1, 1), Some(1));
    assert_eq!(common(1, 9), Some(VERSION));
    assert_eq!(common(VERSION + 1, 9), None);
    assert_eq!(common(0, 0), None);
}

/// A decoder believes nothing: whatever the bytes, it reads them or says what is wrong.
#[test]
fn turned_bytes_are_read_or_refused() {
    let (stream, mut random) = (stream(), 0x9e37_79b9_7f4a_7c15_u64);
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let mut refused = 0;
    for _ in 0..2_000 {
        let mut turned = stream.clone();
        for _ in 0..=next(4) {
            // Bodies are opaque: what is worth turning lies at the front and at the end.
            let place = if next(2) == 0 { next(200) } else { turned.len() - 1 - next(600) };
            turned[place] = next(256) as u8;
        }
        refused += usize::from(read(&turned, 65_536).is_err());
    }
    assert!(refused > 500, "{refused} of 2,000 were refused");
}
