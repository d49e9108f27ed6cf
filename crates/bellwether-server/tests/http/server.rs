//! The real program on a free port, and a few words to speak to it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use ureq::http::{HeaderMap, Method, Request};
use ureq::{Agent, Body};

/// A folder that is gone when the test is.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("bellwether-http-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running program; killed, as by `kill -9`, when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    agent: Agent,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|e| panic!("{e}: {:?}", String::from_utf8_lossy(&self.bytes)))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The JSON of an answer that must have this status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Value {
        let text = String::from_utf8_lossy(&self.bytes);
        assert_eq!(self.status, status, "{text}");
        if self.bytes.is_empty() { Value::Null } else { self.json() }
    }

    /// The problem that it must be.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, kind: &str) -> Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.is(status);
        assert_eq!(problem["type"], format!("/v1/problems/{kind}"), "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        problem
    }
}

impl Server {
    pub(crate) fn in_memory() -> Self {
        Self::start(&["--memory"])
    }

    pub(crate) fn at(folder: &Folder) -> Self {
        Self::start(&["--data", folder.path().to_str().unwrap()])
    }

    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bellwether"))
            .args(["serve", "--http", "127.0.0.1:0", "--wire", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| line.find("http://").map(|at| line[at..].trim().to_owned()))
            .expect("it says where it listens");
        // Whatever else it says must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let config = Agent::config_builder().http_status_as_error(false).build();
        Self { child, address, agent: config.into() }
    }

    /// Asks it to stop and waits until it has.
    pub(crate) fn stop(mut self) {
        let stopped = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(stopped.success());
        assert!(self.child.wait().unwrap().success(), "it ends well");
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut request =
            Request::builder().method(Method::try_from(method).unwrap()).uri(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut agent_answer = self.agent.run(request.body(body).unwrap()).unwrap();
        let headers = agent_answer.headers().clone();
        let body: &mut Body = agent_answer.body_mut();
        let bytes = body.with_config().limit(64 << 20).read_to_vec().unwrap();
        Answer { status: agent_answer.status().as_u16(), headers, bytes }
    }

    /// How many connections the server has not let go of, as the kernel sees it.
    pub(crate) fn connections(&self) -> usize {
        let port: u16 = self.address.rsplit(':').next().unwrap().parse().unwrap();
        let wanted = format!("0100007F:{port:04X}");
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let is_open = |line: &&str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // Established, or closed by the other side only.
            fields[1] == wanted && matches!(fields[3], "01" | "08")
        };
        table.lines().skip(1).filter(is_open).count()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], b"")
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.ask_with(method, path, &[], body)
    }

    pub(crate) fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let headers: Vec<_> =
            headers.iter().copied().chain([("content-type", "application/json")]).collect();
        self.send(method, path, &headers, body.to_string().as_bytes())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, body)
    }

    #[track_caller]
    pub(crate) fn create(&self, queue: &str, settings: &Value) {
        self.ask("PUT", &format!("/v1/queues/{queue}"), settings).is(201);
    }

    /// Receives one message, which must be there.
    #[track_caller]
    pub(crate) fn receive(&self, queue: &str) -> Value {
        let mut received = self.post(&format!("/v1/queues/{queue}/receive"), &json!({})).is(200);
        let message = received["messages"][0].take();
        assert!(message.is_object(), "a message was there");
        message
    }

    #[track_caller]
    pub(crate) fn settle(&self, queue: &str, settlement: &Value) -> Value {
        let body = json!({ "settlements": [settlement] });
        self.post(&format!("/v1/queues/{queue}/settle"), &body).is(200)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
