//! Leaders that are killed, on a server of ours. Their leases last ten minutes: whoever follows within
//! the time of a test does so because the guardian has given the lease back.

use std::fs;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};

use super::certificates::Authority;
use super::fleet::{BEAT, Fleet, Leader, eventually, is_alive};

const FLAGS: [&str; 6] = ["lead", "chores", "--ttl", "10m", "--grace", "100ms"];
/// Much longer than a death takes to be told, much shorter than a lease lasts.
const A_WHILE: Duration = Duration::from_secs(3);

/// Heeds nothing and has two children: one in its group and one that has left it.
fn stubborn() -> String {
    format!(
        "trap '' TERM; export BEAT='{BEAT}'; echo $$ >> $WHO; (eval \"$BEAT\") & echo $! >> $WHO; \
         setsid sh -c 'trap \"\" TERM; echo $$ >> $WHO; eval \"$BEAT\"' & eval \"$BEAT\""
    )
}

/// How the server is reached, beside the Unix socket in the environment.
#[derive(Default)]
struct At {
    flags: Vec<String>,
    variables: Vec<(&'static str, String)>,
}

impl At {
    fn command(&self, fleet: &Fleet, args: &[&str], script: &[&str]) -> Command {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        let mut command = fleet.command(&[args, &flags, script].concat());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// One of several whose commands write their numbers into a file of its own.
fn lead(fleet: &Fleet, who: &str, script: &str, at: &At) -> Leader {
    let mut command = at.command(fleet, &FLAGS, &["--", "sh", "-c", script]);
    command.env("WHO", fleet.path(who));
    Leader::start(command)
}

fn pids(fleet: &Fleet, who: &str) -> Vec<String> {
    eventually("all three have started", || fleet.read(who).lines().count() == 3);
    fleet.read(who).lines().map(ToOwned::to_owned).collect()
}

fn guardian_of(leader: &Leader) -> Pid {
    // Each thread has its own children.
    let threads = fs::read_dir(format!("/proc/{}/task", leader.pid())).unwrap().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    let found: String = lists.flatten().collect();
    Pid::from_raw(found.trim().parse().unwrap()).unwrap()
}

fn killed_and_followed(fleet: &Fleet, at: &At) {
    let before = fleet.beats().last().map_or(0, |(term, _)| *term);
    let mut first = lead(fleet, "first", &stubborn(), at);
    first.says("leading");
    let term = fleet.next_term(before);
    let of_first = pids(fleet, "first");
    let mut second = lead(fleet, "second", &stubborn(), at);
    second.says("waiting");
    let guardian = guardian_of(&first).to_string();
    let line = fs::read_to_string(format!("/proc/{guardian}/cmdline")).unwrap();
    assert!(line.contains("__guardian") && !line.contains("--server"), "{line}");
    first.signal(Signal::KILL);
    second.says("leading");
    assert!(of_first.iter().all(|pid| !is_alive(pid)), "they were dead before");
    assert!(fleet.next_term(term) > term);
    eventually("it has done its part", || !is_alive(&guardian));
    let told = at.command(fleet, &["election", "why", "chores", "--last", "2"], &[]).output();
    let told = String::from_utf8(told.unwrap().stdout).unwrap();
    assert!(told.contains("; its process died; "), "{told}");
    fleet.check();
    for name in ["first", "second"] {
        fs::remove_file(fleet.path(name)).unwrap();
    }
}

#[test]
fn a_killed_leader_is_followed_at_once_over_a_unix_socket() {
    killed_and_followed(&Fleet::start(), &At::default());
}

#[test]
fn a_killed_leader_is_followed_at_once_over_tcp() {
    let fleet = Fleet::start();
    let variables = vec![("BELLWETHER_SERVER", fleet.wire("bellwether://"))];
    killed_and_followed(&fleet, &At { variables, ..At::default() });
}

/// What lets `lead` in lets its guardian in: named by flags, or in the environment, and on nobody's
/// command line.
#[test]
fn a_killed_leader_is_followed_at_once_over_tls_with_a_credential() {
    let mut fleet = Fleet::without_server();
    let authority = Authority::new();
    let identity = authority.issue(&["localhost"]);
    for (name, text) in
        [("ca.pem", &authority.pem), ("cert.pem", &identity.cert), ("key.pem", &identity.key)]
    {
        fs::write(fleet.path(name), text).unwrap();
    }
    let path = |name: &str| fleet.path(name).to_str().unwrap().to_owned();
    let (cert, key, keys) = (path("cert.pem"), path("key.pem"), path("keys.json"));
    let made = fleet
        .command(&["key", "create", "crew", "--elections", "manage=*", "--keys", &keys])
        .output()
        .unwrap();
    let token = String::from_utf8(made.stdout).unwrap();
    let token = token.lines().next().expect("a token").to_owned();
    fs::write(fleet.path("token"), &token).unwrap();
    fleet.serve_with(&[
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
        "--credentials",
        "required",
        "--keys",
        &keys,
    ]);
    let address = fleet.wire("bellwethers://");
    let variables = vec![
        ("BELLWETHER_SERVER", address.clone()),
        ("BELLWETHER_TLS_CA", "ca.pem".to_owned()),
        ("BELLWETHER_CREDENTIAL", token),
    ];
    killed_and_followed(&fleet, &At { variables, ..At::default() });
    let flags = ["--server", &address, "--tls-ca", "ca.pem", "--credential-file", "token"];
    let flags = flags.map(str::to_owned).to_vec();
    killed_and_followed(&fleet, &At { flags, ..At::default() });
}

/// Nothing is given back while anything of the command is alive, for whatever reason that is.
#[test]
fn a_killed_leader_is_not_followed_while_its_command_lives() {
    // Else the kernel would wake the frozen one when its parent dies: it would be the last of its
    // session that anybody could wake.
    set_child_subreaper(Some(getpid())).unwrap();
    let fleet = Fleet::start();
    let mut first = lead(&fleet, "first", &stubborn(), &At::default());
    first.says("leading");
    let term = fleet.next_term(0);
    let of_first = pids(&fleet, "first");
    let mut second = lead(&fleet, "second", BEAT, &At::default());
    second.says("waiting");
    let guardian = guardian_of(&first);
    kill_process(guardian, Signal::STOP).unwrap();
    let stat = || fs::read_to_string(format!("/proc/{guardian}/stat")).unwrap();
    eventually("it is frozen", || stat().contains(") T "));
    first.signal(Signal::KILL);
    std::thread::sleep(A_WHILE);
    assert!(of_first.iter().all(|pid| is_alive(pid)), "nobody has ended them");
    assert_eq!(fleet.next_term(0), term, "nobody has followed");
    kill_process(guardian, Signal::CONT).unwrap();
    second.says("leading");
    assert!(of_first.iter().all(|pid| !is_alive(pid)), "they were dead before");
    fleet.next_term(term);
    fleet.check();
}

/// The guardian has the command's end to tell, and nobody to tell it to.
#[test]
fn a_leader_that_is_killed_when_its_command_ends_is_followed() {
    let fleet = Fleet::start();
    let script = format!(
        "({BEAT}) & while ! test -s lead; do sleep 0.05; done; kill -KILL $(cat lead); sleep 0.05; exit 0"
    );
    let mut first = lead(&fleet, "first", &script, &At::default());
    first.says("leading");
    let term = fleet.next_term(0);
    fs::write(fleet.path("lead"), first.pid().to_string()).unwrap();
    let mut second = lead(&fleet, "second", BEAT, &At::default());
    second.says("leading");
    fleet.next_term(term);
    fleet.check();
}
