//! Real encodings of everything that is decoded: what mutations begin with.

#[path = "../../bellwether-core/tests/codec/random.rs"]
mod random;
#[path = "../../bellwether-core/tests/codec/tables.rs"]
mod tables;

use bellwether::core::change::Change;
use bellwether::core::codec;
use bellwether::core::command::{Command, Request};
use bellwether::core::error::Refusal;
use bellwether::core::outcome::Outcome;
use bellwether::core::time::BootTime;
use bellwether::engine::{Call, Reply};
use bellwether::journal::file::fuzz as journal;
use bellwether::message::{self, Message, Overlay, Value};
use bellwether::wire::call::{put_answer, put_call};
use bellwether::wire::frame::put_frame;
use bellwether::wire::parts::put_parts;
use bellwether::wire::{Goodbye, Hello, Kind, MAGIC, Welcome, Why};
use bytes::Bytes;
use random::{Random, Rng};

/// How the names of inputs begin that failed once; they stay.
pub const FOUND: &str = "found-";

const NOW: BootTime = BootTime(1_000_000);

/// The seeds of a target, each with its name.
pub fn of(target: &str) -> Vec<(String, Vec<u8>)> {
    let seeds = match target {
        "change" => each(|value: &Change, out| codec::encode_change(value, NOW, out)),
        "replay" => replays(),
        "request" => requests(codec::encode_request),
        "outcome" => each(|value: &Outcome, out| codec::encode_outcome(value, NOW, out)),
        "refusal" => each(codec::encode_refusal),
        "content" => contents().iter().map(|message| message::encode(message).to_vec()).collect(),
        "overlay" => overlays().iter().map(|overlay| overlay.encode().to_vec()).collect(),
        "journal_frame" => vec![journal::seeds()[0].clone()],
        "journal_unit" => vec![journal::seeds()[1].clone()],
        "journal_snapshot" => vec![journal::seeds()[2].clone()],
        "wire_words" => words(),
        "wire_call" => requests(put_request),
        "wire_answer" => answers(),
        "wire_stream" => vec![stream()],
        texts => of_texts(texts).iter().map(|text| text.as_bytes().to_vec()).collect(),
    };
    let named = seeds.into_iter().enumerate();
    named.map(|(at, seed)| (format!("{at:03}"), seed)).collect()
}

/// One of every variant.
fn each<T: Random>(put: impl Fn(&T, &mut Vec<u8>)) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(1);
    let one = |variant| {
        let mut out = Vec::new();
        put(&T::variant(variant, &mut rng), &mut out);
        out
    };
    (0..T::VARIANTS).map(one).collect()
}

fn requests(put: impl Fn(&Request, &mut Vec<u8>)) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(2);
    let one = |variant| {
        let command = Command::variant(variant, &mut rng);
        let mut out = Vec::new();
        put(&Request { command, ..Request::random(&mut rng) }, &mut out);
        out
    };
    (0..Command::VARIANTS).map(one).collect()
}

/// A batch of changes, as a frame has it: a checksum and a content follow the change that names
/// them.
fn replays() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(3);
    let batch = |_| {
        let mut out = Vec::new();
        for _ in 0..8 {
            let mut change = Change::random(&mut rng);
            if let Change::Content { len, .. } = &mut change {
                *len %= 16;
            }
            codec::encode_change(&change, NOW, &mut out);
            if let Change::Content { len, .. } = change {
                out.extend(std::iter::repeat_n(7, 4 + len as usize));
            }
        }
        out
    };
    (0..16).map(batch).collect()
}

fn put_request(request: &Request, out: &mut Vec<u8>) {
    let contents = [Bytes::from_static(b"one"), Bytes::new()].into_iter().collect();
    put_call(&Call { request: request.clone(), contents }, out);
}

fn answers() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(4);
    let contents = vec![Ok(Bytes::from_static(b"one")), Err("gone".to_owned()), Ok(Bytes::new())];
    let done = |outcome| Ok(Reply { outcome, contents: contents.clone().into() });
    let outcomes = (0..Outcome::VARIANTS).map(|variant| Outcome::variant(variant, &mut rng));
    let mut answers: Vec<_> = outcomes.map(done).collect();
    answers.push(Err(Refusal::random(&mut rng).into()));
    answers.push(Err(bellwether::Error::Unknown("cut off".into())));
    answers.push(Err(bellwether::Error::Failed("out of order".into())));
    let bytes = |answer: &_| {
        let mut out = Vec::new();
        put_answer(answer, NOW, &mut out);
        out
    };
    answers.iter().map(bytes).collect()
}

fn words() -> Vec<Vec<u8>> {
    let mut out = [Vec::new(), Vec::new(), Vec::new()];
    let (name, credential) = ("a program".to_owned(), "a secret".to_owned());
    Hello { versions: (1, 2), name: name.clone(), credential, process: String::new() }
        .put(&mut out[0]);
    let (asks_max, bytes_max, silence_ms_max) = (100, 1 << 24, 30_000);
    Welcome { version: 1, name, asks_max, bytes_max, silence_ms_max }.put(&mut out[1]);
    Goodbye { why: Why::Limit, text: "too much".into() }.put(&mut out[2]);
    out.into()
}

/// A connection with a frame of every kind.
fn stream() -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for (kind, word) in [Kind::Hello, Kind::Welcome, Kind::Goodbye].into_iter().zip(words()) {
        put_frame(kind, &mut out, |out| out.extend_from_slice(&word));
    }
    put_parts(Kind::Ask, 1, &requests(put_request)[6], &mut out);
    put_frame(Kind::AskPart, &mut out, |out| out.extend_from_slice(&[2, 1, 0, 0]));
    put_frame(Kind::Ask, &mut out, |out| out.extend_from_slice(&[2, 9]));
    put_parts(Kind::Answer, 1, &answers()[0], &mut out);
    put_frame(Kind::AnswerPart, &mut out, |out| out.extend_from_slice(&[3, 1]));
    put_frame(Kind::Withdraw, &mut out, |out| out.extend_from_slice(&[1, 1]));
    put_frame(Kind::Ping, &mut out, |out| out.push(5));
    put_frame(Kind::Pong, &mut out, |out| out.push(5));
    out
}

fn values() -> Vec<Value> {
    vec![
        Value::Null,
        Value::Bool(true),
        Value::Ubyte(255),
        Value::Byte(-128),
        Value::Ushort(u16::MAX),
        Value::Short(i16::MIN),
        Value::Uint(u32::MAX),
        Value::Int(i32::MIN),
        Value::Ulong(u64::MAX),
        Value::Long(i64::MIN),
        Value::Float(f32::NAN),
        Value::Double(-0.0),
        Value::Char('ß'),
        Value::Timestamp(-1),
        Value::Uuid([7; 16]),
        Value::Binary(Bytes::from_static(b"\x00\xff")),
        Value::String("5".into()),
        Value::Symbol("amqp:x".into()),
    ]
}

fn contents() -> Vec<Message> {
    let mut full = Message::new("two coffees");
    let texts = [
        &mut full.id,
        &mut full.subject,
        &mut full.correlation_id,
        &mut full.to,
        &mut full.reply_to,
        &mut full.reply_to_session,
        &mut full.content_type,
    ];
    for text in texts {
        *text = Some("a text ä".into());
    }
    for (at, value) in values().into_iter().enumerate() {
        full.properties.insert(format!("key {at}"), value);
    }
    vec![Message::default(), Message::new("x").property("n", 1), full]
}

fn overlays() -> Vec<Overlay> {
    let mut full = Overlay::default().reason("unreadable").description("no such order");
    for (at, value) in values().into_iter().enumerate() {
        full.properties.insert(format!("key {at}"), Some(value));
    }
    vec![Overlay::default(), full.remove("hint")]
}

/// What people and programs write as text.
fn of_texts(target: &str) -> &'static [&'static str] {
    match target {
        "address" => &[
            "bellwether://127.0.0.1:7401",
            "bellwether://[::1]:7401/",
            "bellwether://queue.example",
            "bellwether+unix:./data/bellwether.sock",
            "bellwether+unix:///run/bellwether.sock",
        ],
        "journal_name" => &[
            "0000000000000001.log",
            "00000000000000ff.snapshot",
            "0000000000000002.zero",
            "0000000000000003.spare",
            "cut-0000000000000001-00001000.bin",
            "0000000000000001.snapshot.tmp",
        ],
        "times" => &[
            "2020-02-29T00:00:00.123Z",
            "1970-01-01T01:00:00+01:00",
            "1969-12-31t23:30:00.123456789-00:30",
            "9999-12-31T23:59:60.999Z",
            "0001-01-01T00:00:00Z",
        ],
        "ids" => &[
            "0102030405060708090a0b0c0d0e0f10",
            "01020304-0506-0708-090a-0b0c0d0e0f10",
            "0000000300000009",
        ],
        "properties" => &[
            "null",
            "true",
            "\"text\"",
            "-9007199254740991",
            "18446744073709551615",
            "1.5e300",
            "{\"type\":\"ubyte\",\"value\":7}",
            "{\"type\":\"float\",\"value\":\"0x7fc00001\"}",
            "{\"type\":\"float\",\"value\":\"bits:7fc00001\"}",
            "{\"type\":\"double\",\"value\":\"-Infinity\"}",
            "{\"type\":\"double\",\"value\":1e308}",
            "{\"type\":\"double\",\"value\":\"-0.0\"}",
            "{\"type\":\"long\",\"value\":\"-9223372036854775808\"}",
            "{\"type\":\"char\",\"value\":\"ß\"}",
            "{\"type\":\"timestamp\",\"value\":\"2020-02-29T00:00:00.123Z\"}",
            "{\"type\":\"timestamp\",\"value\":-1}",
            "{\"type\":\"uuid\",\"value\":\"01020304-0506-0708-090a-0b0c0d0e0f10\"}",
            "{\"type\":\"binary\",\"value\":\"AP8=\"}",
            "{\"type\":\"symbol\",\"value\":\"amqp:x\"}",
        ],
        "messages" => &[
            "{}",
            "{\"id\":\"1\",\"session\":\"s\",\"subject\":\"x\",\"body\":{\"a\":[1,2.50]},\
             \"ttl_ms\":5,\"scheduled_at\":\"2026-01-31T09:30:00.000Z\",\"properties\":{\"n\":1}}",
            "{\"text\":\"two coffees\",\"content_type\":\"text/plain\"}",
            "{\"base64\":\"AP8=\",\"body_kind\":\"value\"}",
        ],
        "cloud_event" => &[
            "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/a\",\"type\":\"t\"}",
            "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/a\",\"type\":\"t\",\"n\":7,\
             \"yes\":true,\"datacontenttype\":\"text/plain\",\"data\":\"two\\u0020coffees\"}",
            "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/a\",\"type\":\"t\",\"subject\":\
             \"s\",\"time\":\"2026-01-31T09:30:00Z\",\"data\":{\"a\":[1]},\"empty\":null}",
            "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/a\",\"type\":\"t\",\
             \"data_base64\":\"AP8=\"}",
        ],
        "headers" => &[
            "content-type: text/plain\nbellwether-id: 1%20a\nbellwether-ttl-ms: 5\n\
             bellwether-scheduled-at: 2026-01-31T09:30:00Z\n\nbody",
            "bellwether-properties: {\"n\":{\"type\":\"int\",\"value\":7}}\naccept: \
             application/octet-stream;q=1, */*\n\n",
            "ce-specversion: 1.0\nce-id: 1\nce-source: /a\nce-type: t\nce-x: %C3%A4\n\n{}",
        ],
        "config" => &[
            "http = \"127.0.0.1:7400\"\nhttp_hosts = [\"a.example\", \"b.example\"]\nmemory = true\n",
            "# a comment\nstop_ms_max = 1_000\nlog = \"json\"\nunix_socket = \"none\"\n",
            "data = '/var/lib/x'\nwire = \"[::1]:0\"\nmetrics_names_max = 0x10\n",
        ],
        "exports" => &[
            "{\"message\":{\"queue\":\"orders\",\"sequence\":1,\"enqueued_at\":\
             \"2026-01-31T09:30:00.000Z\",\"state\":\"ready\",\"deliveries\":1,\"text\":\"two\"}}",
            "{\"message\":{\"queue\":\"orders\",\"sequence\":2,\"enqueued_at\":\
             \"2026-01-31T09:30:00.000Z\",\"expires_at\":\"2027-01-31T09:30:00.000Z\",\"state\":\
             \"scheduled\",\"due\":\"2026-02-01T00:00:00.000Z\",\"dead_letter\":true,\"reason\":\
             {\"cause\":\"receiver\",\"reason\":\"r\",\"description\":\"d\"},\"id\":\"1\",\
             \"properties\":{\"n\":{\"type\":\"int\",\"value\":7},\"d\":{\"type\":\"double\",\
             \"value\":\"bits:7ff8000000000001\"}},\"base64\":\"AP8=\"}}",
            "{\"queue\":{\"name\":\"orders\"},\"settings\":{\"lock_ms\":60000,\"status\":\
             \"active\",\"durability\":\"flushed\",\"ttl_ms\":null,\"forward_to\":\"b\"}}",
        ],
        "words" => &[
            "2h30m",
            "500ms",
            "80GiB",
            "64kB",
            "+5m",
            "5m ago",
            "2026-01-31 09:00",
            "2026-01-31T10:30:00+01:30",
            "urn:x:int=5",
            "a=b=c",
            "t:timestamp=2026-01-31",
            "u:uuid=01020304-0506-0708-090a-0b0c0d0e0f10",
        ],
        other => panic!("the target {other:?} has no seeds"),
    }
}
