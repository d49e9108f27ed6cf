//! Who does not speak TLS, or does not finish.

use std::io::Write as _;
use std::net::TcpStream;

use crate::server::{Server, assert_says, rest, status};
use crate::world::{World, assert_unavailable, wire};

fn dial_wire(server: &Server) -> TcpStream {
    TcpStream::connect(wire(server).strip_prefix("bellwethers://").unwrap()).unwrap()
}

#[test]
fn a_plain_request_is_told_what_to_write_instead() {
    let world = World::new();
    let server = world.serve(&[]);
    let answer = server.get("/livez", "host: localhost\r\n");
    assert_eq!(status(&answer), 400, "{answer}");
    assert_says(&answer, &["application/problem+json", "/v1/problems/needs-tls", "https://"]);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_says(head, &[&format!("content-length: {}", body.len())]);
    server.stop();
}

#[test]
fn who_does_not_finish_a_handshake_is_not_waited_for() {
    let world = World::new();
    let server = world.serve(&["--tls-handshake-ms-max", "200", "--http-connections-max", "1"]);
    // Silence, a beginning, and what only looks like one; each is closed, at both doors.
    for words in
        [&b""[..], b"\x16\x03\x01", b"\x16\x03\x01\xff\xff\xff\xff", b"\x16GARBAGE\r\n\r\n"]
    {
        for mut stream in [server.connect(), dial_wire(&server)] {
            stream.write_all(words).unwrap();
            assert!(!rest(&mut stream).contains("bellwire"), "{words:?}");
        }
    }
    // None of them has kept its place, and nobody else was held up.
    world.ok(&wire(&server), &["queue", "list"]);
    server.stop();
}

#[test]
fn who_shakes_hands_has_a_place_already_and_one_too_many_is_told_so() {
    let world = World::new();
    let limits = ["--wire-connections-max", "1", "--tls-handshake-ms-max", "60000"];
    let server = world.serve(&limits);
    let silent = dial_wire(&server);
    let ran = world.run(&wire(&server), &["queue", "list"]);
    assert_unavailable(&ran, &["wire_connections_max"]);
    drop(silent);
    // As soon as the server has noticed.
    while world.run(&wire(&server), &["queue", "list"]).status.code() == Some(69) {}
    // Somebody in the middle of a handshake does not hold up a stop.
    let _silent = dial_wire(&server);
    server.stop();
}
