//! ZooKeeper, one server, from Debian's package `zookeeper`.

use std::path::Path;

use crate::servers::{Process, free_ports};

pub(crate) const JAR: &str = "/usr/share/java/zookeeper.jar";
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

#[derive(Debug)]
pub(crate) struct ZooKeeper {
    pub(crate) process: Process,
    port: u16,
}

impl ZooKeeper {
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    /// With lines of `zoo.cfg`.
    pub(crate) async fn start_with(lines: &str) -> Self {
        assert!(Path::new(JAR).exists(), "there is no {JAR}; tools/lease-servers installs it");
        let mut process = Process::new("zookeeper", None);
        let [port] = free_ports();
        let folder = process.folder.display().to_string();
        let settings = format!(
            "tickTime=1000\ndataDir={folder}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\nmaxClientCnxns=0\n{lines}"
        );
        let file = process.folder.join("zoo.cfg");
        std::fs::write(&file, settings).unwrap();
        let arguments =
            ["-Xmx128m", "-XX:+UseSerialGC", "-cp", JAR, MAIN, &file.display().to_string()];
        process.start("java", arguments.map(str::to_owned).to_vec());
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
