//! Over HTTP.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::time::Duration;

use super::{QUICK, counted, dribble, noise};
use crate::server::{Server, assert_says, rest, said, status};

const ASK: &[u8] = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn is_well(server: &Server) {
    assert_eq!(status(&server.get("/livez", "host: localhost\r\n")), 200);
}

#[test]
fn a_head_that_never_ends_is_not_waited_for() {
    let server = Server::start(&["--memory", "--http-head-ms-max", "100"]);
    let mut slow = server.connect();
    slow.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n").unwrap();
    dribble(&mut slow, b"x: y\r\n");
    assert_eq!(counted(&server, "bellwether_http_connections_dropped_total{reason=\"head\"}"), 1);
    // The second head of a connection is no better.
    let mut slow = server.connect();
    slow.write_all(ASK).unwrap();
    slow.read_exact(&mut [0; 12]).unwrap();
    dribble(&mut slow, b"GET /livez HTTP/1.1 ");
    // And nobody has to say anything at all.
    assert_eq!(rest(&mut server.connect()), "");
    is_well(&server);
    server.stop();
}

#[test]
fn a_connection_may_be_idle_for_longer_than_a_head_takes() {
    let server = Server::start(&["--memory", "--http-head-ms-max", "100"]);
    let mut calm = server.connect();
    for _ in 0..3 {
        calm.write_all(ASK).unwrap();
        calm.read_exact(&mut [0; 12]).unwrap();
        calm.set_read_timeout(Some(Duration::from_millis(250))).unwrap();
        // The rest of the answer, and nothing more: it is not closed.
        let mut answer = [0; 4096];
        let end = loop {
            match calm.read(&mut answer) {
                Ok(1..) => {}
                end => break end,
            }
        };
        assert!(end.is_err(), "it was closed");
        calm.set_read_timeout(None).unwrap();
    }
    server.stop();
    let server = Server::start(&["--memory", "--http-idle-ms-max", "100"]);
    let mut idle = server.connect();
    idle.write_all(ASK).unwrap();
    assert_eq!(status(&rest(&mut idle)), 200);
    assert_eq!(counted(&server, "bellwether_http_connections_dropped_total{reason=\"idle\"}"), 1);
    server.stop();
}

#[test]
fn a_body_that_comes_byte_by_byte_is_not_waited_for() {
    let server = Server::start(&QUICK);
    for head in ["content-length: 1000000", "transfer-encoding: chunked"] {
        let mut slow = server.connect();
        let head = format!(
            "POST /v1/queues/orders/messages HTTP/1.1\r\nhost: localhost\r\n\
             content-type: text/plain\r\n{head}\r\n\r\n"
        );
        slow.write_all(head.as_bytes()).unwrap();
        slow.write_all(b"1\r\nx\r\n").unwrap();
        let answer = rest(&mut slow);
        assert_eq!(status(&answer), 408, "{answer}");
        assert_says(&answer, &["application/problem+json", "pace_bytes_per_s_min"]);
        let mut slow = server.connect();
        slow.write_all(head.as_bytes()).unwrap();
        dribble(&mut slow, b"1\r\nx\r\n");
    }
    assert_eq!(counted(&server, "bellwether_http_bodies_refused_total{reason=\"slow\"}"), 4);
    server.stop();
}

#[test]
fn who_does_not_read_its_answers_is_dropped() {
    let server = Server::start(&QUICK);
    server.make_queue();
    let body = "x".repeat(4 << 20);
    let sent = server.raw(&format!(
        "POST /v1/queues/orders/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
         text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(status(&sent), 201, "{sent}");
    let mut deaf = server.connect();
    let look = b"GET /v1/queues/orders/messages HTTP/1.1\r\nhost: localhost\r\n\r\n";
    // More than any socket holds.
    deaf.write_all(&look.repeat(16)).unwrap();
    assert_eq!(counted(&server, "bellwether_http_connections_dropped_total{reason=\"reader\"}"), 1);
    let heard = rest(&mut deaf);
    assert!(heard.len() < 16 * body.len(), "it was cut off");
    server.stop();
}

#[test]
fn nobody_is_read_for_ever() {
    let server = Server::start(&["--memory", "--http-body-bytes-max", "65536"]);
    let endless: [(&str, &[u8]); 5] = [
        ("GET /livez HTTP/1.1\r\nhost: localhost\r\n", b"x: y\r\n"),
        ("GET /livez HTTP/1.1\r\nhost: localhost\r\nx: ", b"y"),
        ("GET /", b"y"),
        (
            "POST /v1/queues HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1;",
            b"y",
        ),
        (
            "POST /v1/queues HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n",
            b"1\r\nx\r\n",
        ),
    ];
    for (front, more) in endless {
        let mut flood = server.connect();
        flood.write_all(front.as_bytes()).unwrap();
        let more = more.repeat(10_000);
        while flood.write_all(&more).is_ok() {}
        assert!(!rest(&mut flood).contains(" 200 "), "{front:?}");
    }
    is_well(&server);
    server.stop();
}

#[test]
fn chunks_of_absurd_sizes_are_refused() {
    let server = Server::start(&["--memory", "--pace-over-ms", "200"]);
    let sizes = [
        "ffffffffffffffff",
        "fffffffffffffffff",
        "8000000000000000",
        "-1",
        "+1",
        "0x1",
        "1 1",
        "",
        "\u{ff11}",
        "100000000",
    ];
    for size in sizes {
        let answer = server.raw(&format!(
            "POST /v1/queues HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             transfer-encoding: chunked\r\nconnection: close\r\n\r\n{size}\r\n{{}}\r\n0\r\n\r\n"
        ));
        assert!(answer.is_empty() || (400..500).contains(&status(&answer)), "{size:?}: {answer}");
    }
    is_well(&server);
    server.stop();
}

#[test]
fn a_flood_of_asks_in_one_packet_is_answered_in_order() {
    let server = Server::start(&["--memory"]);
    let mut eager = server.connect();
    let mut writer = eager.try_clone().unwrap();
    let flood = std::thread::spawn(move || {
        for _ in 0..2000 {
            writer.write_all(ASK).unwrap();
        }
        writer.write_all(b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    });
    let answers = rest(&mut eager);
    flood.join().unwrap().unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2000);
    assert_eq!(answers.matches("HTTP/1.1 404 Not Found").count(), 1);
    server.stop();
}

#[test]
fn noise_and_halves_end_what_they_are_on() {
    let server = Server::start(&["--memory"]);
    for seed in 0..50 {
        let mut loud = server.connect();
        let _ = loud.write_all(&noise(5000, seed));
        let _ = loud.shutdown(Shutdown::Write);
        let answer = rest(&mut loud);
        assert!(answer.is_empty() || status(&answer) == 400, "{answer}");
    }
    for half in [&ASK[..0], &ASK[..9], &ASK[..ASK.len() - 2]] {
        let mut gone = server.connect();
        gone.write_all(half).unwrap();
        gone.shutdown(Shutdown::Write).unwrap();
        assert!(!rest(&mut gone).contains(" 200 "), "{}", said(half));
    }
    is_well(&server);
    server.stop();
}
