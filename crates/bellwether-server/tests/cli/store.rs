//! A store in a folder of its own, and the program run on it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use bellwether::Bellwether;
use serde_json::Value;

static STORES: AtomicU32 = AtomicU32::new(0);

/// A folder that is removed in the end.
pub struct Store(PathBuf);

/// What a run of the program left.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program, with nothing of this test's surroundings that could change what it says.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    command.env_remove("BELLWETHER_SERVER").env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn run(args: &[&str]) -> Ran {
    ended(program().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

pub fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    Ran {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap(),
    }
}

impl Store {
    /// A folder without a store.
    pub fn none() -> Self {
        let nth = STORES.fetch_add(1, Ordering::Relaxed);
        let name = format!("bellwether-cli-{}-{nth}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// A store with one queue.
    pub fn with(queue: &str) -> Self {
        let store = Self::none();
        store.ok(&["queue", "create", queue, "--create"]);
        store
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.args(args).arg("--data").arg(&self.0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        ended(self.command(args).spawn().unwrap())
    }

    /// Runs it with this input.
    pub fn feed(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let fed = child.stdin.take().unwrap().write_all(input);
        // Who refuses the command line does not read the input.
        assert!(fed.is_ok() || !child.wait().unwrap().success(), "{fed:?}");
        ended(child)
    }

    /// Runs it; it ends well and has nothing to complain about.
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
        ran.stdout
    }

    /// Runs it; it ends with this code, says this much, and answers nothing.
    pub fn fails(&self, args: &[&str], code: i32, why: &str) {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{args:?} {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{args:?} says {why:?}: {}", ran.stderr);
    }

    /// The answer as JSON, one value a line.
    pub fn json_lines(&self, args: &[&str]) -> Vec<Value> {
        let args = [args, &["--output", "json"]].concat();
        self.ok(&args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The answer as one JSON value.
    pub fn json(&self, args: &[&str]) -> Value {
        let lines = self.json_lines(args);
        assert_eq!(lines.len(), 1, "{args:?}: {lines:?}");
        lines.into_iter().next().unwrap()
    }

    /// Opens it in this process, does the work, and closes it again.
    pub fn inside(&self, work: impl AsyncFnOnce(&Bellwether)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Bellwether::open(format!("file:{}", self.0.display())).await.unwrap();
            work(&store).await;
            store.close().await;
        });
    }
}
