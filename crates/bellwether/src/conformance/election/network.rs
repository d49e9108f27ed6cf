//! A network that can be made bad: one TCP door to one server, for one member.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How it is with the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It carries.
    Good,
    /// It carries nothing, and nobody hears of it.
    Frozen,
    /// It carries what is asked, and so many answers more, then none.
    Swallowing { answers: u32 },
}

/// See the module. Everything that is carried is late by [`Network::delay`].
#[derive(Debug)]
pub struct Network {
    /// Where the member connects.
    pub at: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    state: watch::Sender<State>,
    delay: watch::Sender<Duration>,
    /// Connections older than this number are cut.
    cut: watch::Sender<u64>,
}

impl Network {
    /// A good one.
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            state: watch::Sender::new(State::Good),
            delay: watch::Sender::new(Duration::ZERO),
            cut: watch::Sender::new(0),
        });
        let sharing = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server, Arc::clone(&sharing)));
            }
        });
        Self { at, shared, accepting }
    }

    /// From here on nothing gets through, in either direction; no connection is closed.
    pub fn freeze(&self) {
        self.shared.state.send_replace(State::Frozen);
    }

    /// What the member asks gets through, and so many pieces of what it is answered.
    pub fn swallow_answers_after(&self, answers: u32) {
        self.shared.state.send_replace(State::Swallowing { answers });
    }

    /// From here on everything takes so much longer.
    pub fn delay(&self, by: Duration) {
        self.shared.delay.send_replace(by);
    }

    /// Everything gets through again; what was held back first.
    pub fn heal(&self) {
        self.shared.state.send_replace(State::Good);
    }

    /// Breaks all connections there are; new ones are carried.
    pub fn cut(&self) {
        self.shared.cut.send_modify(|cut| *cut += 1);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn carry(client: TcpStream, server: SocketAddr, shared: Arc<Shared>) {
    let mut cut = shared.cut.subscribe();
    let carried = async {
        // Through a frozen network nobody connects: the handshake that the kernel did leads nowhere.
        until_carried(&shared, true).await;
        let Ok(upstream) = TcpStream::connect(server).await else { return };
        let _ = (client.set_nodelay(true), upstream.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = upstream.into_split();
        let asked = one_way(from_client, to_server, &shared, true);
        let answered = one_way(from_server, to_client, &shared, false);
        tokio::select! {
            () = asked => {}
            () = answered => {}
        }
    };
    tokio::select! {
        () = carried => {}
        _ = cut.changed() => {}
    }
}

async fn one_way(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, is_asked: bool) {
    let mut piece = vec![0; 65_536];
    while let Ok(len @ 1..) = from.read(&mut piece).await {
        let delay = *shared.delay.borrow();
        tokio::time::sleep(delay).await;
        until_carried(shared, is_asked).await;
        if to.write_all(&piece[..len]).await.is_err() {
            return;
        }
    }
}

/// Waits until a piece may pass.
async fn until_carried(shared: &Shared, is_asked: bool) {
    let mut state = shared.state.subscribe();
    loop {
        let mut passes = false;
        shared.state.send_if_modified(|state| match state {
            State::Good => {
                passes = true;
                false
            }
            State::Frozen | State::Swallowing { answers: 0 } => {
                passes = is_asked && *state != State::Frozen;
                false
            }
            State::Swallowing { answers } => {
                passes = true;
                *answers -= u32::from(!is_asked);
                !is_asked
            }
        });
        if passes || state.changed().await.is_err() {
            return;
        }
    }
}
