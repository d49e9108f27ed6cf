//! No secret gets around: not into the log, not into answers, not into metrics.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::server::{Folder, Server};

#[tokio::test]
async fn a_session_with_every_kind_of_credential_leaves_none_of_them_anywhere() {
    let folder = Folder::new();
    // With the log at its most talkative.
    let server = Server::start(&folder);
    let token = folder.make(&["create", "worker", "--queues", "manage=*"]);
    let key = folder.make(&["create", "azure", "--queues", "manage=*", "--signing"]);
    let signed = folder.make(&["sign", "azure", "--for", "1h"]);
    let wrong = "bw_a-token-that-nobody-knows-and-nobody-shall-see";
    let forged = signed.replace("skn=azure", "skn=root");
    let mut said = String::new();
    for shown in [token.as_str(), signed.as_str(), wrong, &forged] {
        match server.open(shown).await {
            Ok(store) => {
                store.create_queue("orders", <_>::default()).await.unwrap();
                write!(said, "{store:?}").unwrap();
            }
            Err(why) => write!(said, "{why} {why:?}").unwrap(),
        }
        let header =
            if shown.starts_with("Shared") { shown.to_owned() } else { format!("Bearer {shown}") };
        let headers = [("authorization", header.as_str())];
        said += &server.send("PUT", "/v1/queues/orders", &headers, &json!({})).body;
        said += &server.send("GET", "/v1/queues/gone", &headers, &Value::Null).body;
    }
    said += &server.ask(&server.root, "GET", "/metrics", &Value::Null).body;
    said += &folder.key(&["list"]).1;
    said += &folder.key(&["list", "--output", "json"]).1;
    let root = server.root.clone();
    server.stop();
    for name in ["log", "audit.log"] {
        said += &std::fs::read_to_string(folder.path().join(name)).unwrap();
    }
    assert!(said.contains("create-queue") && said.contains("credential was not accepted"));
    let signature = signed.split("sig=").nth(1).unwrap().split('&').next().unwrap();
    for secret in [&token, &key, &root, wrong, signature] {
        assert!(!said.contains(secret), "{secret} got around");
    }
}
