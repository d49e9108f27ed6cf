//! A running server, and raw HTTP to talk to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// The program, without the settings of whoever runs the tests.
pub(crate) fn bellwether() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BELLWETHER_") {
            command.env_remove(name);
        }
    }
    command.env_remove("RUST_LOG").env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
    command
}

/// Runs `serve` to its end.
pub(crate) fn serve(args: &[&str]) -> Output {
    let free_port = [("BELLWETHER_WIRE", "127.0.0.1:0")];
    bellwether().arg("serve").args(args).envs(free_port).output().unwrap()
}

pub(crate) fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A name in the temporary folder that nobody else has; gone at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("bellwether-serve-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server on a free port. Killed if the test forgets it.
pub(crate) struct Server {
    child: Child,
    stderr: BufReader<ChildStderr>,
    pub(crate) address: SocketAddr,
    pub(crate) banner: String,
}

impl Server {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_as(bellwether().arg("serve").args(args))
    }

    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self::start(&["--data", folder.to_str().unwrap()])
    }

    pub(crate) fn start_as(command: &mut Command) -> Self {
        let command = command.args(["--http", "127.0.0.1:0", "--wire", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("Ctrl-C") {
            if stdout.read_line(&mut banner).unwrap() == 0 {
                let mut log = String::new();
                stderr.read_to_string(&mut log).unwrap();
                panic!("it did not start: {banner}{log}");
            }
        }
        let (_, rest) = banner.split_once("  http     ").unwrap();
        let (_, rest) = rest.split_once("://").unwrap();
        let address = rest.split_whitespace().next().unwrap().parse().unwrap();
        Self { child, stderr, address, banner }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The wire's address.
    pub(crate) fn wire(&self) -> SocketAddr {
        let (_, rest) = self.banner.split_once("bellwether://").unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    /// Sends `head` and `body` as they are and returns everything up to the end.
    pub(crate) fn raw(&self, sent: &str) -> String {
        let mut stream = self.connect();
        // The server may have said no and closed before it has read everything.
        let _ = stream.write_all(sent.as_bytes());
        rest(&mut stream)
    }

    /// A GET on a connection of its own, with these header lines.
    pub(crate) fn get(&self, path: &str, headers: &str) -> String {
        self.raw(&format!("GET {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n"))
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> String {
        let length = body.len();
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        ))
    }

    /// Makes the queue `orders`.
    pub(crate) fn make_queue(&self) {
        let made = self.raw(
            "PUT /v1/queues/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
             application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
        );
        assert_eq!(status(&made), 201, "{made}");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Reads the log up to a line that contains `words`.
    pub(crate) fn wait_for_log(&mut self, words: &str) -> String {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "it never logged {words:?}");
        }
        line
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Asks it to stop, and expects that it does.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.wait().code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything up to the end of the stream, also if that is a reset.
pub(crate) fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
    }
    said(&bytes)
}

/// The status of an answer.
pub(crate) fn status(answer: &str) -> u16 {
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

pub(crate) fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}
