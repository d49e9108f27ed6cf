//! Azurite, Microsoft's emulator of Azure Storage, from npm.

use rustix::process::Signal;

use crate::servers::{Process, free_ports};

#[derive(Debug)]
pub(crate) struct Azurite {
    pub(crate) process: Process,
    port: u16,
}

impl Azurite {
    pub(crate) async fn start() -> Self {
        let mut process = Process::new("azurite", None);
        let [port] = free_ports();
        let location = process.folder.display().to_string();
        let port_text = port.to_string();
        let arguments =
            ["--blobPort", &port_text, "--location", &location, "--silent", "--disableTelemetry"];
        let program = super::installed("azurite/node_modules/.bin/azurite-blob");
        process.start(&program, arguments.map(str::to_owned).to_vec());
        super::until_http(&mut process, port).await;
        Self { process, port }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Stops it, starts it again on what it has kept, and waits until it answers. It is not killed:
    /// it writes down what it knows every few seconds and when it is told to end, and would forget
    /// leases that the service it stands for never forgets.
    pub(crate) async fn restart(&mut self) {
        self.process.signal(Signal::TERM);
        self.process.wait();
        self.process.start_again();
        super::until_http(&mut self.process, self.port).await;
    }
}
