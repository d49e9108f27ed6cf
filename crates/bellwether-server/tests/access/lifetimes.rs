//! What is revoked or over is of no use, also where a connection is open.

use std::process::Command;
use std::time::Duration;

use bellwether::{Credential, Error, Open, QueueSettings};
use serde_json::{Value, json};

use super::server::{Folder, Server};

/// Longer than it may take; what is waited for ends it earlier.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn whoever_is_revoked_is_sent_away_at_once() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let token = folder.make(&["create", "worker", "--queues", "manage=*"]);
    let store = server.open(&token).await.unwrap();
    let queue = store.create_queue("orders", QueueSettings::default()).await.unwrap();
    let waiting = queue.clone();
    let waiting = tokio::spawn(async move { waiting.receive().wait(SOON * 10).one().await });
    let url = server.url("/v1/queues/orders/receive");
    let polling = std::thread::spawn(move || {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let poll = agent.post(url).header("authorization", format!("Bearer {token}"));
        let mut told = poll.send_json(json!({ "wait_ms": 60_000 })).unwrap();
        (told.status().as_u16(), told.body_mut().read_to_string().unwrap())
    });
    // The poll has come in when there are two demands; there is no sign of it, and none is needed:
    // one that comes later is refused the same.
    folder.make(&["revoke", "worker"]);
    let ended = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    let why = ended.unwrap_err();
    // It was asked; whether something was handed out is not known.
    assert!(matches!(why, Error::Unknown(_)) && why.to_string().contains("revoked"), "{why}");
    assert!(matches!(queue.send("x").await, Err(Error::Denied { .. })), "for good");
    let (status, problem) = polling.join().unwrap();
    assert_eq!(status, 401, "{problem}");
    server.stop();
}

#[tokio::test]
async fn a_stream_ends_with_its_credential_and_others_go_on() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let token = folder.make(&["create", "watcher", "--queues", "listen=orders"]);
    let url = server.url("/v1/changes?only=queue&name=orders");
    let reading = std::thread::spawn(move || {
        let stream = ureq::get(url).header("authorization", format!("Bearer {token}"));
        stream.call().unwrap().body_mut().read_to_string().unwrap()
    });
    let root = server.open(&server.root).await.unwrap();
    folder.make(&["revoke", "watcher"]);
    let read = tokio::task::spawn_blocking(|| reading.join()).await.unwrap();
    // Whether it began before is not known; if so it has ended.
    assert!(read.is_err() || read.is_ok_and(|read| read.contains("begin")));
    assert!(root.queues().await.is_ok(), "nobody else is touched");
    server.stop();
}

#[tokio::test]
async fn less_rights_end_what_was_begun_with_more() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let path = folder.path().join("keys.json");
    let token = folder.make(&["create", "worker", "--queues", "listen=*"]);
    let store = server.open(&token).await.unwrap();
    let rules = std::fs::read_to_string(&path).unwrap();
    let fewer = rules.replace("listen=*", "listen=orders");
    assert_ne!(rules, fewer);
    std::fs::write(&path, fewer).unwrap();
    let ended = async {
        while !matches!(store.queues().await, Err(Error::Denied { .. })) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, ended).await.unwrap();
    assert!(server.open(&token).await.is_ok(), "it is known, for less");
    // A file that makes no sense changes nothing.
    std::fs::write(&path, "{").unwrap();
    tokio::time::sleep(Duration::from_millis(1000)).await;
    assert!(server.open(&token).await.is_ok());
    server.stop();
}

#[tokio::test]
async fn a_signature_ends_by_itself_and_its_key_can_be_changed() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    folder.make(&["create", "azure", "--queues", "manage=*", "--signing"]);
    let first = folder.make(&["sign", "azure", "--for", "1h"]);
    let second = folder.make(&["sign", "azure", "--for", "1h", "--second"]);
    let narrow = folder.make(&["sign", "azure", "--for", "1h", "--name", "orders"]);
    let short = folder.make(&["sign", "azure", "--for", "2s"]);
    let store = server.open(&first).await.unwrap();
    store.create_queue("orders", QueueSettings::default()).await.unwrap();
    assert_eq!(server.open(&second).await.unwrap().queues().await.unwrap().len(), 1);
    let narrowed = server.open(&narrow).await.unwrap();
    assert!(narrowed.queues().await.is_err(), "only one name");
    assert!(narrowed.queue("orders").unwrap().info().await.is_ok());
    assert!(narrowed.queue("mail").unwrap().send("x").await.is_err());
    let over_http = |signature: &str| {
        server
            .send("GET", "/v1/queues/orders", &[("authorization", signature)], &Value::Null)
            .status
    };
    assert_eq!((over_http(&first), over_http(&narrow)), (200, 200));
    // One more key: what was signed with the older one of the two ends, the other one stays.
    folder.make(&["create", "azure", "--signing"]);
    let over = async {
        while !matches!(server.open(&second).await, Err(Error::Denied { .. })) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        while over_http(&short) != 401 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, over).await.unwrap();
    assert!(server.open(&first).await.is_ok(), "it is the older one now");
    assert!(store.queues().await.is_ok(), "on the open connection, too");
    server.stop();
}

/// Made by another program, in another language, from what is documented alone.
#[tokio::test]
async fn a_signature_that_python_made_is_believed() {
    const PROGRAM: &str = "\
import base64, hashlib, hmac, sys, time, urllib.parse
uri, rule, key = sys.argv[1:]
sr = urllib.parse.quote_plus(uri)
se = str(int(time.time()) + 600)
sig = base64.b64encode(hmac.new(key.encode(), f'{sr}\\n{se}'.encode(), hashlib.sha256).digest())
print(f'SharedAccessSignature sr={sr}&sig={urllib.parse.quote_plus(sig)}&se={se}&skn={rule}')";
    let folder = Folder::new();
    let server = Server::start(&folder);
    server.create("orders");
    let key = folder.make(&["create", "azure", "--queues", "listen=*", "--signing"]);
    // When one of its own is believed, so are others.
    folder.make(&["sign", "azure", "--for", "1h"]);
    let sign = |key: &str, uri: &str| {
        let made = Command::new("python3").args(["-c", PROGRAM, uri, "azure", key]).output();
        String::from_utf8(made.unwrap().stdout).unwrap().trim().to_owned()
    };
    let whole = server.open(&sign(&key, "sb://localhost/")).await.unwrap();
    assert_eq!(whole.queues().await.unwrap().len(), 1);
    let one = server.open(&sign(&key, "https://ns.servicebus.windows.net/orders")).await.unwrap();
    assert!(one.queue("orders").unwrap().info().await.is_ok() && one.queues().await.is_err());
    let forged = server.open(&sign("another key", "sb://localhost/")).await;
    assert!(matches!(forged, Err(Error::Denied { .. })));
    server.stop();
}

#[tokio::test]
async fn a_credential_in_a_file_can_be_replaced_while_the_program_runs() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let place = folder.path().join("mine");
    std::fs::write(&place, folder.make(&["create", "worker", "--queues", "manage=*"])).unwrap();
    let open = Open::new(server.wire()).credential(Credential::file(&place)).patience(SOON);
    let store = open.open().await.unwrap();
    let queue = store.create_queue("orders", QueueSettings::default()).await.unwrap();
    let next = folder.make(&["create", "worker"]);
    std::fs::write(&place, next).unwrap();
    let list = folder.key(&["list", "--output", "json"]).1;
    let list: Value = serde_json::from_str(&list).unwrap();
    let worker = list.as_array().unwrap().iter().find(|rule| rule["rule"] == "worker").unwrap();
    folder.make(&["revoke", "worker", "--token", worker["tokens"][0].as_str().unwrap()]);
    let kept_going = async {
        for _ in 0..10 {
            queue.send("x").await.unwrap();
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    };
    tokio::time::timeout(SOON, kept_going).await.unwrap();
    server.stop();
}
