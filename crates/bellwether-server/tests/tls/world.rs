//! A server with TLS, and what is needed to reach it.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::certificates::{Authority, Identity};
use crate::server::{Folder, Server, assert_says, bellwether, said};

/// Files in a folder of their own.
pub(crate) struct World {
    pub(crate) folder: Folder,
    pub(crate) authority: Authority,
}

impl World {
    /// With a certificate for `localhost`, as `cert.pem` and `key.pem`, and its authority's, `ca.pem`.
    pub(crate) fn new() -> Self {
        let world = Self { folder: Folder::new(), authority: Authority::new() };
        std::fs::create_dir(&world.folder.0).unwrap();
        world.put("ca.pem", &world.authority.pem);
        world.put_identity("", &world.authority.issue(&["localhost"]));
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Puts a file in its place at once, as who renews certificates should.
    pub(crate) fn put(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let made = self.path("made");
        std::fs::write(&made, text).unwrap();
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::fs::rename(made, self.path(name)).unwrap();
    }

    pub(crate) fn put_identity(&self, prefix: &str, identity: &Identity) {
        self.put(&format!("{prefix}cert.pem"), &identity.cert);
        self.put(&format!("{prefix}key.pem"), &identity.key);
    }

    /// `serve` with TLS, in memory.
    pub(crate) fn command(&self, more: &[&str]) -> Command {
        let mut command = bellwether();
        command.args(["serve", "--memory", "--tls-cert", &self.text("cert.pem")]);
        command.args(["--tls-key", &self.text("key.pem")]).args(more);
        command
    }

    pub(crate) fn serve(&self, more: &[&str]) -> Server {
        Server::start_as(&mut self.command(more))
    }

    /// One that asks for credentials, and knows clients by the certificates of its authority.
    pub(crate) fn serve_the_known(&self) -> Server {
        let (keys, ca) = (self.text("keys.json"), self.text("ca.pem"));
        self.serve(&["--credentials", "required", "--keys", &keys, "--tls-client-ca", &ca])
    }

    /// Runs a command that trusts the authority, on a server.
    pub(crate) fn run(&self, server: &str, args: &[&str]) -> Output {
        let ca = self.text("ca.pem");
        bellwether().args(args).args(["--server", server, "--tls-ca", &ca]).output().unwrap()
    }

    /// The same, and it succeeds.
    pub(crate) fn ok(&self, server: &str, args: &[&str]) -> String {
        let ran = self.run(server, args);
        assert!(ran.status.success(), "{args:?}: {}", said(&ran.stderr));
        said(&ran.stdout)
    }
}

/// The address of the wire, under the name that is in the certificate.
pub(crate) fn wire(server: &Server) -> String {
    let (_, rest) = server.banner.split_once("bellwethers://").unwrap();
    let port = rest.lines().next().unwrap().rsplit_once(':').unwrap().1;
    format!("bellwethers://localhost:{port}")
}

/// It ends with 69 and one sentence with these words.
pub(crate) fn assert_unavailable(ran: &Output, words: &[&str]) {
    let complaint = said(&ran.stderr);
    assert_eq!(ran.status.code(), Some(69), "{complaint}");
    assert_says(&complaint, words);
    assert_eq!(complaint.trim().lines().count(), 1, "{complaint}");
}
