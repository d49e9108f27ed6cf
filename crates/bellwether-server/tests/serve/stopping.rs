//! Signals, and what they leave.

use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;

use crate::server::{Folder, Server, assert_says, bellwether, rest, status};

const BODY: &str = "{\"ms\": 5}";

/// A request of which everything but the body's end has come.
fn half_a_request(server: &Server) -> TcpStream {
    let mut stream = server.connect();
    let length = BODY.len();
    let head = format!(
        "POST /v1/test/clock/advance HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The server asks for the body when the request has reached its route.
    let mut go_on = [0; 25];
    std::io::Read::read_exact(&mut stream, &mut go_on).unwrap();
    assert_eq!(&go_on[..12], b"HTTP/1.1 100");
    stream
}

fn with_virtual_clock(more: &[&str]) -> Server {
    let args = ["serve", "--memory", "--virtual-clock"];
    Server::start_as(bellwether().args(args).args(more))
}

#[test]
fn what_is_in_flight_is_finished_and_nothing_new_is_taken() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = with_virtual_clock(&["--stop-ms-max", "600000"]);
        let mut request = half_a_request(&server);
        server.signal(signal);
        server.wait_for_log("stopping");
        // From here on it lasts as long as the system needs to close a socket.
        while TcpStream::connect(server.address).is_ok() {}
        request.write_all(BODY.as_bytes()).unwrap();
        let answer = rest(&mut request);
        assert_eq!(status(&answer), 200, "{answer}");
        assert_eq!(server.wait().code(), Some(0));
    }
}

#[test]
fn what_takes_too_long_is_cut_off_and_that_is_still_a_clean_end() {
    let mut server = with_virtual_clock(&["--stop-ms-max", "1"]);
    let _request = half_a_request(&server);
    server.signal(Signal::TERM);
    server.wait_for_log("stop_ms_max is over");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut server = with_virtual_clock(&["--stop-ms-max", "600000"]);
        let _request = half_a_request(&server);
        server.signal(Signal::TERM);
        server.wait_for_log("stopping");
        // The first of these may come so soon that they are taken for the same one.
        while !server.has_ended() {
            server.signal(signal);
        }
        assert_eq!(server.wait().code(), Some(code));
    }
}

/// `timeout` signals a process and then its group.
#[test]
fn one_signal_told_twice_is_one_signal() {
    let mut server = with_virtual_clock(&["--stop-ms-max", "600000"]);
    let mut request = half_a_request(&server);
    server.signal(Signal::TERM);
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    request.write_all(BODY.as_bytes()).unwrap();
    assert_eq!(status(&rest(&mut request)), 200);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_store_that_was_served_is_closed_cleanly() {
    let folder = Folder::new();
    Server::in_folder(&folder.0).stop();
    let check = bellwether().args(["journal", "check", folder.text()]).output().unwrap();
    assert_eq!(check.status.code(), Some(0), "{check:?}");
}

#[test]
fn systemd_hears_of_both_ends() {
    let folder = Folder::new();
    std::fs::create_dir(&folder.0).unwrap();
    let socket = folder.0.join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    let mut heard = [0; 64];
    let server =
        Server::start_as(bellwether().args(["serve", "--memory"]).env("NOTIFY_SOCKET", &socket));
    let count = systemd.recv(&mut heard).unwrap();
    assert_eq!(&heard[..count], b"READY=1");
    server.stop();
    let count = systemd.recv(&mut heard).unwrap();
    assert_eq!(&heard[..count], b"STOPPING=1");
}

#[test]
fn the_log_says_start_and_stop_and_can_be_json() {
    let mut server = Server::start(&["--memory", "--log", "json"]);
    let line = server.wait_for_log("ready");
    let started: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(started["http"], server.address.to_string());
    assert_eq!(started["level"], "INFO");
    server.signal(Signal::TERM);
    assert_says(&server.wait_for_log("stopping"), &["SIGTERM"]);
    server.wait_for_log("stopped");
    assert_eq!(server.wait().code(), Some(0));
}
