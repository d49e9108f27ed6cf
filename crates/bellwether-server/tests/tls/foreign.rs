//! Other people's TLS: Python's, which is OpenSSL, and curl's.

use std::process::Command;

use crate::server::{assert_says, said};
use crate::world::World;

const ASK: &str = r#"
import http.client, ssl, sys
port, authorities, version = sys.argv[1:]
context = ssl.create_default_context(cafile=authorities)
context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
context.set_alpn_protocols(["h2", "http/1.1"])
connection = http.client.HTTPSConnection("localhost", int(port), context=context)
for method, path, body in [
    ("PUT", "/v1/queues/orders", None),
    ("POST", "/v1/queues/orders/messages", b"two coffees" * 10_000),
    ("GET", "/v1/queues/orders", None),
]:
    connection.request(method, path, body, {"content-type": "text/plain"} if body else {})
    answer = connection.getresponse()
    print(answer.status, answer.read())
    print(connection.sock.version(), connection.sock.selected_alpn_protocol())
"#;

#[test]
fn python_speaks_https_in_both_versions() {
    let world = World::new();
    let server = world.serve(&[]);
    for (version, spoken) in [("TLSv1_2", "TLSv1.2 http/1.1"), ("TLSv1_3", "TLSv1.3 http/1.1")] {
        let asked = Command::new("python3")
            .args(["-c", ASK, &server.address.port().to_string()])
            .args([&world.text("ca.pem"), version])
            .output()
            .expect("python3 asks over TLS; install Python 3.11 or later");
        let (told, complaint) = (said(&asked.stdout), said(&asked.stderr));
        assert!(asked.status.success(), "{complaint}");
        assert_says(&told, &["201 ", "200 ", "orders", spoken]);
    }
    server.stop();
}

#[test]
fn curl_speaks_https() {
    let world = World::new();
    let server = world.serve(&[]);
    let url = format!("https://localhost:{}/livez", server.address.port());
    let asked = Command::new("curl")
        .args(["-sS", "--cacert", &world.text("ca.pem"), &url])
        .output()
        .expect("curl, which ./test installs");
    assert_eq!(said(&asked.stdout).trim(), "alive", "{}", said(&asked.stderr));
    server.stop();
}
