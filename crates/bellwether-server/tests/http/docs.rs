//! `docs/http.md` says what is true: its commands run, its lists are whole.

use std::process::Command;

use crate::server::Server;

const DOCS: &str = include_str!("../../../../docs/http.md");

/// The lines of all blocks of shell commands, in order.
fn commands() -> String {
    let mut script = String::new();
    let mut inside = false;
    for line in DOCS.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => {
                script.push_str(line);
                script.push('\n');
            }
            _ => {}
        }
    }
    script
}

#[test]
fn every_command_in_the_documentation_runs() {
    let server = Server::in_memory();
    let before = "set -eu -o pipefail\ncurl() { command curl -sS --fail-with-body \"$@\"; }\n";
    let script = format!("{before}{}", commands());
    assert!(script.matches("curl ").count() > 40, "the commands were found");
    let ran = Command::new("bash")
        .args(["-x", "-c", &script])
        .env("B", &server.address)
        .output()
        .expect("bash runs the commands of the documentation");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}\n{err}");
}

#[test]
fn every_problem_and_every_path_is_documented() {
    let server = Server::in_memory();
    let problems = server.get("/v1/problems").is(200);
    for problem in problems["problems"].as_array().unwrap() {
        let name = problem["type"].as_str().unwrap().rsplit('/').next().unwrap();
        let row = format!("| `{name}` | {} |", problem["status"]);
        assert!(DOCS.contains(&row), "{row}");
    }
    let api = server.get("/v1/openapi.json").is(200);
    assert_eq!(api["openapi"], "3.1.0");
    for (path, item) in api["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let row = format!("| `{} {path}` |", method.to_uppercase());
            assert!(DOCS.contains(&row), "{row}");
        }
    }
}

#[test]
fn the_page_needs_nothing_from_anywhere_else() {
    let server = Server::in_memory();
    let page = server.get("/v1/docs");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let text = String::from_utf8(page.bytes).unwrap();
    assert!(!text.contains("://"), "no other host is named");
    let style = server.get("/v1/docs/page.css");
    assert!(style.header("content-type").unwrap().starts_with("text/css"));
    let script = server.get("/v1/docs/page.js");
    assert!(script.header("content-type").unwrap().starts_with("text/javascript"));
    assert!(!String::from_utf8(script.bytes).unwrap().contains("innerHTML"));
}
