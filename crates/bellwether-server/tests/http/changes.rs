//! Server-sent events.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::server::Server;

/// One stream of events, read line by line.
struct Events(BufReader<TcpStream>);

#[derive(Debug)]
struct Event {
    name: String,
    id: String,
    data: Value,
}

impl Events {
    fn open(server: &Server, query: &str, last: Option<&str>) -> Self {
        let address = server.address.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let last = last.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        write!(stream, "GET /v1/changes{query} HTTP/1.1\r\nHost: {address}\r\n{last}\r\n").unwrap();
        Self(BufReader::new(stream))
    }

    fn next(&mut self) -> Event {
        let mut event = Event { name: String::new(), id: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream goes on");
            match line.trim_end().split_once(": ") {
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("id", id)) => id.clone_into(&mut event.id),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                _ if line.trim_end().is_empty() && !event.name.is_empty() => return event,
                _ => {}
            }
        }
    }

    /// The next event that is so.
    fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.next();
            if wanted(&event) {
                return event;
            }
        }
    }
}

#[test]
fn changes_of_leases_and_queues_are_told_and_a_stream_goes_on_where_it_was() {
    let server = Server::in_memory();
    let mut events = Events::open(&server, "", None);
    assert_eq!(events.next().name, "begin");
    let granted = server.post("/v1/leases/leader/acquire", &json!({ "ttl_ms": null })).is(200);
    let event = events.until(|event| event.name == "lease");
    assert_eq!(event.data["name"], "leader");
    assert_eq!(event.data["lease"]["term"], granted["term"]);
    drop(events);
    server.post("/v1/leases/leader/release", &json!({ "id": granted["id"] }));
    let mut events = Events::open(&server, "?only=lease&name=leader", Some(&event.id));
    let begin = events.next();
    assert_eq!((&begin.name, &begin.id), (&"begin".to_owned(), &event.id));
    let event = events.next();
    assert_eq!(event.data["lease"]["state"], "available", "what happened while it was away");
    let mut events = Events::open(&server, "", Some("other-7"));
    assert_eq!(events.next().name, "gap", "another life of the server");
    server.create("orders", &json!({}));
    let event = events.until(|event| event.name == "queue");
    assert_eq!(event.data["queue"]["queue"], "orders");
    server.delete("/v1/queues/orders").is(204);
    events.until(|event| event.name == "queue" && event.data["queue"].is_null());
}

#[test]
fn a_server_that_stops_ends_its_streams() {
    let server = Server::in_memory();
    let mut events = Events::open(&server, "", None);
    events.next();
    server.stop();
    let mut rest = String::new();
    while events.0.read_line(&mut rest).unwrap() > 0 {}
    assert!(!rest.contains("event:"), "{rest}");
}
