//! Those who take up room, all of them together.

use std::io::Write as _;
use std::net::TcpStream;

use bellwether::wire::parts::put_parts;
use bellwether::wire::{Frame, Kind};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::counted;
use super::wire::{connect, greeted, heard_next, hello};
use crate::server::{Server, assert_says, rest, status};

const MIB: usize = 1 << 20;
/// What the tests leave to all who ask: the least there can be.
const BUDGET: [&str; 3] = ["--memory", "--asks-bytes-max", "1"];

fn refused() -> String {
    "bellwether_asks_refused_total{reason=\"asks_bytes\"}".into()
}

/// A request whose body does not come to its end.
fn unfinished(server: &Server, length: &str, sent: &[u8]) -> TcpStream {
    let mut stream = server.connect();
    let head = format!(
        "POST /v1/queues/orders/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n\
         connection: close\r\n{length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // It may have been refused already.
    let _ = stream.write_all(sent);
    stream
}

#[test]
fn bodies_that_do_not_end_do_not_fill_the_memory() {
    let server = Server::start(&BUDGET);
    server.make_queue();
    // Whoever only says that it will send takes no room from others.
    let _says = unfinished(&server, &format!("content-length: {}", 15 * MIB), b"x");
    let sent = "x".repeat(12 * MIB);
    let holds = unfinished(&server, &format!("content-length: {}", 13 * MIB), sent.as_bytes());
    while gauge(&server, "bellwether_asks_bytes") < 12 * MIB as u64 {}
    // One that says how long it is hears at once that there is no room.
    let answer = rest(&mut unfinished(&server, &format!("content-length: {}", 5 * MIB), b""));
    assert_eq!(status(&answer), 503, "{answer}");
    assert_says(&answer, &["/v1/problems/busy", "asks_bytes_max", "retry-after: 1"]);
    // One that does not say so is cut off when there is no room any more.
    let chunk = format!("{:x}\r\n{}\r\n", 5 * MIB, "x".repeat(5 * MIB));
    let answer = rest(&mut unfinished(&server, "transfer-encoding: chunked", chunk.as_bytes()));
    assert!(answer.is_empty() || status(&answer) == 503, "{answer}");
    assert_eq!(counted(&server, &refused()), 2);
    // Small ones are let in all the while.
    let small = server.post("/v1/queues/orders/messages", "{\"body\":\"two coffees\"}");
    assert_eq!(status(&small), 201, "{small}");

    drop(holds);
    while gauge(&server, "bellwether_asks_bytes") > 0 {}
    let body = "x".repeat(5 * MIB);
    let mut sent = unfinished(&server, &format!("content-length: {}", body.len()), body.as_bytes());
    assert_eq!(status(&rest(&mut sent)), 201, "there is room again");
    server.stop();
}

/// A part of an ask, to which more belong.
fn part(number: u64, bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    put_parts(Kind::Ask, number, &vec![7; bytes], &mut out);
    // All but the last part, which is a frame of its own kind.
    let last = bytes % (64 * 1024 - 11);
    out.truncate(out.len() - last - 6);
    out
}

#[test]
fn asks_that_do_not_end_are_refused_and_the_rest_of_them_is_thrown_away() {
    let server = Server::start(&BUDGET);
    server.make_queue();
    let mut first = connect(&server);
    first.write_all(&hello(10)).unwrap();
    first.write_all(&part(1, 12 * MIB)).unwrap();
    while gauge(&server, "bellwether_asks_bytes") < 11 * MIB as u64 {}

    let mut second = greeted(&server);
    second.write_all(&part(1, 6 * MIB)).unwrap();
    let Frame { kind, body } = heard_next(&mut second);
    assert_eq!((kind, body[0]), (Kind::Answer, 1), "it is answered before it is whole");
    assert_eq!(counted(&server, &refused()), 1);
    // Its last part, then something else on the same connection.
    put(&mut second, Kind::Ask, &[1, 7, 7]);
    put(&mut second, Kind::Ping, &[9]);
    let pong = heard_next(&mut second);
    assert_eq!((pong.kind, &pong.body[..]), (Kind::Pong, &[9][..]), "no second answer");

    drop(first);
    while gauge(&server, "bellwether_asks_bytes") > 0 {}
    second.write_all(&part(2, 6 * MIB)).unwrap();
    put(&mut second, Kind::Ask, &[2, 7]);
    // It makes no sense, and is told so: it was read to its end.
    let Frame { kind, body } = heard_next(&mut second);
    assert_eq!((kind, body[0]), (Kind::Answer, 2));
    server.stop();
}

fn put(stream: &mut TcpStream, kind: Kind, body: &[u8]) {
    let mut out = Vec::new();
    bellwether::wire::frame::put_frame(kind, &mut out, |out| out.extend_from_slice(body));
    stream.write_all(&out).unwrap();
}

/// What a gauge shows now.
fn gauge(server: &Server, name: &str) -> u64 {
    let metrics = server.get("/metrics", "host: localhost\r\n");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} is not in {metrics}")).parse().unwrap()
}

#[test]
fn who_comes_when_there_are_no_files_left_waits_and_is_served() {
    let mut server = Server::start(&["--memory"]);
    let pid = Pid::from_raw(server.pid().cast_signed());
    // Those that are open stay so.
    let few = Rlimit { current: Some(3), ..getrlimit(Resource::Nofile) };
    let before = prlimit(pid, Resource::Nofile, few);
    let mut waiting = server.connect();
    waiting.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let line = server.wait_for_log("cannot accept connections");
    assert_says(&line, &["ERROR", "ulimit -n"]);
    prlimit(pid, Resource::Nofile, before.unwrap()).unwrap();
    waiting.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(status(&rest(&mut waiting)), 200);
    let failed = counted(&server, "bellwether_connections_not_accepted_total");
    assert!(failed < 1000, "it was tried {failed} times, as fast as it could");
    server.stop();
}
