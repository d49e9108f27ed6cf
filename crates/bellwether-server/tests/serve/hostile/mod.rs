//! Those who mean harm, or might as well: from raw sockets, one thing each. What they do ends their
//! own connection, is counted, and nobody else notices.

mod crowd;
mod http;
mod room;
mod smuggling;
mod wire;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::server::Server;

/// What nobody of good will is slower than; and soon over for a test.
const QUICK: [&str; 5] = ["--memory", "--pace-over-ms", "200", "--pace-bytes-per-s-min", "1000000"];

/// A counter, once it is not zero any more.
fn counted(server: &Server, line: &str) -> u64 {
    counted_to(server, line, 1)
}

/// A counter, once it has come so far.
fn counted_to(server: &Server, line: &str, wanted: u64) -> u64 {
    loop {
        let metrics = server.get("/metrics", "host: localhost\r\n");
        let found = metrics.lines().find_map(|found| found.strip_prefix(line));
        let found = found.unwrap_or_else(|| panic!("{line} is not in {metrics}"));
        let count = found.trim().parse().unwrap();
        if count >= wanted {
            return count;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Writes `bytes` one by one, over and over, until the other side has had enough.
fn dribble(stream: &mut TcpStream, bytes: &[u8]) {
    stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    for byte in bytes.iter().cycle() {
        let is_open = stream.write_all(&[*byte]).is_ok();
        match stream.read(&mut [0; 1024]) {
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock) && is_open => {}
            Ok(1..) => {}
            _ => return,
        }
    }
}

/// Bytes that mean nothing, the same every time.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| byte()).collect()
}
