//! Whoever is known by a name in a certificate may do what its rule says, and nothing else.

use std::process::{Command, Output};

use crate::server::{Server, assert_says, bellwether, said};
use crate::world::{World, wire};

const ASK: &str = r#"
import http.client, ssl, sys
port, authorities, prefix = sys.argv[1:]
context = ssl.create_default_context(cafile=authorities)
context.load_cert_chain(prefix + "cert.pem", prefix + "key.pem")
connection = http.client.HTTPSConnection("localhost", int(port), context=context)
for queue in ["own", "other"]:
    headers = {"content-type": "text/plain"}
    connection.request("POST", f"/v1/queues/{queue}/messages", b"two coffees", headers)
    answer = connection.getresponse()
    answer.read()
    print(queue, answer.status)
"#;

/// Makes a certificate and the rule that it is known by.
fn make(world: &World, rule: &str, name: &str, queues: &str) {
    world.put_identity(&format!("{rule}-"), &world.authority.issue(&[name]));
    let mut create = bellwether();
    create.args(["key", "create", rule, "--queues", queues, "--certificate", name]);
    let made = create.args(["--keys", &world.text("keys.json")]).output().unwrap();
    assert!(made.status.success(), "{}", said(&made.stderr));
}

fn run(world: &World, server: &Server, who: &str, args: &[&str]) -> Output {
    let (cert, key) = (format!("{who}-cert.pem"), format!("{who}-key.pem"));
    let shown = ["--tls-cert", &world.text(&cert), "--tls-key", &world.text(&key)];
    world.run(&wire(server), &[args, &shown].concat())
}

#[test]
fn a_name_in_a_certificate_is_a_credential() {
    let world = World::new();
    make(&world, "operator", "Operator.example.org", "manage=*");
    make(&world, "worker", "spiffe://example.org/worker", "send,listen=own");
    world.put_identity("stranger-", &world.authority.issue(&["spiffe://example.org/stranger"]));
    let server = world.serve_the_known();
    for queue in ["own", "other"] {
        let made = run(&world, &server, "operator", &["queue", "create", queue]);
        assert!(made.status.success(), "{}", said(&made.stderr));
    }

    let sent = run(&world, &server, "worker", &["send", "own", "one coffee"]);
    assert!(sent.status.success(), "{}", said(&sent.stderr));
    let received = run(&world, &server, "worker", &["receive", "own", "--complete"]);
    assert_says(&said(&received.stdout), &["one coffee"]);
    let refused = run(&world, &server, "worker", &["send", "other", "one coffee"]);
    assert_eq!(refused.status.code(), Some(77), "{}", said(&refused.stderr));
    assert_says(&said(&refused.stderr), &["other", "send"]);

    // One whom the authority knows and no rule does, and one who shows nothing.
    let unknown = run(&world, &server, "stranger", &["send", "own", "one coffee"]);
    let nobody = world.run(&wire(&server), &["send", "own", "one coffee"]);
    for turned in [unknown, nobody] {
        assert_eq!(turned.status.code(), Some(77), "{}", said(&turned.stderr));
        assert_says(&said(&turned.stderr), &["does not let us in"]);
    }

    for (who, own, other) in [("worker", 201, 403), ("stranger", 401, 401), ("operator", 201, 201)]
    {
        let asked = Command::new("python3")
            .args(["-c", ASK, &server.address.port().to_string()])
            .args([&world.text("ca.pem"), &world.text(&format!("{who}-"))])
            .output()
            .expect("python3 asks over TLS; install Python 3.11 or later");
        assert!(asked.status.success(), "{}", said(&asked.stderr));
        assert_eq!(said(&asked.stdout), format!("own {own}\nother {other}\n"), "{who}");
    }
    server.stop();
}
