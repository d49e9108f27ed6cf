//! A guardian, seen from the process that it watches.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bellwether_core::name::{LeaseId, LeaseName};

use super::Guardian;
#[cfg(target_os = "linux")]
use super::word::Answer;
use super::word::{LINE_BYTES_MAX, Word};

/// What a guardian is told. When it is dropped the guardian ends, unless something is still held: then
/// it waits for the end of this process.
#[derive(Debug)]
pub(crate) struct Guard {
    socket: std::os::unix::net::UnixStream,
    is_alive: Arc<AtomicBool>,
}

impl Guardian {
    #[cfg(not(target_os = "linux"))]
    pub(crate) async fn start(&self, _: &str) -> Result<Guard, String> {
        Err("there are guardians on Linux only".into())
    }

    /// Starts it, and waits until it watches. Says why if it does not.
    #[cfg(target_os = "linux")]
    pub(crate) async fn start(&self, address: &str) -> Result<Guard, String> {
        if address.len() > LINE_BYTES_MAX / 2 || address.contains(char::is_control) {
            return Err("the address cannot be told to a guardian: it is too long, or has \
                        characters that nobody can see"
                .into());
        }
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| format!("this process cannot adopt its orphans: {error}"))?;
        let program = self.program.clone();
        let watch = Word::Watch { pid: std::process::id(), address: address.to_owned() };
        let starting = tokio::task::spawn_blocking(move || start(&program, &watch));
        starting.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

/// How long a guardian may take to say that it watches.
#[cfg(target_os = "linux")]
const READY_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

#[cfg(target_os = "linux")]
fn start(program: &std::path::Path, watch: &Word) -> Result<Guard, String> {
    use std::io::{BufRead as _, Read as _};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    let shown = program.display();
    let failed = |error: io::Error| format!("{shown}: {error}");
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let mut command = Command::new(program);
    command
        .arg(super::ARGUMENT)
        .stdin(OwnedFd::from(theirs))
        // Whoever reads what this process writes must not wait for its guardian.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // What is sent to the group of this process leaves its guardian alone.
        .process_group(0);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no program {shown}; install `bellwether`, or name its path")
        }
        _ => failed(error),
    })?;
    // Holds the other end of the socket.
    drop(command);
    let is_alive = Arc::new(AtomicBool::new(true));
    let alive = Arc::clone(&is_alive);
    // Takes leave of it when it has ended, whenever that is.
    let waiting = move || {
        let _ = child.wait();
        alive.store(false, Ordering::Relaxed);
    };
    std::thread::Builder::new()
        .name("bellwether-guardian".into())
        .spawn(waiting)
        .map_err(failed)?;
    ours.set_read_timeout(Some(READY_WITHIN)).map_err(failed)?;
    let guard = Guard { socket: ours, is_alive };
    guard.say(watch);
    let mut line = String::new();
    let mut answer = io::BufReader::new(&guard.socket).take(LINE_BYTES_MAX as u64);
    // Who ends without an answer is none, either.
    let _ = answer.read_line(&mut line);
    match Answer::parse(line.trim_end()) {
        Some(Answer::Ready) => {}
        Some(Answer::Cannot(why)) => return Err(why),
        None => {
            return Err(format!(
                "{shown} is no guardian; is it a `bellwether` of this version, built with that engine?"
            ));
        }
    }
    guard.socket.set_nonblocking(true).map_err(failed)?;
    Ok(guard)
}

impl Guard {
    /// Before it is asked for: there is no moment in which it is held and the guardian does not know.
    pub(crate) fn asked(&self, id: LeaseId, ttl_ms: u64, lease: &LeaseName) {
        self.say(&Word::Asked { id, ttl_ms, lease: lease.clone() });
    }

    /// It is not held any more.
    pub(crate) fn done(&self, id: LeaseId) {
        self.say(&Word::Done(id));
    }

    /// Nothing is held any more.
    pub(crate) fn goodbye(&self) {
        self.say(&Word::Goodbye);
    }

    /// Whether the guardian is there.
    pub(crate) fn is_alive(&self) -> bool {
        self.is_alive.load(Ordering::Relaxed)
    }

    /// A line is in the kernel's hands when this returns, also if this process dies in that moment. A
    /// guardian that hears nothing for so long that there is no room is none any more.
    fn say(&self, word: &Word) {
        let line = format!("{word}\n");
        let said = io::Write::write(&mut &self.socket, line.as_bytes());
        if said.ok() != Some(line.len()) {
            self.is_alive.store(false, Ordering::Relaxed);
            let _ = self.socket.shutdown(std::net::Shutdown::Both);
        }
    }
}
