//! Connections between members: one out to every address, in which we speak, and those that come
//! in, to which we listen. Everything is bounded: frames that wait, connections that come in, how
//! often an address is called and how long anybody is waited for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::chance::Chance;
use bellwether_core::fleet::{FleetId, Word};
use bellwether_core::limits;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::frame::{Frame, Hello, Seals, Side};
use crate::chance::{random_u64, random_u128};

/// First pause before an address is called again; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Longest pause; half a silence if that is shorter, so that a member that returns is called while
/// it still listens.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Connections that come in: every member one, and as many again that are just being replaced.
const CALLERS_MAX: usize = 2 * limits::FLEET_MEMBERS_MAX;

/// Whoever speaks for this member.
#[derive(Debug)]
pub(super) struct Voice {
    pub(super) hello: Hello,
    pub(super) secret: String,
    pub(super) closing: CancellationToken,
}

impl Voice {
    fn silence(&self) -> Duration {
        Duration::from_millis(self.hello.config.silence_ms)
    }

    /// Without a secret nobody outside this machine is spoken to.
    pub(super) fn may_call(&self, address: SocketAddr) -> bool {
        !self.secret.is_empty() || address.ip().to_canonical().is_loopback()
    }

    /// Exchanges greetings and hellos.
    async fn greet(&self, stream: &mut TcpStream, side: Side) -> Result<(Seals, Hello), String> {
        // Small words that must arrive soon.
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        let chance = random_u128().to_le_bytes();
        let mut seals = Seals::open(stream, side, &self.secret, chance).await?;
        let ours = Frame::Hello(Box::new(self.hello.clone()));
        if side == Side::Caller {
            seals.write(stream, &ours).await?;
        }
        let Frame::Hello(theirs) = seals.read(stream).await? else {
            return Err("it did not say who it is".to_owned());
        };
        // Answered in any case: the caller shall know what differs, too.
        if side == Side::Called {
            seals.write(stream, &ours).await?;
        }
        match self.hello.differs(&theirs) {
            Some(why) => Err(why),
            None => Ok((seals, *theirs)),
        }
    }
}

/// What connections tell the shell.
#[derive(Debug)]
pub(super) enum News {
    /// A member said something.
    Word { from: FleetId, life: u64, word: Word },
    /// A member named others.
    Members(Vec<String>),
    /// What answers at an address; a member that is this very one is not called again.
    Linked { address: String, id: FleetId, is_us: bool },
    /// Nobody can be reached there.
    Unlinked { address: String, why: String },
}

/// Calls an address for as long as the fleet lasts, and says there what comes out of `frames`.
pub(super) async fn call(
    voice: Arc<Voice>,
    address: String,
    mut frames: mpsc::Receiver<Frame>,
    news: mpsc::Sender<News>,
) {
    let mut chance = Chance::new(random_u64());
    let mut pause = PAUSE_MIN;
    loop {
        let connected = tokio::select! {
            connected = timeout(voice.silence(), connect(&voice, &address)) => connected,
            () = voice.closing.cancelled() => return,
        };
        let why = match connected {
            Ok(Ok((stream, seals, hello))) => {
                let (ours, theirs) = (&voice.hello.config, &hello.config);
                let is_us = (ours.me, ours.life) == (theirs.me, theirs.life);
                let linked = News::Linked { address: address.clone(), id: theirs.me, is_us };
                if news.send(linked).await.is_err() || is_us {
                    return;
                }
                pause = PAUSE_MIN;
                // What was meant for an earlier connection is not news any more.
                while frames.try_recv().is_ok() {}
                match speak(&voice, stream, seals, &mut frames).await {
                    Ok(()) => return,
                    Err(why) => why,
                }
            }
            Ok(Err(why)) => why,
            Err(_) => "no answer in time".to_owned(),
        };
        if news.send(News::Unlinked { address: address.clone(), why }).await.is_err() {
            return;
        }
        let ms = chance.jitter_ms(pause.as_millis() as u64);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(ms)) => {}
            () = voice.closing.cancelled() => return,
        }
        pause = (pause * 2).min(PAUSE_MAX).min(voice.silence() / 2);
    }
}

async fn connect(voice: &Voice, address: &str) -> Result<(TcpStream, Seals, Hello), String> {
    let mut found = tokio::net::lookup_host(address).await.map_err(|e| e.to_string())?;
    let Some(socket) = found.find(|socket| voice.may_call(*socket)) else {
        return Err("it is not on this machine, and the fleet has no secret".to_owned());
    };
    let mut stream = TcpStream::connect(socket).await.map_err(|e| e.to_string())?;
    let (seals, hello) = voice.greet(&mut stream, Side::Caller).await?;
    Ok((stream, seals, hello))
}

/// Speaks until there is nothing more to say.
async fn speak(
    voice: &Voice,
    mut stream: TcpStream,
    mut seals: Seals,
    frames: &mut mpsc::Receiver<Frame>,
) -> Result<(), String> {
    let (mut read, mut write) = stream.split();
    let mut nothing = [0; 1];
    loop {
        let frame = tokio::select! {
            frame = frames.recv() => frame,
            // Nothing is said in this direction: it has ended.
            _ = read.read(&mut nothing) => return Err("it closed the connection".to_owned()),
        };
        let Some(frame) = frame else { return Ok(()) };
        match timeout(voice.silence(), seals.write(&mut write, &frame)).await {
            Ok(written) => written?,
            Err(_) => return Err("it does not read what it is told".to_owned()),
        }
    }
}

/// Lets others in for as long as the fleet lasts.
pub(super) async fn accept(voice: Arc<Voice>, listener: TcpListener, news: mpsc::Sender<News>) {
    let places = Arc::new(Semaphore::new(CALLERS_MAX));
    let mut callers = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = callers.join_next() => continue,
        };
        let Ok((stream, from)) = accepted else {
            // Out of file descriptors, as a rule: it passes.
            tokio::time::sleep(PAUSE_MIN).await;
            continue;
        };
        if let Ok(place) = Arc::clone(&places).try_acquire_owned()
            && voice.may_call(from)
        {
            let (voice, news) = (Arc::clone(&voice), news.clone());
            callers.spawn(async move {
                // Why somebody went away, or was not let in, is told to it and not to us.
                let _ = listen(&voice, stream, &news).await;
                drop(place);
            });
        }
    }
}

async fn listen(
    voice: &Voice,
    mut stream: TcpStream,
    news: &mpsc::Sender<News>,
) -> Result<(), String> {
    let late = |_| "too slow".to_owned();
    let greeted = timeout(voice.silence(), voice.greet(&mut stream, Side::Called)).await;
    let (mut seals, hello) = greeted.map_err(late)??;
    let (from, life) = (hello.config.me, hello.config.life);
    let mut heard = Some(News::Members(vec![hello.address]));
    loop {
        if let Some(news_of) = heard.take() {
            news.send(news_of).await.map_err(|_| "the fleet was left".to_owned())?;
        }
        // A member beats four times in a silence; one that does not is gone.
        let frame = timeout(4 * voice.silence(), seals.read(&mut stream)).await.map_err(late)??;
        heard = match frame {
            Frame::Word(word) => Some(News::Word { from, life, word }),
            Frame::Members(addresses) => Some(News::Members(addresses)),
            Frame::Hello(_) => return Err("it said twice who it is".to_owned()),
        };
    }
}
