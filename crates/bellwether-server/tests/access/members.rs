//! A member of one rule does not answer to another one.

use bellwether::core::command::{Command, Request};
use bellwether::core::name::RequestNumber;
use bellwether::{Bellwether, Error, Refusal};
use serde_json::{Value, json};

use super::server::{Folder, Server};

async fn ask(store: &Bellwether, request: Request) -> Result<(), Error> {
    store.call(request, Vec::new()).await.map(drop)
}

#[tokio::test]
async fn over_the_wire_by_its_slot_and_by_its_id() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let all = ["--queues", "manage=*", "--elections", "manage=*"];
    let one = folder.make(&[&["create", "one"][..], &all].concat());
    let two = folder.make(&[&["create", "two"][..], &all].concat());
    let (one, two) = (server.open(&one).await.unwrap(), server.open(&two).await.unwrap());
    let (number, answered_below) = (RequestNumber(0), RequestNumber(0));
    let leave = Request {
        member: one.slot(),
        number,
        answered_below,
        command: Command::Leave,
        fence: None,
    };
    let told = ask(&two, leave.clone()).await;
    assert!(matches!(told, Err(Error::Refused(Refusal::MemberGone))), "{told:?}");
    let join = Command::Join { id: one.member(), metadata: String::new(), ttl_ms: 1000 };
    let join = Request { member: two.slot(), command: join, ..leave.clone() };
    let told = ask(&two, join).await;
    assert!(matches!(told, Err(Error::Refused(Refusal::MemberGone))), "{told:?}");
    let members = one.members().await.unwrap();
    let shown = members.iter().find(|member| member.id == one.member()).unwrap();
    assert!(shown.metadata.ends_with("(rule one)"), "{}", shown.metadata);
    assert!(ask(&one, leave).await.is_ok(), "its own");
    server.stop();
}

#[test]
fn over_http_and_after_a_restart() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let grant = ["--queues", "manage=*", "--elections", "manage=*"];
    let one = folder.make(&[&["create", "one"][..], &grant].concat());
    let two = folder.make(&[&["create", "two"][..], &grant].concat());
    server.create("orders");
    let made = server.ask(&one, "POST", "/v1/members", &json!({ "ttl_ms": 3_600_000 }));
    let member = made.json()["member"].as_str().unwrap().to_owned();
    let beat = format!("/v1/members/{member}/heartbeat");
    let check = |server: &Server| {
        assert_eq!(server.ask(&one, "POST", &beat, &json!({})).status, 200);
        assert_eq!(server.ask(&two, "POST", &beat, &json!({})).kind(), "member-gone");
        let bearer = format!("Bearer {two}");
        let named = [("authorization", bearer.as_str()), ("bellwether-member", &member)];
        let told = server.send("POST", "/v1/queues/orders/receive", &named, &Value::Null);
        assert_eq!(told.kind(), "member-gone");
    };
    check(&server);
    server.stop();
    let server = Server::start(&folder);
    check(&server);
    // Keys of one are not those of another, either.
    let send = |token: &str, body: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k")];
        server.send("POST", "/v1/queues/orders/messages", &headers, &json!({ "body": body }))
    };
    let (first, other, again) = (send(&one, "1"), send(&two, "2"), send(&one, "1"));
    assert_eq!((first.status, other.status), (again.status, again.status));
    assert_eq!(first.body, again.body);
    assert_ne!(first.body, other.body);
    server.stop();
}
