//! A server to be measured, in a process of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bellwether::{Bellwether, Queue, QueueSettings};

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    wire: String,
    socket: String,
    http: String,
    ready_after: Duration,
}

impl Server {
    /// Starts this program on an empty store of that name in `folder`, with these flags beside.
    pub(crate) fn start(program: &Path, folder: &Path, name: &str, flags: &[&str]) -> Self {
        let folder = fresh(folder, name);
        let begun = Instant::now();
        let mut child = Command::new(program)
            .args(["serve", "--http", "127.0.0.1:0", "--wire", "127.0.0.1:0", "--data"])
            .arg(&folder)
            .args(flags)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}; build it first", program.display()));
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut address = |scheme: &str| {
            let found = lines.find_map(|line| {
                let line = line.expect("a line");
                let at = line.find(scheme)?;
                line[at..].split_whitespace().next().map(str::to_owned)
            });
            found.expect("the server says where it is")
        };
        let http = address("http://").trim_start_matches("http://").to_owned();
        let wire = address("bellwether://");
        let socket = address("bellwether+unix:");
        let mut server = Self { child, wire, socket, http, ready_after: Duration::ZERO };
        let ready = server.get("/readyz");
        server.ready_after = begun.elapsed();
        assert!(ready.starts_with("HTTP/1.1 200 "), "ready when it says so: {ready}");
        // It goes on talking.
        std::thread::spawn(move || lines.for_each(drop));
        server
    }

    /// From the start of the program until it said that it is ready, and `/readyz` too.
    pub(crate) fn ready_after(&self) -> Duration {
        self.ready_after
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its wire is.
    pub(crate) fn wire(&self) -> &str {
        &self.wire
    }

    /// Where its wire is on this machine alone.
    pub(crate) fn socket(&self) -> &str {
        &self.socket
    }

    /// Where its HTTP is.
    pub(crate) fn http(&self) -> &str {
        &self.http
    }

    pub(crate) async fn connect(&self) -> Bellwether {
        Bellwether::open(self.wire()).await.expect("a connection")
    }

    /// A connection, and the queue that everybody works on.
    pub(crate) async fn queue(&self) -> (Bellwether, Queue) {
        let bw = self.connect().await;
        let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
        (bw, queue)
    }

    /// What one of its metrics says.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let answer = self.get("/metrics");
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("the server has a metric {name}"));
        value.parse::<f64>().expect("a number") as u64
    }

    /// The whole answer to one request.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.http).expect("a connection");
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

/// An empty folder of this name.
pub(crate) fn fresh(folder: &Path, name: &str) -> PathBuf {
    let folder = folder.join(name);
    // It is not there at the first run.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
