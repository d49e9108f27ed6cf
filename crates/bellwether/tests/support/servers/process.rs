//! A server's process and its folder.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// Killed when dropped, and its folder removed. Killed by the kernel if the test is killed.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) folder: PathBuf,
    /// The program and its arguments.
    command: Vec<String>,
    /// As whom it runs, if not as ourselves.
    user: Option<&'static str>,
    child: Option<Child>,
}

impl Process {
    /// A folder for it; nothing runs yet.
    pub(crate) fn new(name: &str, user: Option<&'static str>) -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("bellwether-{name}-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let process = Self { folder, command: Vec::new(), user, child: None };
        if let Some(user) = user {
            process.run("chown", &[user.to_owned(), process.folder.display().to_string()], None);
        }
        process
    }

    /// Starts a program; the same one after every [`Process::kill`].
    pub(crate) fn start(&mut self, program: &str, arguments: Vec<String>) {
        self.command = [program.to_owned()].into_iter().chain(arguments).collect();
        self.start_again();
    }

    pub(crate) fn start_again(&mut self) {
        let log = File::options().append(true).create(true).open(self.log_path()).unwrap();
        let mut command = as_user(self.user);
        command.arg("--pdeathsig=KILL").args(&self.command).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().expect("setpriv (util-linux) is needed"));
    }

    /// Runs a program to its end, as the server's user.
    pub(crate) fn run_as_server(&self, program: &str, arguments: &[String]) {
        self.run(program, arguments, self.user);
    }

    fn run(&self, program: &str, arguments: &[String], user: Option<&'static str>) {
        let mut command = as_user(user);
        let ran = command.arg(program).args(arguments).current_dir(&self.folder).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{program}: {said}; is its Debian package installed?");
    }

    /// As the power cut does, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn is_started(&self) -> bool {
        self.child.is_some()
    }

    /// Until it has ended by itself.
    pub(crate) fn wait(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.wait().unwrap();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> Pid {
        let child = self.child.as_ref().expect("it runs");
        Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
    }

    /// Panics with what the server said if it has ended by itself.
    pub(crate) fn must_run(&mut self) {
        let child = self.child.as_mut().expect("it was started");
        if let Some(status) = child.try_wait().unwrap() {
            panic!("{} ended, {status}:\n{}", self.command[0], self.log());
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        with_extension(&self.folder, "log")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
        let _ = fs::remove_file(self.log_path());
    }
}

/// `setpriv`, which becomes what follows, as that user.
fn as_user(user: Option<&'static str>) -> Command {
    let mut command = Command::new("setpriv");
    if let Some(user) = user {
        command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]);
    }
    command
}

/// Beside the folder: the server's user cannot be told from us there, and need not write it.
fn with_extension(folder: &Path, extension: &str) -> PathBuf {
    let mut path = folder.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    path.into()
}

/// Ports that nobody listens on, below those that the system gives to whoever asks for any: a
/// connection of another test must not take one before the server does.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    [(); N].map(|()| {
        loop {
            let number = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
            let port = 20_000 + u16::try_from(number).unwrap();
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                break port;
            }
        }
    })
}
