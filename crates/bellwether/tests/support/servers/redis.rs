//! Redis, which flushes every write before it answers, from the package `redis-server`.

use super::process::{Process, free_ports};

#[derive(Debug)]
pub(crate) struct Redis {
    pub(crate) process: Process,
    port: u16,
}

impl Redis {
    pub(crate) async fn start() -> Self {
        let mut process = Process::new("redis", None);
        let [port] = free_ports();
        let settings = [
            ("--port", port.to_string()),
            ("--bind", "127.0.0.1".into()),
            ("--dir", process.folder.display().to_string()),
            ("--appendonly", "yes".into()),
            ("--appendfsync", "always".into()),
            ("--save", String::new()),
        ];
        let arguments = settings.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        process.start("redis-server", arguments.collect());
        let mut redis = Self { process, port };
        redis.ready().await;
        redis
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills it, starts it again on what it has kept, and waits until it answers.
    pub(crate) async fn restart(&mut self) {
        self.process.kill();
        self.process.start_again();
        self.ready().await;
    }

    async fn ready(&mut self) {
        super::until_ready(&mut self.process, self.port, "PING\r\n", "+PONG").await;
    }
}
