//! Every operation of the description, by everybody, on one's own name and on another's.

use bellwether::{Error, Refusal};
use serde_json::{Value, json};

use super::server::{Folder, Server};

/// What every operation needs, and a body that it takes. `all`: on everything; `any`: nothing but to
/// be let in; `open`: nothing at all.
fn needs(method: &str, path: &str) -> (&'static str, Value) {
    const ID: &str = "00000000000000000000000000000007";
    let token = "00000000000000010000000100000001";
    let settle = json!({ "settlements": [{ "lock_token": token, "disposition": "complete" }] });
    match (method, path) {
        (_, "/v1/problems" | "/v1/problems/{problem}") => ("open", Value::Null),
        ("GET", "/v1/queues" | "/v1/leases" | "/v1/elections" | "/v1/members" | "/v1/stats") => {
            ("all", Value::Null)
        }
        ("GET", "/v1/changes" | "/v1/backup" | "/v1/jobs" | "/v1/schedules") => {
            ("all", Value::Null)
        }
        ("PUT", "/v1/jobs/{job}") => ("send", json!({ "queue": "own/queue" })),
        ("POST", "/v1/jobs/{job}/items") => ("send", json!({ "messages": [{ "body": "one" }] })),
        ("POST", "/v1/jobs/{job}/end") => ("manage", json!({ "how": "cancel" })),
        ("DELETE", "/v1/jobs/{job}") => ("manage", Value::Null),
        // To look at one needs what it takes to look at all of them.
        ("GET", "/v1/schedules/{schedule}") => ("all", Value::Null),
        ("PUT", "/v1/schedules/{schedule}") => {
            ("manage", json!({ "rule": "@daily", "queue": "own/queue" }))
        }
        (_, path) if path.starts_with("/v1/schedules/") => ("manage", Value::Null),
        ("POST", "/v1/queues/{queue}/complete") => ("listen", json!({ "lock_token": token })),
        ("POST", "/v1/members") => ("any", json!({ "ttl_ms": 1000 })),
        (_, "/v1/members/{member}/heartbeat" | "/v1/members/{member}") => ("any", json!({})),
        ("DELETE", "/v1/queues/{queue}") => ("manage", Value::Null),
        ("PUT" | "PATCH", "/v1/queues/{queue}")
        | (
            "POST",
            "/v1/queues/{queue}/purge"
            | "/v1/queues/{queue}/dead-letters/purge"
            | "/v1/queues/{queue}/dead-letters/redrive"
            | "/v1/leases/{lease}/break"
            | "/v1/elections/{election}/step-down"
            | "/v1/elections/{election}/pause"
            | "/v1/elections/{election}/resume",
        ) => ("manage", json!({})),
        ("POST", "/v1/elections/{election}/hand-over") => ("manage", json!({ "to": ID })),
        ("POST", "/v1/queues/{queue}/messages") => ("send", json!({ "body": "one" })),
        ("POST", "/v1/queues/{queue}/messages/batch") => {
            ("send", json!({ "messages": [{ "body": "one" }] }))
        }
        ("POST", "/v1/queues/{queue}/cancel") => ("send", json!({ "sequences": ["1"] })),
        ("POST", path) if path.ends_with("/receive-deferred") => {
            ("listen", json!({ "sequences": ["1"] }))
        }
        ("POST", path) if path.ends_with("/settle") => ("listen", settle),
        ("POST", "/v1/queues/{queue}/renew" | "/v1/queues/{queue}/dead-letters/renew") => {
            ("listen", json!({ "lock_tokens": [token] }))
        }
        ("POST", path) if path.ends_with("/receive") => ("listen", json!({})),
        ("POST", "/v1/queues/{queue}/sessions/accept") => ("listen", json!({ "session": "s" })),
        (_, path) if path.starts_with("/v1/queues/{queue}/sessions/") => ("listen", Value::Null),
        ("POST", "/v1/leases/{lease}/acquire") => ("send", json!({ "ttl_ms": 60_000, "id": ID })),
        ("POST", "/v1/leases/{lease}/change") => ("send", json!({ "id": ID, "to": ID })),
        ("POST", "/v1/leases/{lease}/renew" | "/v1/leases/{lease}/release") => {
            ("send", json!({ "id": ID }))
        }
        ("GET", _) => ("listen", Value::Null),
        other => panic!("{other:?} is not decided; docs/security.md, too"),
    }
}

/// All operations, those that remove what others need last.
fn operations(server: &Server) -> Vec<(String, String)> {
    let api = server.send("GET", "/v1/openapi.json", &[], &Value::Null).json();
    let paths = api["paths"].as_object().unwrap().clone();
    let mut found: Vec<_> = paths
        .iter()
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().keys();
            methods.map(move |method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    assert!(found.len() > 40, "{found:?}");
    found.sort_by_key(|(method, _)| method == "DELETE");
    found
}

fn at(path: &str, name: &str) -> String {
    let name = name.replace('/', "%2F");
    let is_of_session = path.contains("{session}");
    ["{queue}", "{job}", "{schedule}", "{lease}", "{election}"]
        .iter()
        .fold(path.to_owned(), |path, place| path.replace(place, &name))
        .replace("{sequence}", "1")
        .replace("{session}", "s")
        .replace("{problem}", "forbidden")
        .replace("{member}", "68747470000000000000000000000001")
        + if is_of_session { "?token=0000000100000001" } else { "" }
}

#[test]
fn nothing_is_allowed_that_was_not_granted() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let rights = folder.rights();
    server.create("own/queue");
    server.create("other/queue");
    let operations = operations(&server);
    for (method, path) in &operations {
        let (need, body) = needs(method, path);
        let nobody = server.send(method, &at(path, "own/queue"), &[], &body);
        assert_eq!(nobody.status == 401, need != "open", "{method} {path}: {nobody:?}");
        if need == "open" {
            continue;
        }
        assert_eq!(nobody.kind(), "credential-required");
        let schemes = nobody.headers["www-authenticate"].to_str().unwrap();
        assert!(schemes.contains("Bearer") && schemes.contains("SharedAccessSignature"));
        for (has, token) in &rights {
            for name in ["own/queue", "other/queue"] {
                let is_own = name.starts_with("own/");
                let has_it = *has == Some("manage") || *has == Some(need);
                let wanted = need == "any" || (need != "all" && is_own && has_it);
                let told = server.ask(token, method, &at(path, name), &body);
                let is_let = !matches!(told.status, 401 | 403);
                assert_eq!(is_let, wanted, "{has:?} {method} {path} {name}: {told:?}");
                assert!(is_let || told.kind() == "forbidden", "{told:?}");
            }
        }
    }
    server.stop();
}

#[test]
fn a_stream_is_for_those_who_may_look_at_what_is_in_it() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let rights = folder.rights();
    let listener = &rights[1].1;
    for wanted in ["", "?only=queue", "?name=own%2Fqueue&only=lease", "?name=other"] {
        // Whether it may at all; the streams themselves have no end.
        let told = match wanted {
            "?name=own%2Fqueue&only=lease" => continue,
            wanted => server.ask(listener, "GET", &format!("/v1/changes{wanted}"), &Value::Null),
        };
        assert_eq!(told.kind(), "forbidden", "{wanted}");
    }
    server.stop();
}

#[test]
fn what_watches_over_the_server_needs_no_credential_and_what_has_names_in_it_does() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let rights = folder.rights();
    for path in ["/livez", "/readyz", "/v1/openapi.json", "/v1/docs", "/v1/docs/page.js"] {
        assert_eq!(server.send("GET", path, &[], &Value::Null).status, 200, "{path}");
    }
    assert_eq!(server.send("GET", "/metrics", &[], &Value::Null).status, 401);
    assert_eq!(server.ask(&rights[3].1, "GET", "/metrics", &Value::Null).status, 403);
    let metrics = server.ask(&server.root, "GET", "/metrics", &Value::Null).body;
    for name in ["credentials_refused", "asks_forbidden"] {
        let line =
            metrics.lines().find(|line| line.starts_with(&format!("bellwether_{name}_total ")));
        assert!(line.is_some_and(|line| !line.ends_with(" 0")), "{name}: {metrics}");
    }
    for path in ["/nowhere", "/v1/queues/", "/v1/docs/../queues", "/livez/", "//livez", "/LIVEZ"] {
        assert_eq!(server.send("GET", path, &[], &Value::Null).status, 401, "{path}");
    }
    let twice = [("authorization", "Bearer x"), ("authorization", "Bearer y")];
    assert_eq!(server.send("GET", "/v1/queues", &twice, &Value::Null).status, 401);
    let basic = [("authorization", "Basic cm9vdDp4")];
    assert_eq!(server.send("GET", "/v1/queues", &basic, &Value::Null).status, 401);
    server.stop();
}

#[tokio::test]
async fn a_backup_is_for_those_who_manage_everything_and_recorded_once() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let half = folder.make(&["create", "half", "--queues", "manage=*", "--elections", "send=*"]);
    server.create("own/queue");
    assert_eq!(server.ask(&half, "GET", "/v1/backup", &Value::Null).kind(), "forbidden");
    let refused = server.open(&half).await.unwrap().backup().next().await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::Forbidden { .. })), "{refused}");

    assert_eq!(server.ask(&server.root, "GET", "/v1/backup", &Value::Null).status, 200);
    let store = server.open(&server.root).await.unwrap();
    let mut backup = store.backup();
    let mut steps = 0;
    while backup.next().await.unwrap().is_some() {
        steps += 1;
    }
    assert!(steps > 1, "{steps}");
    store.close().await;
    server.stop();
    let audit = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    let lines = audit.lines().filter(|line| line.contains("\"backup\""));
    let (done, refused): (Vec<_>, Vec<_>) = lines.partition(|line| line.contains("\"done\""));
    assert_eq!((done.len(), refused.len()), (2, 2), "{audit}");
}
