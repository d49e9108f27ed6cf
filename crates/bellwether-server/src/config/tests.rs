//! What can be set in one way can be set in all of them, and what is wrong is named.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::values::Form;
use super::*;

struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("bellwether-config-{name}-{}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, text)| (name.into(), text.into())).collect()
}

fn printed(config: &Config) -> String {
    let mut out = Vec::new();
    config.print(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn line(config: &Config, name: &str) -> String {
    let printed = printed(config);
    let found = printed.lines().find(|line| line.split(' ').next() == Some(name));
    found.unwrap_or_else(|| panic!("{name} is not in {printed}")).to_owned()
}

/// A value that is allowed and is not the default, as text and as TOML.
fn other_value(setting: &Setting) -> (String, String) {
    let text = match (setting.name, setting.form) {
        ("log", _) => "json",
        ("credentials", _) => "required",
        ("http" | "wire", _) => "[::1]:0",
        (_, Form::Text) => "elsewhere",
        (_, Form::Number) => "5000000",
        (_, Form::YesNo) => "true",
        (_, Form::List) => "a.example,b.example",
    };
    // The numbers that may not be so large, or must be larger.
    let text = match setting.name {
        "metrics_names_max" => "7",
        "http_connections_max"
        | "wire_connections_max"
        | "wire_asks_max"
        | "connections_per_address_max"
        | "connections_per_rule_max" => "77",
        "wire_bytes_max" => "77777777",
        "http_head_bytes_max" | "wire_hello_bytes_max" | "pace_bytes_per_s_min" => "7777",
        name if ["_ms_max", "_us_max", "_over_ms"].iter().any(|end| name.ends_with(end)) => "7777",
        _ => text,
    };
    let toml = match setting.form {
        Form::Text => format!("{text:?}"),
        Form::Number | Form::YesNo => text.into(),
        Form::List => "[\"a.example\", \"b.example\"]".into(),
    };
    (text.into(), toml)
}

/// What a setting needs, whichever way it was set.
fn with_company(flags: Flags, setting: &Setting) -> Flags {
    match setting.name {
        "virtual_clock" => flags.with("memory", "true"),
        "tls_cert" => flags.with("tls_key", "key.pem"),
        "tls_key" => flags.with("tls_cert", "cert.pem"),
        "tls_client_ca" => flags.with("tls_cert", "cert.pem").with("tls_key", "key.pem"),
        _ => flags,
    }
}

#[test]
fn every_setting_can_be_set_as_flag_variable_and_in_the_file() {
    for setting in SETTINGS {
        let (text, toml) = other_value(setting);
        let none = || with_company(Flags::default(), setting);
        let wanted = format!("{} = {toml}", setting.name);
        let file = File::new(setting.name, &format!("# first\n{wanted}\n"));

        let default = line(&Config::load(&Flags::default(), None, []).unwrap(), setting.name);
        assert!(default.ends_with("# default"), "{default}");
        assert!(!default.starts_with(&wanted), "{default}: the test needs another value");

        let given = none().with(setting.name, &text);
        let by_flag = line(&Config::load(&given, None, []).unwrap(), setting.name);
        assert!(by_flag.starts_with(&wanted), "{by_flag}");
        assert!(by_flag.ends_with(&format!("# flag {}", setting.flag())), "{by_flag}");

        let variable = variables(&[(&setting.variable(), &text)]);
        let config = Config::load(&none(), None, variable).unwrap();
        let by_variable = line(&config, setting.name);
        assert!(by_variable.starts_with(&wanted), "{by_variable}");
        assert!(by_variable.ends_with(&format!("# environment {}", setting.variable())));

        let by_file = line(&Config::load(&none(), Some(file.path()), []).unwrap(), setting.name);
        assert!(by_file.starts_with(&wanted), "{by_file}");
        assert!(by_file.ends_with(&format!("{}, line 2", file.0.display())), "{by_file}");
    }
}

#[test]
fn flags_come_before_the_environment_and_that_before_the_file() {
    let file = File::new("order", "http = \"127.0.0.1:1\"\nlog = \"json\"\nstop_ms_max = 1\n");
    let env = variables(&[("BELLWETHER_HTTP", "127.0.0.1:2"), ("BELLWETHER_STOP_MS_MAX", "2")]);
    let flags = Flags::default().with("http", "127.0.0.1:3");
    let config = Config::load(&flags, Some(file.path()), env).unwrap();
    assert_eq!(config.http.port(), 3);
    assert_eq!(config.stop_ms_max.get(), 2);
    assert_eq!(config.log, LogForm::Json);
}

#[test]
fn the_environment_can_name_the_file_and_what_is_empty_is_not_set() {
    let file = File::new("named", "stop_ms_max = 1_000\n");
    let path = file.0.to_str().unwrap();
    let env = [("BELLWETHER_CONFIG", path), ("BELLWETHER_STOP_MS_MAX", ""), ("PATH", "/bin")];
    let config = Config::load(&Flags::default(), None, variables(&env)).unwrap();
    assert_eq!(config.stop_ms_max.get(), 1000);
}

#[test]
fn what_is_printed_can_be_read_again() {
    // With a folder and without one: the two do not go together.
    for left_out in ["memory", "data"] {
        let set = SETTINGS.iter().filter(|setting| {
            setting.name != left_out && (left_out == "data" || setting.name != "virtual_clock")
        });
        let flags = set.fold(Flags::default(), |flags, setting| {
            flags.with(setting.name, &other_value(setting).0)
        });
        let first = printed(&Config::load(&flags, None, []).unwrap());
        let file = File::new("again", &first);
        let second = printed(&Config::load(&Flags::default(), Some(file.path()), []).unwrap());
        let values = |printed: &str| -> Vec<String> {
            let values = printed.lines().map(|line| line.split("  #").next().unwrap().trim());
            values.map(str::to_owned).collect()
        };
        assert_eq!(values(&first), values(&second));
    }
}

fn fault(flags: &Flags, file: Option<&Path>, env: &[(&str, &str)]) -> String {
    let file = file.map(Path::to_path_buf);
    Config::load(flags, file, variables(env)).unwrap_err().to_string()
}

fn assert_names(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn a_bad_value_is_named_with_where_it_was_found_and_what_is_allowed() {
    let none = Flags::default();
    let said = fault(&none.clone().with("http", "here"), None, &[]);
    assert_names(&said, &["http", "\"here\"", "flag --http", "127.0.0.1:7400"]);
    let said = fault(&none, None, &[("BELLWETHER_STOP_MS_MAX", "soon")]);
    assert_names(&said, &["stop_ms_max", "\"soon\"", "BELLWETHER_STOP_MS_MAX", "from 0 to"]);
    let file = File::new("bad", "\n\nhttp_connections_max = 0\n");
    let said = fault(&none, Some(&file.0), &[]);
    assert_names(&said, &["http_connections_max", "\"0\"", "line 3", "from 1 to"]);
    let file = File::new("form", "memory = \"yes\"\n");
    let said = fault(&none, Some(&file.0), &[]);
    assert_names(&said, &["memory", "line 1", "a bare true or false"]);
}

#[test]
fn what_is_no_setting_is_not_overlooked() {
    let none = Flags::default();
    let said = fault(&none, None, &[("BELLWETHER_HTPP", "127.0.0.1:1")]);
    assert_names(&said, &["BELLWETHER_HTPP", "mean \"BELLWETHER_HTTP\"?"]);
    let file = File::new("unknown", "htpp = \"127.0.0.1:1\"\n");
    assert_names(&fault(&none, Some(&file.0), &[]), &["\"htpp\"", "line 1", "mean \"http\"?"]);
    let file = File::new("broken", "http = \n");
    assert_names(&fault(&none, Some(&file.0), &[]), &["line 1", "not TOML"]);
    let missing = Path::new("/nowhere/bellwether.toml");
    assert_names(&fault(&none, Some(missing), &[]), &["/nowhere/bellwether.toml", "--config"]);
    let load = Config::load(&none, None, variables(&[("BELLWETHER_SERVER", "elsewhere")]));
    assert!(load.is_ok(), "the other commands have variables too");
}

#[test]
fn a_virtual_clock_needs_a_store_in_memory() {
    let said = fault(&Flags::default().with("virtual_clock", "true"), None, &[]);
    assert_names(&said, &["virtual_clock", "--memory", "flag --virtual-clock"]);
}

#[test]
fn a_folder_and_a_store_in_memory_cannot_both_be_meant() {
    let ways_out = ["leave memory out", "leave data out"];
    let flags = Flags::default().with("memory", "true").with("data", "here");
    let said = fault(&flags, None, &[]);
    assert_names(&said, &["flag --memory", "flag --data"]);
    assert_names(&said, &ways_out);

    let memory = Flags::default().with("memory", "true");
    let said = fault(&memory, None, &[("BELLWETHER_DATA", "here")]);
    assert_names(&said, &["flag --memory", "environment BELLWETHER_DATA"]);
    let file = File::new("folder", "log = \"json\"\ndata = \"here\"\n");
    let said = fault(&Flags::default(), Some(&file.0), &[("BELLWETHER_MEMORY", "true")]);
    assert_names(&said, &["environment BELLWETHER_MEMORY", "line 2"]);
    assert_names(&said, &ways_out);

    assert!(Config::load(&memory, None, []).is_ok(), "the default is nobody's wish");
    let kept = Flags::default().with("memory", "false").with("data", "here");
    assert!(Config::load(&kept, None, []).is_ok());
}

#[test]
fn a_certificate_needs_its_key_and_an_authority_for_clients_needs_both() {
    let none = Flags::default;
    let said = fault(&none().with("tls_cert", "cert.pem"), None, &[]);
    assert_names(&said, &["tls_cert", "set tls_key", "flag --tls-cert"]);
    let said = fault(&none(), None, &[("BELLWETHER_TLS_KEY", "key.pem")]);
    assert_names(&said, &["tls_key", "set tls_cert", "BELLWETHER_TLS_KEY"]);
    let said = fault(&none().with("tls_client_ca", "ca.pem"), None, &[]);
    assert_names(&said, &["tls_client_ca", "tls_cert and tls_key"]);
}

/// The table in the handbook, which a person reads and no compiler does.
#[test]
fn the_handbook_has_every_setting_with_its_default_and_what_is_allowed() {
    let handbook = include_str!("../../../../docs/operations.md");
    for setting in SETTINGS {
        let default = line(&Config::load(&Flags::default(), None, []).unwrap(), setting.name);
        let (_, default) = default.split_once(" = ").unwrap();
        let default = default.trim_end_matches("# default").trim();
        let allowed = (setting.allowed)();
        let row = format!("| `{}` | `{default}` | {allowed} | ", setting.name);
        assert!(handbook.contains(&row), "docs/operations.md lacks the row\n{row}");
    }
}
