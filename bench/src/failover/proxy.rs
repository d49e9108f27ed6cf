//! A way to the server that can lose everything that goes over it, and counts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::boot_ns;

const BUFFER_BYTES: usize = 64 << 10;

pub(super) struct Proxy {
    address: String,
    is_open: Arc<watch::Sender<bool>>,
    passed: Arc<Passed>,
}

/// What went over it, both ways.
#[derive(Default)]
struct Passed {
    bytes: AtomicU64,
    packets: AtomicU64,
}

impl Proxy {
    /// Before the server at this address of the wire, over TCP.
    pub(super) async fn start(server: &str) -> Self {
        let server = server.trim_start_matches("bellwether://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("bellwether://{}", listener.local_addr().expect("an address"));
        let (is_open, passed) = (Arc::new(watch::Sender::new(true)), Arc::<Passed>::default());
        let (gate, count) = (Arc::clone(&is_open), Arc::clone(&passed));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                // A server that has ended lets nobody in.
                let Ok(far) = TcpStream::connect(&server).await else { continue };
                near.set_nodelay(true).expect("a socket");
                far.set_nodelay(true).expect("a socket");
                let (near_out, near_in) = near.into_split();
                let (far_out, far_in) = far.into_split();
                tokio::spawn(pass(near_out, far_in, gate.subscribe(), Arc::clone(&count)));
                tokio::spawn(pass(far_out, near_in, gate.subscribe(), Arc::clone(&count)));
            }
        });
        Self { address, is_open, passed }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// From here on nothing arrives, and nothing is closed; the moment just before.
    pub(super) fn cut(&self) -> u64 {
        let before = boot_ns();
        self.is_open.send_replace(false);
        before
    }

    /// What was on its way arrives, and what comes after it.
    pub(super) fn mend(&self) {
        self.is_open.send_replace(true);
    }

    /// How many bytes have passed, both ways.
    pub(super) fn bytes(&self) -> u64 {
        self.passed.bytes.load(Ordering::Relaxed)
    }

    /// How many packets they were, or what was read of them at once.
    pub(super) fn packets(&self) -> u64 {
        self.passed.packets.load(Ordering::Relaxed)
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut is_open: watch::Receiver<bool>,
    passed: Arc<Passed>,
) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if is_open.wait_for(|is_open| *is_open).await.is_err() {
            return;
        }
        passed.bytes.fetch_add(read as u64, Ordering::Relaxed);
        passed.packets.fetch_add(1, Ordering::Relaxed);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
