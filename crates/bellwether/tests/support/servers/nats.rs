//! nats-server with JetStream, from Python's package index: Debian's is too old to give a key a time to live.

use crate::servers::{Process, free_ports};

#[derive(Debug)]
pub(crate) struct Nats {
    pub(crate) process: Process,
    port: u16,
}

impl Nats {
    pub(crate) async fn start() -> Self {
        let mut process = Process::new("nats", None);
        let [port] = free_ports();
        let (port_text, folder) = (port.to_string(), process.folder.display().to_string());
        let arguments = ["-a", "127.0.0.1", "-p", &port_text, "-js", "-sd", &folder];
        let program = super::installed("nats/bin/nats-server");
        process.start(&program, arguments.map(str::to_owned).to_vec());
        super::until_listening(&mut process, port).await;
        Self { process, port }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Kills it, starts it again on what it has kept, and waits until it answers.
    pub(crate) async fn restart(&mut self) {
        self.process.kill();
        self.process.start_again();
        super::until_listening(&mut self.process, self.port).await;
    }
}
