//! What is wrong with a certificate is said at the start, by the name of the setting.

use std::os::unix::fs::PermissionsExt as _;

use crate::server::{Server, assert_says, bellwether, said};
use crate::world::World;

#[test]
fn a_bad_file_stops_the_start_and_is_named_with_its_setting() {
    let world = World::new();
    world.put("other.pem", &world.authority.issue(&["localhost"]).key);
    world.put("empty.pem", "");
    let (gone, other, empty) =
        (world.text("gone.pem"), world.text("other.pem"), world.text("empty.pem"));
    for (flag, path, words) in [
        ("--tls-cert", &gone, &["tls_cert", "flag --tls-cert", "No such file", "gone.pem"][..]),
        ("--tls-cert", &other, &["tls_cert", "no certificate in", "other.pem"]),
        ("--tls-key", &empty, &["tls_key", "no private key in", "empty.pem"]),
        ("--tls-key", &other, &["tls_key", "not the key of the first certificate"]),
        ("--tls-client-ca", &other, &["tls_client_ca", "no certificate in"]),
    ] {
        let mut command = bellwether();
        command.args(["serve", "--memory", "--http", "127.0.0.1:0", "--wire", "127.0.0.1:0"]);
        command.env("BELLWETHER_TLS_CERT", world.path("cert.pem"));
        command.env("BELLWETHER_TLS_KEY", world.path("key.pem"));
        let output = command.args([flag, path.as_str()]).output().unwrap();
        let complaint = said(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{complaint}");
        assert_says(&complaint, words);
        assert_eq!(complaint.trim().lines().count(), 1, "{complaint}");
    }
}

#[test]
fn a_key_that_everybody_can_read_is_warned_of() {
    let world = World::new();
    let everybodys = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(world.path("key.pem"), everybodys).unwrap();
    let mut server = Server::start_as(&mut world.command(&[]));
    let line = server.wait_for_log("WARN");
    assert_says(&line, &["every user of this machine", "chmod o= ", &world.text("key.pem")]);
    server.stop();
}
