//! A client that was written from `docs/wire.md` alone, in another language, with a server: what
//! the page says is enough.
//!
//! The client is `examples/wire-client/`; most of the story is in its `check.py`. Here is what needs
//! the other side.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "support/certificates.rs"]
mod certificates;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use bellwether::message::{BodyKind, Message, Value};
use bellwether::wire::accept::{Acceptor, Limits};
use bellwether::{Bellwether, Error, QueueSettings};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Lets clients in, and can send all of them away as a server does that stops.
#[derive(Clone)]
struct Door {
    acceptor: Acceptor,
    inside: Arc<Mutex<Inside>>,
}

/// Those who were let in since the last time that all were sent away.
#[derive(Default)]
struct Inside {
    stop: CancellationToken,
    connections: TaskTracker,
}

impl Door {
    fn new(store: &Bellwether) -> Self {
        let acceptor = Acceptor::new(store, Limits::default()).unwrap();
        Self { acceptor, inside: Arc::default() }
    }

    fn let_in(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let inside = self.inside.lock().unwrap();
        let (acceptor, stop) = (self.acceptor.clone(), inside.stop.clone());
        inside.connections.spawn(async move { acceptor.serve(stream, stop).await });
    }

    /// Until they are gone. Whoever comes from here on is let in again.
    async fn send_away(&self) {
        let inside = std::mem::take(&mut *self.inside.lock().unwrap());
        inside.stop.cancel();
        inside.connections.close();
        inside.connections.wait().await;
    }
}

/// A message with everything in it that a content can have.
fn everything() -> Message {
    let values = [
        Value::Null,
        Value::Bool(true),
        Value::Bool(false),
        Value::Ubyte(200),
        Value::Byte(-100),
        Value::Ushort(60_000),
        Value::Short(-30_000),
        Value::Uint(4_000_000_000),
        Value::Int(-2_000_000_000),
        Value::Ulong(u64::MAX),
        Value::Long(i64::MIN),
        Value::Float(1.5),
        Value::Double(-2.25),
        Value::Char('ß'),
        Value::Timestamp(-5),
        Value::Uuid([7; 16]),
        Value::Binary(b"\0bytes".to_vec().into()),
        Value::String("a text, größer".into()),
        Value::Symbol("word".into()),
    ];
    let message = Message::new("the body")
        .id("id")
        .subject("subject")
        .correlation_id("correlation")
        .to("to")
        .reply_to("reply to")
        .reply_to_session("reply to session")
        .content_type("text/plain")
        .body_kind(BodyKind::Value);
    // Names that are sorted by bytes, not by letters.
    let names = ["ä", "Z", "a", ""].into_iter().map(str::to_owned);
    let names = names.chain((0..).map(|n: u32| format!("p{n}")));
    values.into_iter().zip(names).fold(message, |message, (v, name)| message.property(name, v))
}

/// Runs the client. What it says in between is answered by `on_line`.
fn run_client(address: &str, authorities: &Path, mut on_line: impl FnMut(&str)) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/wire-client/check.py");
    let mut client = Command::new("python3")
        .arg("-B")
        .arg(&script)
        .args([address, "--with-test"])
        .env("SSL_CERT_FILE", authorities)
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs the client of docs/wire.md; install Python 3.11 or later");
    let mut last = String::new();
    for line in BufReader::new(client.stdout.take().unwrap()).lines() {
        last = line.unwrap();
        on_line(&last);
    }
    let ended = client.wait().unwrap();
    assert!(ended.success() && last == "all is well", "the client says above what is wrong");
}

async fn prepare(store: &Bellwether) -> Result<(), Error> {
    let window = QueueSettings { duplicate_window_ms: Some(600_000), ..QueueSettings::default() };
    let unique = store.create_queue("unique", window).await?;
    unique.send(Message::new("").id("order-17")).await?;
    let from_rust = store.create_queue("from-rust", QueueSettings::default()).await?;
    from_rust.send(everything()).await?;
    store.create_queue("for-rust", QueueSettings::default()).await?;
    Ok(())
}

/// The client with a server at `address`; then what it has left behind.
async fn check(store: Bellwether, door: Door, address: String) -> Result<(), Error> {
    check_trusting(store, door, address, Path::new("/dev/null")).await
}

/// The same with authorities that the client trusts.
async fn check_trusting(
    store: Bellwether,
    door: Door,
    address: String,
    authorities: &Path,
) -> Result<(), Error> {
    let authorities = authorities.to_owned();
    prepare(&store).await?;
    let (runtime, orders) = (tokio::runtime::Handle::current(), store.queue("py-orders")?);
    let at_the_door = door.clone();
    let client = tokio::task::spawn_blocking(move || {
        run_client(&address, &authorities, |line| {
            if line == "stop" {
                runtime.block_on(at_the_door.send_away());
                runtime.block_on(orders.send("after the stop")).unwrap();
            }
        });
    });
    client.await.unwrap();
    let found = store.queue("for-rust")?.receive().and_delete().await?;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].message(), Ok(&everything()));
    // It has left, and so have those who were sent away or gone.
    let left = store.queue("py-orders")?.info().await?;
    assert_eq!((left.counts.ready, left.counts.locked), (0, 0), "{left:?}");
    door.send_away().await;
    store.close().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_in_python_does_its_work_over_tcp() -> Result<(), Error> {
    let store = Bellwether::open("memory:").await?;
    let door = Door::new(&store);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("bellwether://{}", listener.local_addr().unwrap());
    let letting_in = door.clone();
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            letting_in.let_in(stream);
        }
    });
    check(store, door, address).await?;
    accepting.abort();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_in_python_does_its_work_over_a_unix_socket() -> Result<(), Error> {
    let store = Bellwether::open("memory:").await?;
    let door = Door::new(&store);
    let folder = std::env::temp_dir().join(format!("bellwether-wire-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let address = format!("bellwether+unix:{}", path.display());
    let letting_in = door.clone();
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            letting_in.let_in(stream);
        }
    });
    check(store, door, address).await?;
    accepting.abort();
    std::fs::remove_dir_all(&folder).unwrap();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_in_python_does_its_work_over_tls() -> Result<(), Error> {
    let store = Bellwether::open("memory:").await?;
    let door = Door::new(&store);
    let folder = std::env::temp_dir().join(format!("bellwether-wire-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let authority = certificates::Authority::new();
    let authorities = folder.join("ca.pem");
    std::fs::write(&authorities, &authority.pem).unwrap();
    let tls = authority.issue(&["localhost"]).acceptor();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("bellwethers://localhost:{}", listener.local_addr().unwrap().port());
    let letting_in = door.clone();
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            letting_in.let_in(tls.accept(stream).await.unwrap());
        }
    });
    check_trusting(store, door, address, &authorities).await?;
    accepting.abort();
    std::fs::remove_dir_all(&folder).unwrap();
    Ok(())
}
