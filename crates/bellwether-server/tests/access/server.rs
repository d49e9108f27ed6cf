//! A server that asks for credentials, and those who have some.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bellwether::{Bellwether, Credential, Error, Open};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::{HeaderMap, Method, Request};

/// The program, without the settings of whoever runs the tests.
pub(crate) fn bellwether() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BELLWETHER_") {
            command.env_remove(name);
        }
    }
    command.env("RUST_LOG", "trace").stdin(Stdio::null());
    command
}

/// A folder that is gone when the test is.
pub(crate) struct Folder {
    path: PathBuf,
    /// Where the server is that has it open.
    url: Arc<Mutex<Option<String>>>,
}

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("bellwether-access-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self { path, url: Arc::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What `bellwether key …` says.
    pub(crate) fn key(&self, args: &[&str]) -> (bool, String, String) {
        let output =
            bellwether().arg("key").args(args).arg("--data").arg(&self.path).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }

    /// The first line that it says.
    #[track_caller]
    pub(crate) fn make(&self, args: &[&str]) -> String {
        let (ok, said, why) = self.key(args);
        assert!(ok, "{args:?}: {why}");
        let said = said.lines().next().unwrap_or_default().to_owned();
        let url = self.url.lock().unwrap().clone();
        if let Some(url) = url.filter(|_| said.starts_with("bw_") || said.starts_with("Shared")) {
            wait_until_known(&url, &said);
        }
        said
    }

    /// Rules for everything under `own/`, one a right, and what they are known by.
    pub(crate) fn rights(&self) -> [(Option<&'static str>, String); 4] {
        let make = |right: Option<&'static str>| {
            let rule = right.unwrap_or("none");
            let scope = right.map_or("manage=elsewhere".into(), |right| format!("{right}=own/*"));
            let token = self.make(&["create", rule, "--queues", &scope, "--elections", &scope]);
            (right, token)
        };
        [None, Some("listen"), Some("send"), Some("manage")].map(make)
    }
}

/// The server looks at its rules now and then.
fn wait_until_known(url: &str, credential: &str) {
    let header = if credential.starts_with("Shared") {
        credential.to_owned()
    } else {
        format!("Bearer {credential}")
    };
    let agent: Agent = Agent::config_builder().http_status_as_error(false).build().into();
    loop {
        let asked = agent.get(format!("{url}/v1/queues")).header("authorization", &header);
        if asked.call().unwrap().status() != 401 {
            return;
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A running server; killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) banner: String,
    pub(crate) root: String,
    agent: Agent,
    shown: Arc<Mutex<Option<String>>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    pub(crate) fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap_or_default().replace("/v1/problems/", "")
    }
}

impl Server {
    pub(crate) fn start(folder: &Folder) -> Self {
        Self::start_with(folder, &[])
    }

    pub(crate) fn start_with(folder: &Folder, more: &[&str]) -> Self {
        let mut child = bellwether()
            .args(["serve", "--http", "127.0.0.1:0", "--wire", "127.0.0.1:0"])
            .args(["--credentials", "required", "--data"])
            .arg(folder.path())
            .args(more)
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("Ctrl-C") {
            assert_ne!(stdout.read_line(&mut banner).unwrap(), 0, "it did not start: {banner}");
        }
        let root = std::fs::read_to_string(folder.path().join("root.token")).unwrap_or_default();
        let agent = Agent::config_builder().http_status_as_error(false).build().into();
        let shown = Arc::clone(&folder.url);
        let server = Self { child, banner, root: root.trim().to_owned(), agent, shown };
        *server.shown.lock().unwrap() = Some(server.url(""));
        server
    }

    fn address(&self, scheme: &str) -> String {
        let at = self.banner.find(scheme).unwrap();
        self.banner[at..].split_whitespace().next().unwrap().to_owned()
    }

    pub(crate) fn wire(&self) -> String {
        self.address("bellwether://")
    }

    pub(crate) fn socket(&self) -> String {
        self.address("bellwether+unix:")
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address("http://"))
    }

    /// A store over the wire, for whoever shows this.
    pub(crate) async fn open(&self, credential: &str) -> Result<Bellwether, Error> {
        Open::new(self.wire()).credential(Credential::new(credential)).open().await
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let method = Method::try_from(method).unwrap();
        let mut request = Request::builder().method(method).uri(self.url(path));
        for (name, value) in headers.iter().chain(&[("content-type", "application/json")]) {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut answer = self.agent.run(request.body(body).unwrap()).unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let mut bytes = Vec::new();
        answer.body_mut().as_reader().read_to_end(&mut bytes).unwrap();
        Answer { status, headers, body: String::from_utf8_lossy(&bytes).into_owned() }
    }

    /// The same with a token.
    pub(crate) fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {token}");
        self.send(method, path, &[("authorization", &bearer)], body)
    }

    #[track_caller]
    pub(crate) fn create(&self, queue: &str) {
        let path = format!("/v1/queues/{}", queue.replace('/', "%2F"));
        let made = self.ask(&self.root, "PUT", &path, &json!({}));
        assert!(made.status < 300, "{made:?}");
    }

    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        *self.shown.lock().unwrap() = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
