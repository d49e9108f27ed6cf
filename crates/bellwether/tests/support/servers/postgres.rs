//! PostgreSQL, from the package `postgresql`.

use std::fs;

use rustix::process::{Signal, geteuid};
use tokio_postgres::{Client, NoTls};

use super::process::{Process, free_ports};

/// Where Debian keeps the programs, one folder a version.
const VERSIONS: &str = "/usr/lib/postgresql";

#[derive(Debug)]
pub(crate) struct Postgres {
    pub(crate) process: Process,
    port: u16,
}

impl Postgres {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With settings of `postgresql.conf`, each as `name=value`.
    pub(crate) async fn start_with(settings: &[&str]) -> Self {
        // It refuses to run as root.
        let user = geteuid().is_root().then_some("postgres");
        let mut process = Process::new("postgres", user);
        let data = process.folder.join("data").display().to_string();
        let bin = bin();
        let initdb = ["-D", &data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync"];
        process.run_as_server(&format!("{bin}/initdb"), &initdb.map(str::to_owned));
        let [port] = free_ports();
        let mut arguments = ["-D", &data, "-p", &port.to_string(), "-h", "127.0.0.1", "-k", ""]
            .map(str::to_owned)
            .to_vec();
        arguments.extend(settings.iter().flat_map(|setting| ["-c".into(), (*setting).into()]));
        process.start(&format!("{bin}/postgres"), arguments);
        let mut postgres = Self { process, port };
        postgres.ready().await;
        postgres
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// A connection of one's own.
    pub(crate) async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        // Ends with the client, or with the server; the client is told.
        tokio::spawn(connection);
        client
    }

    /// Stops it as a crash does, starts it again on what it has kept, and waits until it answers.
    pub(crate) async fn restart(&mut self) {
        self.stop();
        self.process.start_again();
        self.ready().await;
    }

    /// With SIGQUIT: it takes its own processes with it and leaves everything else to recovery.
    pub(crate) fn stop(&mut self) {
        if self.process.is_started() {
            self.process.signal(Signal::QUIT);
            self.process.wait();
        }
    }

    async fn ready(&mut self) {
        let ready = async {
            while tokio_postgres::connect(&self.url(), NoTls).await.is_err() {
                self.process.must_run();
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let limit = std::time::Duration::from_secs(super::START_SECONDS_MAX);
        let waited = tokio::time::timeout(limit, ready).await;
        assert!(waited.is_ok(), "not ready:\n{}", self.process.log());
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The folder of the newest version's programs.
fn bin() -> String {
    let found = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let versions = found.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let newest = versions.max().expect("PostgreSQL is needed (Debian's package postgresql)");
    format!("{VERSIONS}/{newest}/bin")
}
