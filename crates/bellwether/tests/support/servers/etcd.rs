//! etcd, one member, from the package `etcd-server`.

use super::process::{Process, free_ports};

#[derive(Debug)]
pub(crate) struct Etcd {
    pub(crate) process: Process,
    port: u16,
}

impl Etcd {
    pub(crate) async fn start() -> Self {
        let mut process = Process::new("etcd", None);
        let [port, peers] = free_ports();
        let (clients, peers) =
            (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peers}"));
        let data = process.folder.join("data").display().to_string();
        let arguments = [
            ("--name", "one"),
            ("--data-dir", &data),
            ("--listen-client-urls", &clients),
            ("--advertise-client-urls", &clients),
            ("--listen-peer-urls", &peers),
            ("--initial-advertise-peer-urls", &peers),
            ("--initial-cluster", &format!("one={peers}")),
            // It elects itself; there is nobody to wait for.
            ("--heartbeat-interval", "20"),
            ("--election-timeout", "200"),
        ];
        let arguments = arguments.map(|(name, value)| format!("{name}={value}"));
        process.start("etcd", arguments.to_vec());
        let mut etcd = Self { process, port };
        etcd.ready().await;
        etcd
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Kills it, starts it again on what it has kept, and waits until it answers.
    pub(crate) async fn restart(&mut self) {
        self.process.kill();
        self.process.start_again();
        self.ready().await;
    }

    async fn ready(&mut self) {
        let ask = "POST /v3/kv/range HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\
                   Content-Length: 14\r\n\r\n{\"key\":\"YQ==\"}";
        super::until_ready(&mut self.process, self.port, ask, "HTTP/1.1 200").await;
    }
}
