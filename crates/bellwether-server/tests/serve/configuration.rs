//! Settings, as the program takes them.

use crate::server::{Folder, assert_says, bellwether, said, serve};

#[test]
fn the_configuration_is_printed_with_where_it_comes_from() {
    let file = Folder::new();
    std::fs::write(&file.0, "log = \"json\"\nhttp = \"127.0.0.1:1\"\nstop_ms_max = 5\n").unwrap();
    let output = bellwether()
        .args(["serve", "--print-config", "--config", file.text(), "--stop-ms-max", "7"])
        .env("BELLWETHER_HTTP", "127.0.0.1:2")
        .output()
        .unwrap();
    std::fs::remove_file(&file.0).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output.stderr));
    let printed = said(&output.stdout);
    let line = |name: &str| {
        let line = printed.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("http "), "http = \"127.0.0.1:2\" # environment BELLWETHER_HTTP");
    assert_eq!(line("stop_ms_max"), "stop_ms_max = 7 # flag --stop-ms-max");
    assert_eq!(line("log"), format!("log = \"json\" # {}, line 1", file.text()));
    assert_eq!(line("memory "), "memory = false # default");
}

#[test]
fn what_is_wrong_stops_the_start_and_is_named() {
    let output = serve(&["--http", "nowhere"]);
    assert_eq!(output.status.code(), Some(78));
    assert_says(&said(&output.stderr), &["http", "\"nowhere\"", "flag --http", "127.0.0.1:7400"]);

    let output =
        bellwether().args(["serve", "--memory"]).env("BELLWETHER_MEMROY", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert_says(&said(&output.stderr), &["BELLWETHER_MEMROY", "mean \"BELLWETHER_MEMORY\"?"]);

    let file = Folder::new();
    std::fs::write(&file.0, "htpp = \"127.0.0.1:0\"\n").unwrap();
    let output = serve(&["--config", file.text()]);
    std::fs::remove_file(&file.0).unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert_says(&said(&output.stderr), &["\"htpp\"", "line 1", "did you mean \"http\"?"]);

    let output = serve(&["--config", "/nowhere/at/all.toml"]);
    assert_eq!(output.status.code(), Some(78));
    assert_says(&said(&output.stderr), &["/nowhere/at/all.toml", "--config"]);

    let output = serve(&["--virtual-clock"]);
    assert_eq!(output.status.code(), Some(78));
    assert_says(&said(&output.stderr), &["--virtual-clock", "--memory"]);

    let folder = Folder::new();
    let output = serve(&["--memory", "--data", folder.text()]);
    assert_eq!(output.status.code(), Some(78));
    assert_says(&said(&output.stderr), &["flag --memory", "flag --data", "leave data out"]);

    let output =
        bellwether().args(["serve", "--memory"]).env("RUST_LOG", "loud=yes").output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert_says(&said(&output.stderr), &["RUST_LOG", "warn,bellwether=debug"]);

    assert_eq!(serve(&["--no-such-flag"]).status.code(), Some(64));
}

#[test]
fn help_has_every_setting_the_exit_codes_and_examples() {
    let help = said(&serve(&["--help"]).stdout);
    let printed = said(&serve(&["--print-config"]).stdout);
    for setting in printed.lines().map(|line| line.split(' ').next().unwrap()) {
        let flag = format!("--{}", setting.replace('_', "-"));
        let variable = format!("BELLWETHER_{}", setting.to_uppercase());
        assert_says(&help, &[&flag, &variable]);
    }
    assert_says(&help, &["Examples:", "Exit codes:", "130,143"]);
}
