//! Requests that two programs in a row would cut differently: what one takes for a body is the next
//! request for the other, and comes with somebody else's rights.

use crate::server::{Server, rest, said, status};
use std::io::Write as _;

/// What must never be answered: it stands in what is a body, or after what was refused.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[test]
fn a_request_has_one_end() {
    let server = Server::start(&["--memory"]);
    let len = SMUGGLED.len();
    let shapes = [
        // Two lengths.
        format!("content-length: 0\r\ncontent-length: {len}\r\n"),
        format!("content-length: {len}\r\ncontent-length: 0\r\n"),
        format!("content-length: 0, {len}\r\n"),
        // A length and chunks.
        format!("content-length: {len}\r\ntransfer-encoding: chunked\r\n"),
        "content-length: 0\r\ntransfer-encoding: chunked\r\n".to_owned(),
        "transfer-encoding: chunked\r\ncontent-length: 0\r\n".to_owned(),
        // Chunks that are none.
        "transfer-encoding: xchunked\r\n".to_owned(),
        "transfer-encoding: chunked, identity\r\n".to_owned(),
        "transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n".to_owned(),
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n".to_owned(),
        "transfer-encoding: \u{b}chunked\r\n".to_owned(),
        // Names and numbers that are none.
        format!("content-length : {len}\r\n"),
        format!("content-length: +{len}\r\n"),
        "content-length: -1\r\n".to_owned(),
        "content-length: 0x10\r\n".to_owned(),
        "content-length: 18446744073709551616\r\n".to_owned(),
        "transfer-encoding : chunked\r\n".to_owned(),
        // Lines that go on, or end too early.
        format!("x: y\r\n content-length: {len}\r\n"),
        "x: y\rtransfer-encoding: chunked\r\n".to_owned(),
    ];
    for shape in shapes {
        let mut stream = server.connect();
        let sent = format!(
            "POST /livez HTTP/1.1\r\nhost: localhost\r\n{shape}\r\n0\r\n\r\n{SMUGGLED}{SMUGGLED}"
        );
        stream.write_all(sent.as_bytes()).unwrap();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let answer = rest(&mut stream);
        assert!((400..=501).contains(&status(&answer)), "{shape:?}: {answer}");
        assert!(!answer.contains(" 404 "), "{shape:?} let a second request through: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{shape:?}: {answer}");
    }
    server.stop();
}

#[test]
fn what_is_plain_still_goes_through() {
    let server = Server::start(&["--memory"]);
    let sent = format!(
        "POST /livez HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\nabc\
         POST /livez HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n\
         3\r\nabc\r\n0\r\n\r\n{}",
        SMUGGLED.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n")
    );
    let answer = server.raw(&sent);
    let statuses: Vec<_> =
        answer.split("HTTP/1.1 ").skip(1).map(|answer| said(&answer.as_bytes()[..3])).collect();
    assert_eq!(statuses, ["405", "405", "404"], "{answer}");
    server.stop();
}
