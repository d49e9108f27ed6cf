//! The command line over TLS: whom it trusts, whom it does not, and what it then says.

use crate::certificates::Authority;
use crate::server::{Server, assert_says, bellwether, said};
use crate::world::{World, assert_unavailable, wire};

#[test]
fn commands_reach_a_server_over_tls() {
    let world = World::new();
    let server = world.serve(&["--unix-socket", &world.text("socket")]);
    assert_says(&server.banner, &["https://127.0.0.1:", "bellwethers://127.0.0.1:"]);
    let over_tls = wire(&server);
    world.ok(&over_tls, &["queue", "create", "orders"]);
    world.ok(&over_tls, &["send", "orders", "two coffees"]);
    // As variables, and with the authority among those of the system.
    for variable in ["BELLWETHER_TLS_CA", "SSL_CERT_FILE"] {
        let mut peek = bellwether();
        peek.args(["peek", "orders", "--output", "json"]).env("BELLWETHER_SERVER", &over_tls);
        let peeked = peek.env(variable, world.path("ca.pem")).output().unwrap();
        assert_says(&said(&peeked.stdout), &["two coffees"]);
    }
    // The Unix socket stays plain, whatever the environment says of TLS.
    let socket = format!("bellwether+unix:{}", world.text("socket"));
    let mut peek = bellwether();
    peek.args(["peek", "orders", "--server", &socket]).env("BELLWETHER_TLS_CA", "/nowhere");
    assert_says(&said(&peek.output().unwrap().stdout), &["two coffees"]);
    server.stop();
}

#[test]
fn a_server_that_is_not_the_one_it_should_be_is_named_with_who_must_act() {
    let world = World::new();
    let server = world.serve(&[]);
    let list = ["queue", "list"];
    let named = wire(&server);

    let mut stranger = bellwether();
    stranger.args(list).args(["--server", &named]).env("SSL_CERT_FILE", world.path("made.pem"));
    world.put("made.pem", &Authority::new().pem);
    let no_such = ["no authority that we trust", "--tls-ca", "its operator"];
    assert_unavailable(&stranger.output().unwrap(), &no_such);

    let by_number = named.replace("localhost", "127.0.0.1");
    let other_name = ["not for this name", "127.0.0.1", "localhost", "its operator"];
    assert_unavailable(&world.run(&by_number, &list), &other_name);

    let http = format!("bellwethers://localhost:{}", server.address.port());
    assert_unavailable(&world.run(&http, &list), &["not Bellwether's wire", "right port"]);

    let plain = named.replace("bellwethers:", "bellwether:");
    let mut plainly = bellwether();
    let plainly = plainly.args(list).args(["--server", &plain]).output().unwrap();
    assert_unavailable(&plainly, &["speaks TLS", "write bellwethers://"]);
    server.stop();
}

#[test]
fn an_expired_certificate_is_the_operators_to_renew() {
    let world = World::new();
    world.put_identity("", &world.authority.issue_expired(&["localhost"]));
    let server = world.serve(&[]);
    let ran = world.run(&wire(&server), &["queue", "list"]);
    assert_unavailable(&ran, &["has expired", "its operator must renew it"]);
    server.stop();
}

#[test]
fn a_server_without_tls_is_told_from_one_with_it() {
    let world = World::new();
    let server = Server::start(&["--memory"]);
    let (_, rest) = server.banner.split_once("bellwether://").unwrap();
    let at = rest.lines().next().unwrap();
    let ran = world.run(&format!("bellwethers://{at}"), &["queue", "list"]);
    assert_unavailable(&ran, &["does not speak TLS", "bellwether://", "tls_cert and tls_key"]);
    let ran = world.run(&format!("bellwether://{at}"), &["queue", "list"]);
    assert_eq!(ran.status.code(), Some(64));
    assert_says(&said(&ran.stderr), &["--tls-ca", "write bellwethers://"]);
    server.stop();
}

#[test]
fn a_client_is_known_by_the_names_in_its_certificate() {
    let world = World::new();
    let worker = world.authority.issue(&["worker.example.org", "spiffe://example.org/worker"]);
    world.put_identity("worker-", &worker);
    let mut command = world.command(&["--tls-client-ca", &world.text("ca.pem")]);
    let mut server = Server::start_as(command.env("RUST_LOG", "bellwether=debug"));
    let named = wire(&server);
    let show = |prefix: &str| {
        let (cert, key) = (format!("{prefix}cert.pem"), format!("{prefix}key.pem"));
        let (cert, key) = (world.text(&cert), world.text(&key));
        world.run(&named, &["queue", "list", "--tls-cert", &cert, "--tls-key", &key])
    };
    assert_eq!(show("worker-").status.code(), Some(0));
    let names = "names=[\"spiffe://example.org/worker\", \"worker.example.org\"]";
    server.wait_for_log(names);
    world.ok(&named, &["queue", "list"]);
    server.wait_for_log("names=[]");

    world.put_identity("stranger-", &Authority::new().issue(&["worker.example.org"]));
    let refused = ["does not accept our certificate", "tls_client_ca"];
    assert_unavailable(&show("stranger-"), &refused);
    world.put_identity("old-", &world.authority.issue_expired(&["worker.example.org"]));
    assert_unavailable(&show("old-"), &["our certificate has expired", "renew it"]);

    let half = world.run(&named, &["queue", "list", "--tls-cert", &world.text("worker-cert.pem")]);
    assert_eq!(half.status.code(), Some(64), "a certificate without its key");
    server.stop();
}
