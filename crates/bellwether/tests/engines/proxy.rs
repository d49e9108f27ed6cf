//! A bad network: delays, cuts, swallows answers, and delivers a copy of what was sent before.
//!
//! A copy comes from a connection that is dead for its client, before the client is let in again:
//! that is how late a packet can be.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

static SEEDS: AtomicU64 = AtomicU64::new(0x5eed);

/// See the module.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) at: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let chance = Arc::new(Chance(AtomicU64::new(SEEDS.fetch_add(1, Ordering::Relaxed))));
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let chance = Arc::clone(&chance);
                tokio::spawn(async move {
                    // A connection that cannot be made is one more that is cut.
                    if let Ok(upstream) = TcpStream::connect(server).await {
                        carry(client, upstream, server, &chance).await;
                    }
                });
            }
        });
        Self { at, accepting }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Numbers that differ; which ones does not matter.
#[derive(Debug)]
struct Chance(AtomicU64);

impl Chance {
    fn below(&self, end: u64) -> u64 {
        let mut x = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }
}

/// Carries bytes until it cuts. The answers of the last packets are swallowed.
async fn carry(client: TcpStream, upstream: TcpStream, server: SocketAddr, chance: &Chance) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = upstream.into_split();
    // Joining alone takes two packets each way.
    let mut packets = 6 + chance.below(30);
    let swallowed = chance.below(4);
    let mut said = Vec::new();
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        if chance.below(8) == 0 {
            tokio::time::sleep(Duration::from_millis(chance.below(3))).await;
        }
        tokio::select! {
            read = from_client.read(&mut asked) => {
                let Ok(len @ 1..) = read else { return };
                said.extend_from_slice(&asked[..len]);
                if to_server.write_all(&asked[..len]).await.is_err() {
                    return;
                }
            }
            read = from_server.read(&mut answered) => {
                let Ok(len @ 1..) = read else { return };
                if packets > swallowed && to_client.write_all(&answered[..len]).await.is_err() {
                    return;
                }
            }
        }
        packets -= 1;
        if packets == 0 {
            break;
        }
    }
    if chance.below(2) == 0 {
        copy(&said, server).await;
    }
}

/// Says again what was said, and hears what is answered at once.
async fn copy(said: &[u8], server: SocketAddr) {
    let Ok(mut again) = TcpStream::connect(server).await else { return };
    if again.write_all(said).await.is_err() {
        return;
    }
    let mut heard = vec![0; 65_536];
    let pause = Duration::from_millis(5);
    while let Ok(Ok(1..)) = tokio::time::timeout(pause, again.read(&mut heard)).await {}
}
