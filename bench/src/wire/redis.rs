//! Redis Streams, doing the same: one multiplexed connection, a consumer group.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::streams::StreamReadReply;

const PORT: u16 = 17_399;

/// A running Redis; killed when the last clone is gone.
#[derive(Clone)]
pub(super) struct Redis {
    connection: MultiplexedConnection,
    _server: Arc<Running>,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }
}

impl Redis {
    pub(super) async fn start(folder: &Path, fsync: &str) -> Self {
        let folder = folder.canonicalize().expect("a folder");
        let child = Command::new("redis-server")
            .args(["--save", "", "--appendonly", "yes", "--appendfsync", fsync])
            .args(["--bind", "127.0.0.1", "--port", &PORT.to_string(), "--dir"])
            .arg(&folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let server = Arc::new(Running(child));
        let client = redis::Client::open(format!("redis://127.0.0.1:{PORT}")).expect("an address");
        let mut connection = loop {
            match client.get_multiplexed_async_connection().await {
                Ok(connection) => break connection,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let _: () = redis::cmd("XGROUP")
            .arg(&["CREATE", "bench", "group", "$", "MKSTREAM"])
            .query_async(&mut connection)
            .await
            .expect("a group");
        Self { connection, _server: server }
    }

    /// Adds, reads, acknowledges and deletes one entry after the other; how many.
    pub(super) async fn cycles(mut self, body_bytes: usize, until: Instant) -> u64 {
        let (body, mut done) = (vec![0x42u8; body_bytes], 0);
        while Instant::now() < until {
            self.cycle(&body).await;
            done += 1;
        }
        done
    }

    async fn cycle(&mut self, body: &[u8]) {
        let mut add = redis::cmd("XADD");
        add.arg("bench").arg("*").arg("body").arg(body);
        let _: String = add.query_async(&mut self.connection).await.expect("added");
        let mut read = redis::cmd("XREADGROUP");
        read.arg(&["GROUP", "group", "one", "COUNT", "1", "STREAMS", "bench", ">"]);
        let reply: StreamReadReply = read.query_async(&mut self.connection).await.expect("read");
        let id = &reply.keys[0].ids[0].id;
        let mut settle = redis::pipe();
        settle.cmd("XACK").arg("bench").arg("group").arg(id).ignore();
        settle.cmd("XDEL").arg("bench").arg(id).ignore();
        let () = settle.query_async(&mut self.connection).await.expect("settled");
    }
}
