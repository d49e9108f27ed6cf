//! Which store, and what is said when it cannot be reached.

use std::process::Stdio;

use super::store::{Store, ended, program, run};

#[test]
fn a_slip_of_the_pen_makes_no_store() {
    let store = Store::none();
    store.fails(&["queue", "list"], 74, "there is no store in");
    store.fails(&["send", "orders", "x"], 74, "make one with --create");
    store.fails(&["queue", "create", "orders"], 74, "make one with --create");
    store.fails(&["import", "/dev/null"], 74, "make one with --create");
    store.fails(&["election", "history", "x"], 74, "there is no store in");
    assert!(!store.path().exists(), "nothing was made");
    assert_eq!(store.ok(&["send", "orders", "x", "--create"]), "sent message 1 to \"orders\"\n");
}

#[test]
fn a_folder_may_be_written_in_more_than_one_way() {
    let store = Store::with("orders");
    let path = store.path().to_str().unwrap();
    for written in [format!("/{path}"), format!("{path}/"), format!("{path}/.")] {
        let ran = run(&["queue", "list", "--data", &written, "--output", "json"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{written}");
        assert!(ran.stdout.contains("orders"), "{written}");
    }
    let file = store.path().join("lock");
    let ran = run(&["queue", "list", "--data", file.to_str().unwrap()]);
    assert_eq!(ran.code, 74);
    assert!(ran.stderr.contains("cannot read the folder"), "{}", ran.stderr);
}

#[test]
fn a_server_is_named_by_a_flag_or_by_the_environment() {
    let refused = run(&["queue", "list", "--server", "file:./data"]);
    assert_eq!(refused.code, 64);
    assert!(refused.stderr.contains("this is not the address of a server"), "{}", refused.stderr);
    let both = run(&["queue", "list", "--server", "h:1", "--data", "./data"]);
    assert_eq!(both.code, 64);
    // Port one has no server; the address that was tried is named.
    for (args, variable, tried) in [
        (&["queue", "list", "--server", "127.0.0.1:1"][..], "", "bellwether://127.0.0.1:1"),
        (&["queue", "list"], "bellwether://127.0.0.1:1", "bellwether://127.0.0.1:1"),
    ] {
        let mut command = program();
        command.args(args).env("BELLWETHER_SERVER", variable);
        let ran = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (69, ""));
        let begins = format!("bellwether: cannot reach a server at {tried}: ");
        assert!(ran.stderr.starts_with(&begins), "{}", ran.stderr);
        assert!(ran.stderr.contains("`bellwether serve`") && ran.stderr.contains("--data"));
    }
}

#[test]
fn the_environment_does_not_stand_in_the_way_of_a_folder() {
    let store = Store::with("orders");
    let mut command = store.command(&["queue", "list"]);
    command.env("BELLWETHER_SERVER", "bellwether://127.0.0.1:1");
    assert_eq!(ended(command.spawn().unwrap()).code, 0);
}

#[test]
fn what_is_mistyped_is_named_with_what_may_be_meant() {
    let store = Store::with("orders");
    store.fails(
        &["queue", "show", "oders"],
        66,
        "there is no queue \"oders\"; did you mean \"orders\"?",
    );
    store.fails(&["queue", "show", "xyz"], 66, "`bellwether queue list` shows what there is");
    for (args, why) in [
        (&["queu", "list"][..], "'queue'"),
        (&["queue", "list", "--outptu", "json"], "'--output'"),
        (&["receive", "orders", "--wait", "5"], "\"5\" has no unit; write a duration like"),
        (&["receive", "orders", "--abandon", "--follow"], "cannot be used with"),
        (&["send", "orders", "x", "--property", "n:int=x"], "\"x\" is no int"),
        (&["send", "orders", "x", "--at", "noon"], "it is not a time; write one like"),
        (&["queue", "set", "orders", "--size-max", "ten"], "write a size like"),
        (&["message", "show", "orders", "first"], "invalid value 'first'"),
    ] {
        let ran = run(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (64, ""), "{args:?}");
        assert!(ran.stderr.contains(why), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn there_is_no_colour_where_there_is_no_terminal() {
    let store = Store::with("orders");
    for args in [&["queue", "list"][..], &["stats"], &["top"]] {
        assert!(!store.ok(args).contains('\x1b'), "{args:?}");
    }
    assert!(!run(&["--help"]).stdout.contains('\x1b'));
}

#[test]
fn help_names_every_exit_code_and_completions_every_command() {
    let help = run(&["help"]);
    assert_eq!(help.code, 0);
    for code in ["0 ", "1 ", "2 ", "64", "65", "66", "69", "70", "74", "75", "76", "78"] {
        assert!(help.stdout.contains(&format!("\n  {code} ")), "{code}: {}", help.stdout);
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]);
        assert_eq!((script.code, script.stderr.as_str()), (0, ""), "{shell}");
        assert!(script.stdout.contains("dead-letter"), "{shell}");
    }
}

#[test]
fn every_engine_is_listed_built_in_or_not() {
    let table = run(&["engines"]);
    assert_eq!(table.code, 0, "{}", table.stderr);
    let told = run(&["engines", "--output", "json"]);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    let engines = told.as_array().unwrap();
    assert_eq!(engines[0]["built_in"], true, "our own always is");
    for name in ["etcd", "PostgreSQL", "Azure Blob", "NATS", "ZooKeeper"] {
        let engine = engines.iter().find(|engine| engine["name"] == name).unwrap();
        assert!(engine["ttl_min_ms"].as_u64().unwrap() >= 1000, "{engine}");
        assert!(table.stdout.contains(name), "{}", table.stdout);
    }
}

#[test]
fn the_doctor_measures_and_judges() {
    let store = Store::with("orders");
    let dir = store.path().to_str().unwrap();
    let ran = store.run(&["doctor", "--seconds", "1", "--output", "json"]);
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    for what in ["flush", "round_trip", "scheduler_stall"] {
        assert!(told["measured"][what]["samples"].as_u64().unwrap() > 0, "{what}: {told}");
    }
    let problems = told["problems"].as_array().unwrap();
    assert_eq!(ran.code, i32::from(!problems.is_empty()), "{told}");
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("doctor")), "{left:?}");
    let short = store.run(&["doctor", "--seconds", "1", "--ttl", "1ms"]);
    assert_eq!(short.code, 1);
    assert!(short.stdout.contains("problem: "), "{}", short.stdout);
    let nowhere =
        run(&["doctor", "--seconds", "1", "--dir", "/no/such", "--server", "127.0.0.1:1"]);
    assert_eq!(nowhere.code, 1, "it says what it found");
    assert!(nowhere.stdout.contains("problem: flush: "), "{}", nowhere.stdout);
    assert!(nowhere.stdout.contains("problem: round trip: cannot reach"), "{}", nowhere.stdout);
}
