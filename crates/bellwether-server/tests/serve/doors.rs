//! Who may ask over HTTP, and how much at once.

use std::io::{Read as _, Write as _};

use crate::server::{Server, assert_says, rest, status};

#[test]
fn a_page_of_another_origin_gets_nothing() {
    let server = Server::start(&["--memory", "--http-hosts", "queue.example"]);
    let port = server.address.port();
    for host in ["localhost", "127.0.0.1", "[::1]", "queue.example", "LOCALHOST"] {
        let answer = server.get("/livez", &format!("host: {host}:{port}\r\n"));
        assert_eq!(status(&answer), 200, "{host}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "queue.example.evil"] {
        let answer = server.get("/livez", &format!("host: {host}:{port}\r\n"));
        assert_eq!(status(&answer), 421, "{host}");
        assert_says(&answer, &["application/problem+json", "http_hosts"]);
    }
    assert_eq!(status(&server.get("/livez", "")), 421, "no host at all");
    let host = format!("host: localhost:{port}\r\n");
    let same = server.get("/livez", &format!("{host}origin: http://localhost:{port}\r\n"));
    assert_eq!(status(&same), 200);
    for origin in ["http://evil.example", "null", "http://localhost:1", "http://127.0.0.1"] {
        let answer = server.get("/livez", &format!("{host}origin: {origin}\r\n"));
        assert_eq!(status(&answer), 403, "{origin}");
        assert_says(&answer, &["application/problem+json"]);
        assert!(!answer.contains("access-control"), "{answer}");
    }
    let metrics = server.get("/metrics", "host: localhost\r\n");
    assert_says(&metrics, &["bellwether_http_requests_refused_total{reason=\"host\"} 5\n"]);
    assert_says(&metrics, &["bellwether_http_requests_refused_total{reason=\"origin\"} 4\n"]);
    server.stop();
}

#[test]
fn one_connection_too_many_is_told_so() {
    let server = Server::start(&["--memory", "--http-connections-max", "1"]);
    let mut first = server.connect();
    let ask = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    first.write_all(ask).unwrap();
    first.read_exact(&mut [0; 12]).unwrap();
    let answer = rest(&mut server.connect());
    assert_eq!(status(&answer), 503);
    assert_says(&answer, &["http_connections_max", "retry-after"]);
    // When the first has gone there is room again, as soon as the server has noticed.
    drop(first);
    while status(&server.get("/livez", "host: localhost\r\n")) == 503 {}
    server.stop();
}

#[test]
fn who_sends_a_head_too_slowly_is_not_waited_for() {
    let server = Server::start(&["--memory", "--http-head-ms-max", "100"]);
    let mut slow = server.connect();
    slow.write_all(b"GET /livez HTTP/1.1\r\nhost: local").unwrap();
    assert!(!rest(&mut slow).contains("200"), "it ends, without an answer to what was not asked");
    server.stop();
}

#[test]
fn who_sends_a_body_too_slowly_is_not_waited_for() {
    let server = Server::start(&["--memory", "--virtual-clock", "--http-body-ms-max", "100"]);
    let mut slow = server.connect();
    let head = "POST /v1/test/clock/advance HTTP/1.1\r\nhost: localhost\r\n\
                content-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    slow.write_all(head.as_bytes()).unwrap();
    let answer = rest(&mut slow);
    assert_eq!(status(&answer), 408, "{answer}");
    assert_says(&answer, &["application/problem+json", "http_body_ms_max"]);
    server.stop();
}

#[test]
fn what_is_too_long_is_refused_before_it_is_read() {
    let server = Server::start(&["--memory", "--virtual-clock", "--http-body-bytes-max", "1024"]);
    let answer = server.raw(
        "POST /v1/test/clock/advance HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\ncontent-length: 1025\r\nconnection: close\r\n\r\n",
    );
    assert_eq!(status(&answer), 413);
    assert_says(&answer, &["application/problem+json", "1024", "http_body_bytes_max"]);
    let chunk = "x".repeat(2048);
    let answer = server.raw(&format!(
        "POST /v1/test/clock/advance HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
         application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n\
         800\r\n{chunk}\r\n0\r\n\r\n"
    ));
    assert_eq!(status(&answer), 413, "also if it does not say how long it is");
    assert_says(&answer, &["application/problem+json", "http_body_bytes_max"]);
    let long = "x".repeat(40_000);
    let answer = server.get("/livez", &format!("host: localhost\r\nx-long: {long}\r\n"));
    assert_eq!(status(&answer), 431);
    server.stop();
}

#[test]
fn what_is_not_there_is_said_as_a_problem() {
    let server = Server::start(&["--memory"]);
    let front = server.get("/", "host: localhost\r\n");
    assert_eq!(status(&front), 307, "who opens the address in a browser has something to read");
    assert_says(&front, &["location: /v1/docs\r\n"]);
    let answer = server.get("/no/such/path", "host: localhost\r\n");
    assert_eq!(status(&answer), 404);
    assert_says(&answer, &["application/problem+json", "/v1"]);
    let answer = server.post("/livez", "");
    assert_eq!(status(&answer), 405);
    assert_says(&answer, &["application/problem+json", "allow: GET"]);
    server.stop();
}
