//! A session: one connection at a time, to one server after the other, and what it keeps alive.
//!
//! ```text
//!   callers ──► asks ──► one task, one connection ──► a server
//!                          │ broken: what was asked is unknown, the session goes on elsewhere
//!                          └ expired: every node of the session is gone, a new session begins
//! ```

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::super::desk::jittered;
use super::jute::{Reader, Writer};

/// No answer is longer.
const FRAME_BYTES_MAX: usize = 4 << 20;
/// Pause between two tries to connect.
const RECONNECT: Duration = Duration::from_millis(200);
/// A server that has taken a connection and does not greet, as one does that is being started, is not
/// waited for longer, however long the session.
const GREETING_MAX: Duration = Duration::from_secs(3);
/// Watches that fired and nobody has looked at yet; whoever misses one looks for itself.
const EVENTS_MAX: usize = 256;

const XID_EVENT: i32 = -1;
const XID_PING: i32 = -2;
const OP_PING: i32 = 11;
const OP_CLOSE: i32 = -11;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ZkFault {
    /// Nothing was asked.
    Unreachable(String),
    /// It may have been done or not.
    Unknown(String),
    /// The server said no, with this number.
    Refused(i32),
}

/// A session as it is at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Session {
    /// Zero before there was one.
    pub(super) id: i64,
    /// How long it outlives the last thing that a server heard of it, as they agreed.
    pub(super) timeout: Duration,
}

#[derive(Debug)]
struct Ask {
    op: i32,
    body: Vec<u8>,
    answer: oneshot::Sender<Result<Vec<u8>, ZkFault>>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Link {
    asks: mpsc::UnboundedSender<Ask>,
    events: broadcast::Sender<String>,
    session: watch::Receiver<Session>,
}

impl Link {
    /// The link, and the task that must run for it.
    pub(super) fn new(
        servers: Vec<String>,
        timeout: Duration,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (asks, asked) = mpsc::unbounded_channel();
        let events = broadcast::Sender::new(EVENTS_MAX);
        let (changed, session) = watch::channel(Session::default());
        let keeper = Keeper {
            servers,
            wanted: timeout,
            asked,
            events: events.clone(),
            changed,
            password: vec![0; 16],
            seen: 0,
        };
        (Self { asks, events, session }, keeper.run())
    }

    /// The session that there is, or was last.
    pub(super) fn session(&self) -> Session {
        *self.session.borrow()
    }

    /// Waits until there is one.
    pub(super) async fn established(&self) -> Session {
        let mut session = self.session.clone();
        session.wait_for(|session| session.id != 0).await.map(|now| *now).unwrap_or_default()
    }

    /// The paths of watches that fire from here on; an empty one if any may have.
    pub(super) fn events(&self) -> broadcast::Receiver<String> {
        self.events.subscribe()
    }

    pub(super) async fn ask(&self, op: i32, body: Writer) -> Result<Vec<u8>, ZkFault> {
        let (answer, answered) = oneshot::channel();
        let gone = || ZkFault::Unreachable("the session was closed".into());
        self.asks.send(Ask { op, body: body.0, answer }).map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Ends the session, and with it every node of its own.
    pub(super) async fn close(&self) {
        let _ = self.ask(OP_CLOSE, Writer::default()).await;
    }
}

/// The task behind a link.
struct Keeper {
    servers: Vec<String>,
    wanted: Duration,
    asked: mpsc::UnboundedReceiver<Ask>,
    events: broadcast::Sender<String>,
    changed: watch::Sender<Session>,
    password: Vec<u8>,
    /// The newest transaction that a server told us of: no older server will do.
    seen: i64,
}

/// Why a connection is over.
enum Over {
    Broken(String),
    /// Nobody will ask any more.
    Closed,
}

impl Keeper {
    async fn run(mut self) {
        for turn in 0.. {
            let server = self.servers[turn % self.servers.len()].clone();
            let why = match self.connect(&server).await {
                Some(Ok(stream)) => match self.serve(stream).await {
                    Over::Broken(why) => why,
                    Over::Closed => return,
                },
                Some(Err(error)) => error.to_string(),
                None => return,
            };
            // Its watches went with the connection.
            let _ = self.events.send(String::new());
            let pause = tokio::time::sleep(jittered(RECONNECT));
            let why = format!("{server}: {why}");
            if self.refuse_until(pause, &why).await.is_none() {
                return;
            }
        }
    }

    /// Whoever asks while there is no connection hears so. `None` if nobody will ask any more.
    async fn refuse_until<T>(&mut self, until: impl Future<Output = T>, why: &str) -> Option<T> {
        tokio::pin!(until);
        loop {
            tokio::select! {
                reached = &mut until => return Some(reached),
                ask = self.asked.recv() => {
                    // Whoever has gone away meanwhile needs no answer.
                    let _ = ask?.answer.send(Err(ZkFault::Unreachable(why.to_owned())));
                }
            }
        }
    }

    async fn connect(&mut self, server: &str) -> Option<io::Result<TcpStream>> {
        let session = *self.changed.borrow();
        let hello = Writer::default()
            .int(0)
            .long(self.seen)
            .int(i32::try_from(self.wanted.as_millis()).unwrap_or(i32::MAX))
            .long(session.id)
            .bytes(&self.password)
            .bool(false);
        let limit = (self.wanted / 3).min(GREETING_MAX);
        let shaking = async {
            let mut stream = TcpStream::connect(server).await?;
            stream.set_nodelay(true)?;
            stream.write_all(&framed(&hello.0)).await?;
            let welcome = read_frame(&mut stream).await?;
            Ok::<_, io::Error>((stream, welcome))
        };
        let shaken = tokio::time::timeout(limit, shaking);
        let shaken = self.refuse_until(shaken, &format!("{server}: connecting")).await?;
        let late = || io::Error::other(format!("no answer within {limit:?}"));
        Some(shaken.map_err(|_| late()).and_then(|shaken| shaken).and_then(|(stream, welcome)| {
            self.take_welcome(&welcome)?;
            Ok(stream)
        }))
    }

    fn take_welcome(&mut self, welcome: &[u8]) -> io::Result<()> {
        let mut reader = Reader(welcome);
        let mut read =
            || Some((reader.int()?, reader.int()?, reader.long()?, reader.bytes()?.to_vec()));
        let Some((_, timeout, id, password)) = read() else {
            return Err(io::Error::other("it does not speak ZooKeeper's protocol"));
        };
        if id == 0 || timeout <= 0 {
            // Expired: the next try asks for a new session.
            self.changed.send_modify(|session| session.id = 0);
            self.password = vec![0; 16];
            return Err(io::Error::other("the session has expired"));
        }
        self.password = password;
        let timeout = Duration::from_millis(u64::from(timeout.unsigned_abs()));
        self.changed.send_replace(Session { id, timeout });
        Ok(())
    }

    async fn serve(&mut self, stream: TcpStream) -> Over {
        let timeout = self.changed.borrow().timeout;
        let (reading, mut writing) = stream.into_split();
        let (frames, mut read) = mpsc::channel(64);
        // Reading a frame cannot be given up in the middle; so it has a task of its own.
        let reader = tokio::spawn(read_all(reading, frames));
        let _reader = tokio_util::task::AbortOnDropHandle::new(reader);
        let mut pending: VecDeque<(i32, Ask)> = VecDeque::new();
        let mut ping = tokio::time::interval(timeout / 3);
        let mut xid = 0;
        let (mut closing, mut unheard) = (false, 0);
        let over = loop {
            let out = tokio::select! {
                ask = self.asked.recv(), if !closing => {
                    let Some(ask) = ask else { break Over::Closed };
                    xid = if xid == i32::MAX { 1 } else { xid + 1 };
                    closing = ask.op == OP_CLOSE;
                    let out = Writer::default().int(xid).int(ask.op).0;
                    let out = [out, ask.body.clone()].concat();
                    pending.push_back((xid, ask));
                    out
                }
                frame = read.recv() => {
                    let Some(frame) = frame else { break Over::Broken("it was closed".into()) };
                    unheard = 0;
                    if let Err(why) = self.take(&frame, &mut pending) {
                        break Over::Broken(why);
                    }
                    continue;
                }
                _ = ping.tick() => {
                    unheard += 1;
                    if unheard > 2 {
                        break Over::Broken("it does not answer".into());
                    }
                    Writer::default().int(XID_PING).int(OP_PING).0
                }
            };
            if let Err(error) = writing.write_all(&framed(&out)).await {
                break Over::Broken(error.to_string());
            }
        };
        for (_, ask) in pending {
            let _ = ask.answer.send(Err(ZkFault::Unknown("the connection was lost".into())));
        }
        if closing { Over::Closed } else { over }
    }

    fn take(&mut self, frame: &[u8], pending: &mut VecDeque<(i32, Ask)>) -> Result<(), String> {
        let unclear = || "it sends what nobody understands".to_owned();
        let mut reader = Reader(frame);
        let xid = reader.int().ok_or_else(unclear)?;
        let zxid = reader.long().ok_or_else(unclear)?;
        let error = reader.int().ok_or_else(unclear)?;
        self.seen = self.seen.max(zxid);
        if xid == XID_PING {
            return Ok(());
        }
        if xid == XID_EVENT {
            let (_kind, _state) = (reader.int(), reader.int());
            let _ = self.events.send(reader.text().ok_or_else(unclear)?);
            return Ok(());
        }
        let (expected, ask) = pending.pop_front().ok_or_else(unclear)?;
        if expected != xid {
            pending.push_front((expected, ask));
            return Err(unclear());
        }
        let answer = if error == 0 { Ok(reader.0.to_vec()) } else { Err(ZkFault::Refused(error)) };
        let _ = ask.answer.send(answer);
        Ok(())
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    Writer::default().bytes(body).0
}

async fn read_all(mut from: OwnedReadHalf, frames: mpsc::Sender<Vec<u8>>) {
    while let Ok(frame) = read_frame(&mut from).await {
        if frames.send(frame).await.is_err() {
            return;
        }
    }
}

async fn read_frame(from: &mut (impl tokio::io::AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let len = usize::try_from(from.read_i32().await?).ok();
    let len = len.filter(|len| *len <= FRAME_BYTES_MAX);
    let len = len.ok_or_else(|| io::Error::other("it does not speak ZooKeeper's protocol"))?;
    let mut frame = vec![0; len];
    from.read_exact(&mut frame).await?;
    Ok(frame)
}
