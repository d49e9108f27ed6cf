//! The file of rules, and the commands that write it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::server::{Folder, Server, bellwether};

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_first_start_leaves_a_token_that_only_its_user_can_read() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    assert!(server.banner.contains("root.token") && !server.banner.contains(&server.root));
    for name in ["root.token", "keys.json"] {
        assert_eq!(mode(&folder.path().join(name)), 0o600, "{name}");
    }
    let rules = std::fs::read_to_string(folder.path().join("keys.json")).unwrap();
    assert!(!rules.contains(&server.root), "only its hash is kept");
    server.create("orders");
    let audit = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    let line: Value = serde_json::from_str(audit.lines().next().unwrap()).unwrap();
    let wanted = json!(["root", "127.0.0.1", "create-queue", "orders", "done"]);
    let found = json!([line["rule"], line["from"], line["what"], line["name"], line["outcome"]]);
    assert_eq!(found, wanted);
    assert_eq!(mode(&folder.path().join("audit.log")), 0o600);
    let nobody = folder.rights()[0].1.clone();
    while server.ask(&nobody, "DELETE", "/v1/queues/orders", &Value::Null).status == 401 {}
    let audit = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    assert!(audit.contains("\"delete-queue\"") && audit.contains("\"forbidden: "), "{audit}");
    server.stop();
    let root = std::fs::read_to_string(folder.path().join("root.token")).unwrap();
    let server = Server::start(&folder);
    assert_eq!(server.root, root.trim(), "once");
    assert!(!server.banner.contains("root.token"));
    server.stop();
}

#[test]
fn the_commands_use_a_credential_that_is_not_on_the_command_line() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let run = |names: &[(&str, &str)], more: &[&str]| {
        let mut command = bellwether();
        command.args(["queue", "list", "--server", &server.wire()]).args(more);
        let ended = command.envs(names.iter().copied()).output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    let place = folder.path().join("root.token");
    let place = place.to_str().unwrap();
    assert_eq!(run(&[("BELLWETHER_CREDENTIAL", &server.root)], &[]).0, Some(0));
    assert_eq!(run(&[("BELLWETHER_CREDENTIAL_FILE", place)], &[]).0, Some(0));
    assert_eq!(run(&[], &["--credential-file", place]).0, Some(0));
    let (code, said) = run(&[], &[]);
    assert_eq!(code, Some(77));
    assert!(said.contains("--credential-file") && said.contains("bellwether key"), "{said}");
    let (code, said) = run(&[("BELLWETHER_CREDENTIAL", "bw_wrong-one")], &[]);
    assert_eq!(code, Some(77));
    assert!(!said.contains("wrong-one"), "{said}");
    let sender = folder.make(&["create", "sender", "--queues", "send=orders"]);
    let told = loop {
        match run(&[("BELLWETHER_CREDENTIAL", &sender)], &[]) {
            (_, said) if said.contains("let us in") => {}
            told => break told,
        }
    };
    assert_eq!(told.0, Some(77), "{}", told.1);
    assert!(told.1.contains("listen on all queues"), "{}", told.1);
    server.stop();
}

#[test]
fn what_makes_no_sense_is_said_and_changes_nothing() {
    let folder = Folder::new();
    folder.make(&["create", "worker", "--queues", "listen=orders"]);
    let path = folder.path().join("keys.json");
    let before = std::fs::read_to_string(&path).unwrap();
    let wrong: [(&[&str], &str); 9] = [
        (&["create", "worker", "--queues", "send=orders"], "revoke it first"),
        (&["create", "other"], "say what it may do"),
        (&["create", "a b", "--queues", "send=orders"], "letters, digits"),
        (&["create", "x", "--queues", "orders"], "no ="),
        (&["create", "x", "--queues", "own=orders"], "there are listen, send, manage"),
        (&["create", "x", "--queues", "send=orders*"], "orders/*"),
        (&["revoke", "other"], "key list"),
        (&["revoke", "worker", "--token", "1"], "eight digits"),
        (&["sign", "worker", "--for", "1h"], "--signing"),
    ];
    for (args, words) in wrong {
        let (ok, _, said) = folder.key(args);
        assert!(!ok && said.contains(words), "{args:?}: {said}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    let serve = |more: &[&str]| {
        let mut command = bellwether();
        command.args(["serve", "--http", "127.0.0.1:0", "--wire", "127.0.0.1:0"]);
        command.args(["--credentials", "required"]).args(more);
        let ended = command.output().unwrap();
        assert_eq!(ended.status.code(), Some(78), "{ended:?}");
        String::from_utf8(ended.stderr).unwrap()
    };
    let data = folder.path().to_str().unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    assert!(serve(&["--data", data]).contains("chmod 600"));
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    for (text, words) in [
        ("{", "line 1"),
        ("{\"version\": 9, \"rules\": []}", "version 9"),
        (&before.replace("listen=orders", "listen"), "no ="),
        (&before.replace("\"name\"", "\"nam\""), "expected form"),
    ] {
        std::fs::write(&path, text).unwrap();
        let said = serve(&["--data", data]);
        assert!(said.contains(words), "{text}: {said}");
    }
    assert!(serve(&["--memory"]).contains("--keys FILE"));
}

#[test]
fn two_who_write_at_once_lose_nothing() {
    let folder = Folder::new();
    let make = |nth: usize| {
        let (name, folder) = (format!("rule-{nth}"), &folder);
        move || folder.make(&["create", &name, "--queues", "send=orders"])
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..12).map(|nth| scope.spawn(make(nth))).collect();
        for made in all {
            assert!(made.join().unwrap().starts_with("bw_"));
        }
    });
    let list: Value = serde_json::from_str(&folder.key(&["list", "--output", "json"]).1).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 12);
}
