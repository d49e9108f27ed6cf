//! Servers that elections are tested on and that Debian alone does not bring: `tools/lease-servers`
//! installs them. Each runs in a folder and at a port of its own; one that is not there is a failure.

#![allow(dead_code, reason = "no test needs all of it")]

mod azurite;
mod nats;
mod zookeeper;

pub(crate) use azurite::Azurite;
pub(crate) use nats::Nats;
pub(crate) use zookeeper::ZooKeeper;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::servers::Process;

/// On a loaded machine the slowest of them needs a few seconds.
const START_SECONDS_MAX: u64 = 90;

/// What `tools/lease-servers` installed in the build folder.
fn installed(path: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tools").join(path);
    assert!(
        path.exists(),
        "there is no {}; tools/lease-servers installs it, as ./test does",
        path.display()
    );
    path.display().to_string()
}

/// Until somebody listens there, or the server has ended.
async fn until_listening(process: &mut Process, port: u16) {
    until(process, || async move { TcpStream::connect(("127.0.0.1", port)).await.is_ok() }).await;
}

/// Until it answers as an HTTP server does: the port alone may be somebody else's.
async fn until_http(process: &mut Process, port: u16) {
    let answers = || async move {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await?;
        Ok::<_, std::io::Error>(&answer == b"HTTP/")
    };
    until(process, || async move { answers().await.unwrap_or(false) }).await;
}

async fn until<F: Future<Output = bool>>(process: &mut Process, ready: impl Fn() -> F) {
    let readying = async {
        while !ready().await {
            process.must_run();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let limit = Duration::from_secs(START_SECONDS_MAX);
    let waited = tokio::time::timeout(limit, readying).await;
    assert!(waited.is_ok(), "not ready after {START_SECONDS_MAX} s:\n{}", process.log());
    process.must_run();
}
