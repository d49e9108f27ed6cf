//! Real servers from Debian's packages, each in a folder and at a port of its own. One that is not
//! installed is a failure that says so; `./test` installs them.

#![allow(dead_code, unused_imports, reason = "no test needs all of it")]

mod etcd;
mod postgres;
mod process;
mod redis;

pub(crate) use etcd::Etcd;
pub(crate) use postgres::Postgres;
pub(crate) use process::{Process, free_ports};
pub(crate) use redis::Redis;

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// On a loaded machine the slowest of them needs a few seconds.
const START_SECONDS_MAX: u64 = 60;

/// Asks again and again until the server answers so, or has ended.
async fn until_ready(process: &mut Process, port: u16, ask: &str, wanted: &str) {
    let ready = async {
        while !answers(port, ask, wanted).await.unwrap_or(false) {
            process.must_run();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let limit = Duration::from_secs(START_SECONDS_MAX);
    let waited = tokio::time::timeout(limit, ready).await;
    assert!(waited.is_ok(), "not ready after {START_SECONDS_MAX} s:\n{}", process.log());
}

async fn answers(port: u16, ask: &str, wanted: &str) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(ask.as_bytes()).await?;
    let mut answer = vec![0; wanted.len()];
    stream.read_exact(&mut answer).await?;
    Ok(answer == wanted.as_bytes())
}
