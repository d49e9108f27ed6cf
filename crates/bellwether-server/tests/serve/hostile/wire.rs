//! Over the wire.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use bellwether::core::command::{Command, Request};
use bellwether::core::few::Few;
use bellwether::core::name::{MemberSlot, QueueName, QueuePath, RequestNumber, SequenceNumber};
use bellwether::engine::Call;
use bellwether::wire::call::put_call;
use bellwether::wire::frame::{put_frame, take_frame, take_magic};
use bellwether::wire::parts::put_parts;
use bellwether::wire::{Frame, Goodbye, Hello, Kind, MAGIC, VERSION, Why};
use bytes::BytesMut;

use super::{QUICK, counted, counted_to, dribble, noise};
use crate::server::{Server, status};

pub(super) fn hello(name_bytes: usize) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let (name, credential) = ("x".repeat(name_bytes), String::new());
    let hello = Hello { versions: (VERSION, VERSION), name, credential, process: String::new() };
    put_frame(Kind::Hello, &mut out, |out| hello.put(out));
    out
}

/// Frames up to the end of the connection.
fn heard(stream: &mut TcpStream) -> Vec<Frame> {
    let (mut bytes, mut buffer) = (BytesMut::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
    }
    assert!(take_magic(&mut bytes).unwrap());
    std::iter::from_fn(|| take_frame(&mut bytes).unwrap()).collect()
}

fn sent_away(stream: &mut TcpStream) -> Why {
    let last = heard(stream).pop().expect("a last word");
    assert_eq!(last.kind, Kind::Goodbye);
    Goodbye::get(&last.body).unwrap().why
}

pub(super) fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.wire()).unwrap()
}

/// A connection on which hello was said and answered.
pub(super) fn greeted(server: &Server) -> TcpStream {
    let mut stream = connect(server);
    stream.write_all(&hello(10)).unwrap();
    stream.read_exact(&mut [0; MAGIC.len()]).unwrap();
    assert_eq!(heard_next(&mut stream).kind, Kind::Welcome);
    stream
}

/// The next frame.
pub(super) fn heard_next(stream: &mut TcpStream) -> Frame {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut bytes).unwrap();
    let mut frame = BytesMut::from(&[&length[..], &bytes].concat()[..]);
    take_frame(&mut frame).unwrap().unwrap()
}

fn dropped(reason: &str) -> String {
    format!("bellwether_wire_connections_dropped_total{{reason=\"{reason}\"}}")
}

fn is_well(server: &Server) {
    let mut guest = connect(server);
    guest.write_all(&hello(10)).unwrap();
    put_goodbye(&mut guest);
    assert_eq!(heard(&mut guest)[0].kind, Kind::Welcome);
}

fn put_goodbye(stream: &mut TcpStream) {
    let mut out = Vec::new();
    let goodbye = Goodbye { why: Why::Done, text: String::new() };
    put_frame(Kind::Goodbye, &mut out, |out| goodbye.put(out));
    stream.write_all(&out).unwrap();
}

#[test]
fn who_does_not_say_hello_is_sent_away() {
    let server = Server::start(&["--memory", "--wire-hello-ms-max", "100"]);
    assert_eq!(sent_away(&mut connect(&server)), Why::Limit);
    let mut slow = connect(&server);
    slow.write_all(&hello(200)[..100]).unwrap();
    assert_eq!(sent_away(&mut slow), Why::Limit);
    let mut slow = connect(&server);
    slow.write_all(MAGIC).unwrap();
    slow.write_all(&[0, 1, 0, 0, Kind::Hello as u8, 1]).unwrap();
    dribble(&mut slow, &[1]);
    assert_eq!(counted_to(&server, &dropped("hello"), 3), 3);
    is_well(&server);
    server.stop();
}

#[test]
fn a_hello_is_short() {
    let server = Server::start(&["--memory"]);
    let mut long = connect(&server);
    // Not even all of it has to come.
    long.write_all(&hello(4100)[..20]).unwrap();
    assert_eq!(sent_away(&mut long), Why::Protocol);
    assert_eq!(counted(&server, &dropped("protocol")), 1);
    let mut just = connect(&server);
    just.write_all(&hello(4000)).unwrap();
    put_goodbye(&mut just);
    assert_eq!(heard(&mut just)[0].kind, Kind::Welcome);
    server.stop();
}

#[test]
fn a_frame_that_comes_byte_by_byte_is_not_waited_for() {
    let server = Server::start(&QUICK);
    let mut slow = connect(&server);
    slow.write_all(&hello(10)).unwrap();
    slow.write_all(&[0, 0, 1, 0, Kind::Ask as u8]).unwrap();
    assert_eq!(sent_away(&mut slow), Why::Limit);
    let mut slow = connect(&server);
    slow.write_all(&hello(10)).unwrap();
    slow.write_all(&[0, 0, 1, 0, Kind::AskPart as u8]).unwrap();
    dribble(&mut slow, &[1]);
    assert_eq!(counted_to(&server, &dropped("frame"), 2), 2);
    is_well(&server);
    server.stop();
}

#[test]
fn a_silent_connection_whose_frames_are_whole_is_only_bound_by_silence() {
    let server = Server::start(&[&QUICK[..], &["--wire-silence-ms-max", "1000"]].concat());
    let mut calm = connect(&server);
    calm.write_all(&hello(10)).unwrap();
    let last = heard(&mut calm).pop().unwrap();
    assert_eq!(last.kind, Kind::Welcome, "it is dropped without a word");
    assert_eq!(counted(&server, &dropped("silence")), 1);
    server.stop();
}

/// An ask for what is in the queue, which changes nothing.
fn peek(number: u64) -> Vec<u8> {
    let from = QueuePath::main(QueueName::new("orders").unwrap());
    let command = Command::Peek { from, sequence: SequenceNumber(0), max: 100, session: None };
    let (member, zero) = (MemberSlot(0), RequestNumber(0));
    let request = Request { member, number: zero, answered_below: zero, command, fence: None };
    let (mut whole, mut out) = (Vec::new(), Vec::new());
    put_call(&Call { request, contents: Few::default() }, &mut whole);
    put_parts(Kind::Ask, number, &whole, &mut out);
    out
}

#[test]
fn who_does_not_read_its_answers_is_dropped_and_others_are_served() {
    let server = Server::start(&QUICK);
    server.make_queue();
    let body = format!("{{\"body\":\"{}\"}}", "x".repeat(1 << 20));
    assert_eq!(status(&server.post("/v1/queues/orders/messages", &body)), 201);
    let mut deaf = connect(&server);
    deaf.write_all(&hello(10)).unwrap();
    for number in 1..=100 {
        deaf.write_all(&peek(number)).unwrap();
    }
    is_well(&server);
    assert_eq!(counted(&server, &dropped("reader")), 1);
    drop(deaf);
    server.stop();
}

#[test]
fn lies_noise_and_halves_end_what_they_are_on() {
    let server = Server::start(&["--memory"]);
    let greeted = hello(10);
    let with = |more: &[u8]| [&greeted, more].concat();
    let lies = [
        with(&[0xff; 4]),
        with(&[1, 0, 1, 0, Kind::Ask as u8]),
        with(&[0, 0, 0, 0]),
        with(&[2, 0, 0, 0, 0, 0]),
        with(&[2, 0, 0, 0, 99, 0]),
        // A number that never ends.
        with(&[&[12, 0, 0, 0, Kind::Ask as u8][..], &[0xff; 11]].concat()),
        with(&[2, 0, 0, 0, Kind::Welcome as u8, 0]),
        with(&[2, 0, 0, 0, Kind::Withdraw as u8, 0x80]),
    ];
    for lie in lies {
        let mut liar = connect(&server);
        liar.write_all(&lie).unwrap();
        assert_eq!(sent_away(&mut liar), Why::Protocol, "{lie:?}");
    }
    for seed in 0..50 {
        for front in [&b""[..], MAGIC, &greeted] {
            let mut loud = connect(&server);
            let _ = loud.write_all(&[front, &noise(5000, seed)].concat());
            let _ = loud.shutdown(Shutdown::Write);
            heard_at_all(&mut loud);
        }
    }
    for len in [0, 3, 8, 11, greeted.len() - 1, greeted.len()] {
        let mut gone = connect(&server);
        gone.write_all(&greeted[..len]).unwrap();
        gone.shutdown(Shutdown::Write).unwrap();
        heard_at_all(&mut gone);
    }
    is_well(&server);
    server.stop();
}

/// A reset could take the last words with it.
#[test]
fn who_sends_on_when_it_is_sent_away_is_not_reset() {
    let server = Server::start(&["--memory"]);
    let mut loud = connect(&server);
    let lie = [2, 0, 0, 0, 99, 0];
    loud.write_all(&[&hello(10)[..], &lie, &noise(1 << 20, 7)].concat()).unwrap();
    loud.shutdown(Shutdown::Write).unwrap();
    let mut bytes = Vec::new();
    loud.read_to_end(&mut bytes).expect("an end, not a reset");
    let mut bytes = BytesMut::from(&bytes[..]);
    assert!(take_magic(&mut bytes).unwrap());
    assert_eq!(take_frame(&mut bytes).unwrap().unwrap().kind, Kind::Welcome);
    assert_eq!(take_frame(&mut bytes).unwrap().unwrap().kind, Kind::Goodbye);
    server.stop();
}

/// Waits for the end of the connection.
fn heard_at_all(stream: &mut TcpStream) {
    while let Ok(1..) = stream.read(&mut [0; 4096]) {}
}

#[test]
fn a_flood_of_asks_is_answered_or_sent_away_at_the_limit() {
    let server = Server::start(&["--memory", "--wire-asks-max", "100"]);
    server.make_queue();
    let mut eager = connect(&server);
    let asks: Vec<u8> = (1..=5000).flat_map(peek).collect();
    let mut writer = eager.try_clone().unwrap();
    let flood = std::thread::spawn(move || {
        let _ = writer.write_all(&[hello(10), asks].concat());
        let _ = writer.shutdown(Shutdown::Write);
    });
    let answers = heard(&mut eager);
    flood.join().unwrap();
    assert_eq!(answers[0].kind, Kind::Welcome);
    assert!(answers.len() > 1);
    is_well(&server);
    server.stop();
}
