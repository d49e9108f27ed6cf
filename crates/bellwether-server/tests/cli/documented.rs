//! `docs/cli.md` shows what the program says.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use super::store::{Store, program};

const DOCS: &str = include_str!("../../../../docs/cli.md");

/// Commands and what they say, in the order of the page: those that need neither a server nor a
/// program that may not be there, and say the same on every machine.
fn shown() -> Vec<(String, String)> {
    let mut shown: Vec<(String, String)> = Vec::new();
    let mut is_inside = false;
    for line in DOCS.lines() {
        match line {
            "```console" => is_inside = true,
            "```" => is_inside = false,
            _ if !is_inside => {}
            line => match (line.strip_prefix("$ "), shown.last_mut()) {
                (Some(command), _) => shown.push((command.into(), String::new())),
                (None, Some((_, said))) => said.extend([line, "\n"]),
                (None, None) => panic!("{line} was said by nobody"),
            },
        }
    }
    let is_alone = |command: &str| command.contains("--data ./") || command.contains(" --check");
    let is_elsewhere = |command: &str| command.contains("| jq") || command.contains(" doctor ");
    shown.retain(|(command, _)| is_alone(command) && !is_elsewhere(command));
    shown
}

/// The words of an answer; those that are others every time are replaced by what they are.
fn words(said: &str) -> Vec<String> {
    let is_between = |c: char| c.is_whitespace() || "\",()".contains(c);
    let mut words: Vec<String> = Vec::new();
    for word in said.split(is_between).filter(|word| !word.is_empty()) {
        let begins_with_digit = word.starts_with(|c: char| c.is_ascii_digit());
        let is_number = word.bytes().all(|b| b.is_ascii_digit());
        words.push(match word {
            _ if is_id(word) => "ID".into(),
            _ if begins_with_digit && word.contains('T') && word.ends_with('Z') => "TIME".into(),
            _ if is_number && word.len() == 13 => "TERM".into(),
            _ if is_number && words.last().is_some_and(|last| last == "pid") => "PID".into(),
            _ if begins_with_digit && word.ends_with('s') => "DURATION".into(),
            _ if word.contains('.') && word.parse::<f64>().is_ok() => "SIZE".into(),
            word => word.into(),
        });
    }
    words
}

fn is_id(word: &str) -> bool {
    word.len() == 32 && word.bytes().all(|b| b.is_ascii_hexdigit())
}

fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_hexdigit()).filter(|word| is_id(word))
}

#[test]
fn what_the_page_shows_is_what_the_program_says() {
    let folder = Store::none();
    std::fs::create_dir(folder.path()).unwrap();
    let beside = Path::new(program().get_program()).parent().unwrap().to_owned();
    let path = std::env::join_paths(
        [beside].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut ids_here: HashMap<String, String> = HashMap::new();
    let shown = shown();
    assert!(shown.len() > 30, "the commands were found");
    for (command, wanted) in shown {
        let mut here = command.clone();
        for (there, id) in &ids_here {
            here = here.replace(there, id);
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", &here]).current_dir(folder.path());
        shell.env("PATH", path.as_ref().unwrap()).env_remove("BELLWETHER_SERVER");
        let ran = shell.output().unwrap();
        let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
        assert_eq!(words(&said), words(&wanted), "$ {here}\n{said}");
        ids_here.extend(ids(&wanted).map(str::to_owned).zip(ids(&said).map(str::to_owned)));
    }
}
