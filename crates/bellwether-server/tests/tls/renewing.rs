//! Certificates are renewed while the server runs.

use rustix::process::Signal;

use crate::certificates::Authority;
use crate::server::assert_says;
use crate::world::{World, assert_unavailable, wire};

#[test]
fn a_renewed_certificate_is_shown_without_a_restart() {
    let world = World::new();
    let mut server = world.serve(&[]);
    let named = wire(&server);
    world.ok(&named, &["queue", "create", "orders"]);
    let next = Authority::new();
    world.put_identity("", &next.issue(&["localhost"]));
    server.wait_for_log("read the certificate again");
    assert_unavailable(&world.run(&named, &["queue", "list"]), &["no authority that we trust"]);
    world.put("ca.pem", &next.pem);
    assert_says(&world.ok(&named, &["queue", "list"]), &["orders"]);
    server.stop();
}

#[test]
fn what_is_put_wrong_is_logged_and_the_old_one_stays() {
    let world = World::new();
    let mut server = world.serve(&[]);
    let named = wire(&server);
    world.put("key.pem", &world.authority.issue(&["localhost"]).key);
    let line = server.wait_for_log("ERROR");
    assert_says(&line, &["tls_key", "not the key of the first certificate", "still shown"]);
    world.ok(&named, &["queue", "list"]);

    world.put("cert.pem", "nothing of the kind");
    server.signal(Signal::HUP);
    let line = server.wait_for_log("ERROR");
    assert_says(&line, &["tls_cert", "no certificate in", &world.text("cert.pem")]);
    world.ok(&named, &["queue", "list"]);

    world.put_identity("", &world.authority.issue(&["localhost", "bellwether.example"]));
    server.signal(Signal::HUP);
    server.wait_for_log("read the certificate again");
    world.ok(&named, &["queue", "list"]);
    server.stop();
}
