//! The floor of every door: somebody at the other end of the loopback who answers at once.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream as Blocking;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::http::ANSWER;
use crate::child::this_program;

/// Longer than any request here.
const REQUEST_BYTES_MAX: usize = 4096;

/// Answers whatever is read with the same words, on every connection, until it is killed.
pub(crate) async fn echo() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) {
    stream.set_nodelay(true).expect("an option");
    let mut request = [0; REQUEST_BYTES_MAX];
    // Who asks waits for the answer, so what is read at once is one request.
    while let Ok(1..) = stream.read(&mut request).await {
        if stream.write_all(ANSWER).await.is_err() {
            return;
        }
    }
}

/// The process that does so; killed when dropped.
pub(super) struct Echo {
    child: Child,
    address: String,
}

impl Echo {
    pub(super) fn start() -> Self {
        let mut child = this_program(&["echo"]).stdout(Stdio::piped()).spawn().expect("a child");
        let mut address = String::new();
        let stdout = child.stdout.take().expect("its words");
        BufReader::new(stdout).read_line(&mut address).expect("its address");
        Self { child, address: address.trim().to_owned() }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// One connection, one round trip at a time; how long each took.
    pub(super) fn round_trips(&self, count: usize, times: &mut Vec<Duration>) {
        let mut stream = Blocking::connect(&self.address).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        let mut answer = [0; ANSWER.len()];
        for _ in 0..count {
            let start = Instant::now();
            stream.write_all(&[0x42; super::BODY_BYTES]).expect("asked");
            stream.read_exact(&mut answer).expect("answered");
            times.push(start.elapsed());
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}
