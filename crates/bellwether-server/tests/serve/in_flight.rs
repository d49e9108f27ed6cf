//! What was asked over the wire when the server is told to stop.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bellwether::core::command::{Command, Request};
use bellwether::core::few::Few;
use bellwether::core::message::NewMessage;
use bellwether::core::name::{
    LeaseName, MemberSlot, QueueName, QueuePath, RequestNumber, SequenceNumber,
};
use bellwether::core::outcome::Outcome;
use bellwether::core::time::BootTime;
use bellwether::engine::{Call, Reply};
use bellwether::wire::call::{get_answer, put_call};
use bellwether::wire::frame::{put_frame, take_frame, take_magic};
use bellwether::wire::parts::{Parts, put_parts};
use bellwether::wire::{Goodbye, Hello, Kind, MAGIC, VERSION, Why};
use bellwether::{Bellwether, Message, QueueSettings};
use bytes::{Bytes, BytesMut};
use rustix::process::Signal;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::server::{Folder, Server, status};

/// The longest a call may wait.
const LONG_MS: u64 = 3_600_000;

/// Nobody's ask, in frames.
fn ask(number: u64, command: Command, contents: Few<Bytes>) -> Vec<u8> {
    let (member, none) = (MemberSlot(0), RequestNumber(0));
    let request = Request { member, number: none, answered_below: none, command, fence: None };
    let (mut whole, mut out) = (Vec::new(), Vec::new());
    put_call(&Call { request, contents }, &mut whole);
    put_parts(Kind::Ask, number, &whole, &mut out);
    out
}

/// A hello; ask 1, whose answer is longer than what lies between two processes; ask 2, which changes
/// something; ask 3, which waits.
fn three_asks() -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let (name, credential) = ("a test".to_owned(), String::new());
    let hello = Hello { versions: (VERSION, VERSION), name, credential, process: String::new() };
    put_frame(Kind::Hello, &mut out, |out| hello.put(out));
    let queue = QueueName::new("orders").unwrap();
    let (from, sequence) = (QueuePath::main(queue.clone()), SequenceNumber(0));
    let peek = Command::Peek { from, sequence, max: 100, session: None };
    out.extend(ask(1, peek, Few::default()));
    let content = Bytes::from_static(b"\x01\xf0two coffees");
    let content_bytes = content.len() as u32;
    let messages = Few::One(NewMessage { content_bytes, ..NewMessage::default() });
    out.extend(ask(2, Command::Send { queue, messages }, Few::One(content)));
    let lease = LeaseName::new("nobody asks for it").unwrap();
    let watch = Command::WatchLease { lease, seen: 0, wait_ms: LONG_MS };
    out.extend(ask(3, watch, Few::default()));
    out
}

#[test]
fn what_was_asked_over_the_wire_is_answered_before_the_server_ends() {
    let folder = Folder::new();
    let mut server = Server::in_folder(&folder.0);
    server.make_queue();
    let body = format!("{{\"body\":\"{}\"}}", "x".repeat(1 << 20));
    for _ in 0..15 {
        assert_eq!(status(&server.post("/v1/queues/orders/messages", &body)), 201);
    }
    let mut stream = TcpStream::connect(server.wire()).unwrap();
    stream.write_all(&three_asks()).unwrap();
    // With the first answer's first bytes all three were read: they came together.
    let mut front = [0; 64];
    stream.read_exact(&mut front).unwrap();
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    while TcpStream::connect(server.address).is_ok() {}
    let mut bytes = BytesMut::from(&front[..]);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    bytes.extend_from_slice(&rest);
    assert!(take_magic(&mut bytes).unwrap());
    let mut parts = Parts::new(64 << 20);
    let (mut answers, mut last) = (Vec::new(), None);
    while let Some(frame) = take_frame(&mut bytes).unwrap() {
        match frame.kind {
            Kind::Welcome => {}
            Kind::Goodbye => last = Some(Goodbye::get(&frame.body).unwrap().why),
            _ => answers.extend(parts.take(frame).unwrap()),
        }
    }
    assert_eq!(last, Some(Why::Closing));
    answers.sort_by_key(|(number, _)| *number);
    assert_eq!(answers.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3]);
    let mut outcomes = answers.iter().map(|(_, whole)| get_answer(whole, BootTime(0)).unwrap());
    let Some(Some(Ok(Reply { outcome: Outcome::Peeked(seen), .. }))) = outcomes.next() else {
        panic!("the first was answered otherwise");
    };
    assert_eq!(seen.len(), 15);
    let sent = outcomes.next();
    assert!(matches!(sent, Some(Some(Ok(Reply { outcome: Outcome::Sent(_), .. })))), "{sent:?}");
    assert!(matches!(outcomes.next(), Some(None)), "whoever waits is told to come again");
    assert_eq!(server.wait().code(), Some(0));
    let server = Server::in_folder(&folder.0);
    let queue = server.get("/v1/queues/orders", "host: localhost\r\n");
    assert!(queue.contains("\"ready\":16,"), "{queue}");
    server.stop();
}

/// Sends until it is told to stop; how many were acknowledged.
async fn send_on(bw: Bellwether, sender: u64, sent: Arc<AtomicU64>, stop: CancellationToken) {
    let queue = bw.queue("orders").unwrap();
    for number in 0.. {
        if stop.is_cancelled() {
            return;
        }
        let message = Message::new("an order").id(format!("{sender}/{number}"));
        queue.send(message).await.unwrap();
        sent.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_send_is_lost_or_doubled_while_the_server_is_stopped_killed_and_started() {
    let folder = Folder::new();
    let mut server = Server::in_folder(&folder.0);
    let address = format!("bellwether+unix:{}/bellwether.sock", folder.text());
    let bw = Bellwether::open(&address).await.unwrap();
    let queue = bw.create_queue("orders", QueueSettings::default()).await.unwrap();
    let (stop, mut senders) = (CancellationToken::new(), JoinSet::new());
    let sent = Arc::new(AtomicU64::new(0));
    for sender in 0..16 {
        senders.spawn(send_on(bw.clone(), sender, Arc::clone(&sent), stop.clone()));
    }
    for round in 1..=4 {
        while sent.load(Ordering::SeqCst) < round * 500 {
            assert!(senders.try_join_next().is_none(), "one of them has failed");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // One half of the rounds it is killed, as a crash does it.
        if round % 2 == 0 {
            drop(server);
        } else {
            server.stop();
        }
        server = Server::in_folder(&folder.0);
    }
    stop.cancel();
    senders.join_all().await;
    assert_eq!(queue.info().await.unwrap().counts.ready, sent.load(Ordering::SeqCst));
    bw.close().await;
    server.stop();
}
