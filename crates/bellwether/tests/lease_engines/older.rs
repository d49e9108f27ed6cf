//! A server that is older than its client: a word that it cannot read must not cost the next leader a
//! ttl.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bellwether::conformance::election::Place as _;
use bellwether::core::outcome::{EndedBy, LeftAs};
use bellwether::{Elections, WorkEnd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::own::Server;

const MAGIC_BYTES: usize = 8;
/// A frame with a whole call in it.
const ASK: u8 = 3;
/// The exit code that is looked for.
const CODE: u8 = 77;

/// A call that steps down because the work failed, as its last bytes: no successor, the reason and its
/// code, no contents.
const FAILED_WITH: [u8; 4] = [0, 7, CODE, 0];
/// The same with a reason that nobody has heard of.
const UNHEARD_OF: [u8; 4] = [0, 250, CODE, 0];

/// Passes everything on; that reason becomes one that the server does not know.
async fn line(server: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let changed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&changed);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (from_client, mut to_client) = client.into_split();
            let server = TcpStream::connect(server).await.unwrap();
            let (mut from_server, to_server) = server.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            tokio::spawn(pass(from_client, to_server, Arc::clone(&count)));
        }
    });
    (at, changed)
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    changed: Arc<AtomicUsize>,
) -> std::io::Result<()> {
    let mut magic = [0; MAGIC_BYTES];
    from.read_exact(&mut magic).await?;
    to.write_all(&magic).await?;
    loop {
        let mut length = [0; 4];
        from.read_exact(&mut length).await?;
        let mut frame = vec![0; u32::from_le_bytes(length) as usize];
        from.read_exact(&mut frame).await?;
        if frame[0] == ASK && frame.ends_with(&FAILED_WITH) {
            let behind = frame.len() - FAILED_WITH.len();
            frame[behind..].copy_from_slice(&UNHEARD_OF);
            changed.fetch_add(1, Ordering::SeqCst);
        }
        to.write_all(&[&length[..], &frame].concat()).await?;
    }
}

#[tokio::test]
async fn a_reason_that_the_server_cannot_read_is_left_out() {
    let server = Server::start().await;
    let (at, changed) = line(server.server().unwrap()).await;
    let elections = Elections::open(format!("bellwether://{at}")).await.unwrap();
    let election = elections.election("reports").unwrap();
    let guard = election.contend().await.unwrap();
    let term = guard.term();
    guard.ended(WorkEnd::FailedWith { code: CODE.into() }).await.unwrap();
    assert_eq!(changed.load(Ordering::SeqCst), 1);
    let history = election.history().await.unwrap();
    assert_eq!(history[0].term, term);
    let by = EndedBy::Released { reason: None };
    assert!(
        matches!(history[0].left_as, LeftAs::Ended { by: told, .. } if told == by),
        "{history:?}"
    );
}
