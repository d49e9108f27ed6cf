//! A store in this process, and processes that connect to it.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::Bellwether;
use bellwether::core::name::Term;
use bellwether::wire::accept::{Acceptor, Limits, Peer};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Much longer than a death takes to be seen, much shorter than the 60 s that leases last.
const SOON: Duration = Duration::from_secs(20);
/// What has not happened by now was not going to.
const A_WHILE: Duration = Duration::from_millis(700);

pub(crate) struct World {
    pub(crate) store: Bellwether,
    folder: PathBuf,
    doors: Vec<JoinHandle<()>>,
    cut: Arc<Mutex<CancellationToken>>,
}

impl World {
    /// Those who come by the Unix socket are known by `peer_of` it.
    pub(crate) async fn new(test: &str, peer_of: fn(&UnixStream) -> Peer) -> Self {
        let folder = std::env::temp_dir().join(format!("bellwether-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let store = Bellwether::open("memory:").await.unwrap();
        let acceptor = Acceptor::new(&store, Limits::default()).unwrap();
        let cut = Arc::new(Mutex::new(CancellationToken::new()));
        let listener = UnixListener::bind(folder.join("socket")).unwrap();
        let serving = Serving { acceptor, cut: Arc::clone(&cut) };
        let door = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let peer = peer_of(&stream);
                serving.serve(stream, peer);
            }
        });
        Self { store, folder, doors: vec![door], cut }
    }

    pub(crate) fn socket(&self) -> String {
        format!("bellwether+unix:{}", self.folder.join("socket").display())
    }

    /// The address of another socket, whose connections are passed on to the first one by us.
    pub(crate) fn tunnel(&mut self) -> String {
        let (end, path) = (self.folder.join("socket"), self.folder.join("tunnel"));
        let listener = UnixListener::bind(&path).unwrap();
        self.doors.push(tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut far = UnixStream::connect(&end).await.unwrap();
                tokio::spawn(async move {
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        }));
        format!("bellwether+unix:{}", path.display())
    }

    pub(crate) async fn tcp(&mut self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("bellwether://{}", listener.local_addr().unwrap());
        let acceptor = Acceptor::new(&self.store, Limits::default()).unwrap();
        let serving = Serving { acceptor, cut: Arc::clone(&self.cut) };
        self.doors.push(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.serve(stream, Peer::default());
            }
        }));
        address
    }

    /// Cuts all connections; new ones are let in.
    pub(crate) fn cut(&self) {
        std::mem::take(&mut *self.cut.lock().unwrap()).cancel();
    }

    /// Cuts all connections, and lets nobody in any more.
    pub(crate) fn shut(&mut self) {
        self.doors.drain(..).for_each(|door| door.abort());
        std::fs::remove_file(self.folder.join("socket")).unwrap();
        self.cut();
    }

    /// Who waits for an election, behind whoever leads.
    pub(crate) async fn heir(&self, election: &str) -> Heir {
        let store = self.store.another_member().await.unwrap();
        let election = store.election(election).unwrap();
        let contending = election.clone();
        let won = tokio::spawn(async move { contending.contend().await.unwrap().term() });
        while election.info().await.unwrap().is_none_or(|info| info.waiting.is_empty()) {
            tokio::task::yield_now().await;
        }
        Heir { won }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

struct Serving {
    acceptor: Acceptor,
    cut: Arc<Mutex<CancellationToken>>,
}

impl Serving {
    fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        let (acceptor, cut) =
            (self.acceptor.clone().for_peer(peer), self.cut.lock().unwrap().clone());
        tokio::spawn(async move {
            let serving = acceptor.serve(stream, CancellationToken::new());
            cut.run_until_cancelled(serving).await;
        });
    }
}

pub(crate) struct Heir {
    won: JoinHandle<Term>,
}

impl Heir {
    /// Waits until it leads.
    pub(crate) async fn wins(self) -> Term {
        tokio::time::timeout(SOON, self.won).await.expect("long before the ttl is over").unwrap()
    }

    /// Waits for a while, in which it does not win.
    pub(crate) async fn waits(&self) {
        tokio::time::sleep(A_WHILE).await;
        assert!(!self.won.is_finished(), "the leader was taken for dead");
    }
}

/// A process that leads.
pub(crate) struct Leader {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Leader {
    pub(crate) fn start(address: &str, elections: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_death_child"))
            .arg(address)
            .args(elections)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Self { child, says }
    }

    /// Waits until it has won so many elections; the last one's term.
    pub(crate) async fn leads(mut self, elections: usize) -> (Self, Term) {
        let read = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            for _ in 0..elections {
                line.clear();
                self.says.read_line(&mut line).unwrap();
            }
            let term = line.split(' ').nth(2).and_then(|term| term.parse().ok());
            (self, Term(term.unwrap_or_else(|| panic!("it said {line:?}"))))
        });
        tokio::time::timeout(SOON, read).await.unwrap().unwrap()
    }

    pub(crate) fn freeze(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
