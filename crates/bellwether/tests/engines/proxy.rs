//! A bad network: it delays, cuts, swallows answers, and delivers late what was sent before a cut,
//! when the client may have said it again on its next connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A packet of something that takes many.
const LONG: usize = 16_384;

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
                        carry(client, upstream, &chance).await;
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
async fn carry(client: TcpStream, upstream: TcpStream, chance: &Chance) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = upstream.into_split();
    // Either while it joins, which takes two packets each way, or after some work: whoever only
    // waits in a line keeps its place, which no network could give back.
    let mut packets =
        if chance.below(8) == 0 { 1 + chance.below(4) } else { 14 + chance.below(30) };
    let swallowed = chance.below(4).min(packets - 1);
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    let late = loop {
        if chance.below(8) == 0 {
            tokio::time::sleep(Duration::from_millis(chance.below(3))).await;
        }
        // Who waits for what was swallowed would wait for long.
        let is_swallowing = packets <= swallowed;
        let len = tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(5)), if is_swallowing => break None,
            read = from_client.read(&mut asked) => {
                let Ok(len @ 1..) = read else { return };
                if packets == 1 {
                    break Some(&asked[..len]);
                }
                if to_server.write_all(&asked[..len]).await.is_err() {
                    return;
                }
                len
            }
            read = from_server.read(&mut answered) => {
                let Ok(len @ 1..) = read else { return };
                if !is_swallowing && to_client.write_all(&answered[..len]).await.is_err() {
                    return;
                }
                len
            }
        };
        // What is long must come through at last.
        if len < LONG {
            packets -= 1;
        }
        if packets == 0 {
            break None;
        }
    };
    drop((from_client, to_client));
    let Some(late) = late else { return };
    tokio::time::sleep(Duration::from_millis(chance.below(60))).await;
    if to_server.write_all(late).await.is_ok() {
        let pause = Duration::from_millis(5);
        while let Ok(Ok(1..)) = tokio::time::timeout(pause, from_server.read(&mut answered)).await {
        }
    }
}
