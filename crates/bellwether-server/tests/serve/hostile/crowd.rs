//! Very many at once.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use bellwether::wire::frame::{take_frame, take_magic};
use bytes::BytesMut;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::counted;
use super::wire::hello;
use crate::server::{Server, assert_says, rest, status};

/// How many sockets a test may open, at most so many.
fn sockets(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    wanted.min(usize::try_from(files / 2).unwrap_or(usize::MAX).saturating_sub(100))
}

/// A connection on which the server has answered a hello; `None` if it was told to go.
fn guest(address: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    let _ = stream.write_all(&hello(10));
    let (mut bytes, mut buffer, mut is_open) = (BytesMut::new(), [0; 1024], false);
    loop {
        let Ok(count @ 1..) = stream.read(&mut buffer) else { return None };
        bytes.extend_from_slice(&buffer[..count]);
        is_open = is_open || take_magic(&mut bytes).unwrap();
        if is_open && let Some(frame) = take_frame(&mut bytes).unwrap() {
            return (frame.kind == bellwether::wire::Kind::Welcome).then_some(stream);
        }
    }
}

#[test]
fn two_thousand_beyond_the_limit_are_turned_away_and_the_rest_is_served() {
    const MAX: usize = 50;
    let count = sockets(2000);
    let server = Server::start(&[
        "--memory",
        "--wire-connections-max",
        "50",
        "--http-connections-max",
        "50",
    ]);
    let address = server.wire();
    let ask = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut inside: Vec<_> = (0..MAX).map(|_| guest(address).expect("there is room")).collect();
    let mut asking = server.connect();
    let crowd: Vec<_> = (0..count)
        .map(|number| if number % 2 == 0 { server.connect() } else { connect(address) })
        .collect();
    asking.write_all(ask).unwrap();
    asking.read_exact(&mut [0; 12]).unwrap();
    for stream in &mut inside {
        // A ping, and its pong.
        stream.write_all(&[2, 0, 0, 0, 8, 7]).unwrap();
        let mut pong = [0; 6];
        stream.read_exact(&mut pong).unwrap();
        assert_eq!(pong, [2, 0, 0, 0, 9, 7]);
    }
    drop((crowd, inside));
    // There is room again, as soon as the server has noticed.
    while guest(address).is_none() {}
    while status(&server.get("/livez", "host: localhost\r\n")) == 503 {}
    let line = |limit| format!("bellwether_wire_connections_refused_total{{reason=\"{limit}\"}}");
    let refused = counted(&server, &line("total"));
    assert!(refused >= count as u64 / 2, "{refused}");
    let metrics = server.get("/metrics", "host: localhost\r\n");
    assert_says(&metrics, &[&format!("{} 0\n", line("address"))]);
    asking.shutdown(std::net::Shutdown::Write).unwrap();
    rest(&mut asking);
    server.stop();
}

fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).unwrap()
}

/// Memory of the server that is really there.
fn resident_bytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Room for ten thousand who mostly wait.
#[test]
fn an_idle_connection_takes_at_most_sixteen_kibibytes() {
    const BYTES_MAX: u64 = 16 * 1024;
    let (first, count) = (100, sockets(2000));
    let server = Server::start(&["--memory"]);
    let address = server.wire();
    let mut guests: Vec<_> = (0..first).map(|_| guest(address).unwrap()).collect();
    let before = resident_bytes(&server);
    guests.extend((0..count).map(|_| guest(address).unwrap()));
    let each = resident_bytes(&server).saturating_sub(before) / count as u64;
    assert!(each <= BYTES_MAX, "{each} bytes each");
    server.stop();
}
