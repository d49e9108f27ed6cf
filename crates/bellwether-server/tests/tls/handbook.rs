//! The commands of the handbook make certificates that work.

use std::process::Command;

use crate::server::{Folder, Server, assert_says, bellwether, said};
use crate::world::wire;

#[test]
fn the_commands_of_the_handbook_make_certificates_that_work() {
    let handbook = include_str!("../../../../docs/operations.md");
    let (_, section) = handbook.split_once("\n### TLS\n").unwrap();
    let (_, commands) = section.split_once("```sh\n").unwrap();
    let (commands, _) = commands.split_once("```\n").unwrap();
    let folder = Folder::new();
    std::fs::create_dir(&folder.0).unwrap();
    let mut shell = Command::new("sh");
    let made = shell.args(["-e", "-c", commands]).current_dir(&folder.0).output().unwrap();
    assert!(made.status.success(), "{}", said(&made.stderr));

    let mut serve = bellwether();
    serve.args(["serve", "--memory", "--tls-cert", "server.pem", "--tls-key", "server.key"]);
    serve.args(["--tls-client-ca", "ca.pem"]).current_dir(&folder.0);
    let mut server = Server::start_as(serve.env("RUST_LOG", "bellwether=debug"));
    let mut list = bellwether();
    list.args(["queue", "list", "--server", &wire(&server), "--tls-ca", "ca.pem"]);
    list.args(["--tls-cert", "worker.pem", "--tls-key", "worker.key"]).current_dir(&folder.0);
    let listed = list.output().unwrap();
    assert!(listed.status.success(), "{}", said(&listed.stderr));
    let line = server.wait_for_log("hands were shaken");
    assert_says(&line, &["spiffe://example.org/worker"]);
    server.stop();
}
