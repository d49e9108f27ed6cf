//! The remote engine: a store that another process has open, over one connection.
//!
//! ```text
//!   callers ──► desk ──► link: one task, one connection ──► server
//!      ▲          ▲        │ broken: connect again, ask again what was not answered
//!      └── answers ────────┘
//! ```
//!
//! Callers who ask at the same time travel in the same packet: whoever asks first wakes the link, but
//! behind all others that are ready, who are often those just answered. `desk` keeps what is not
//! answered, `link` does the I/O.

pub(super) mod address;
mod desk;
mod link;
#[cfg(feature = "tls")]
mod tls;

#[cfg(feature = "tls")]
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bellwether_core::command::Command;
use bellwether_core::name::{MemberId, MemberSlot, Ticket};
use bellwether_core::time::BootTime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Call;
use super::ask::{Ask, Asker, wake_soon};
use super::local::shared::Entered;
use super::pending::Pending;
use crate::clock::Clock;
use crate::credential::Credential;
use crate::error::Error;
pub(crate) use address::Address;
#[cfg(feature = "tls")]
use address::Stream;
use desk::{Desk, Told};
use link::Connected;
#[cfg(feature = "tls")]
pub(crate) use tls::TlsOptions;

/// How long a goodbye may take.
const CLOSING: Duration = Duration::from_secs(5);

/// What a server is reached with.
#[derive(Clone, Debug)]
pub(crate) struct RemoteOptions {
    pub(crate) address: Address,
    pub(crate) clock: Clock,
    /// How long a call waits for a connection.
    pub(crate) patience: Duration,
    /// What others see of the member.
    pub(crate) metadata: String,
    /// What it leads may go on after this process has ended.
    pub(crate) outlived: bool,
    /// What it is shown.
    pub(crate) credential: Credential,
    #[cfg(feature = "tls")]
    pub(crate) tls: TlsOptions,
}

impl RemoteOptions {
    /// The process whose end is the end of all it leads; empty if that proves nothing.
    fn own_process(&self) -> String {
        if self.outlived { String::new() } else { self.address.own_process() }
    }
}

#[cfg(feature = "tls")]
impl RemoteOptions {
    /// A stream to the server on which it is the one it should be, if the address asks for that.
    async fn secure(&self, stream: Stream) -> io::Result<Stream> {
        match (&self.address, stream) {
            (Address::Tls(host), Stream::Tcp(stream)) => {
                self.tls.shake(host, stream).await.map(Stream::Tls)
            }
            (_, stream) => Ok(stream),
        }
    }
}

/// See the module. The last handle to go says goodbye.
#[derive(Debug)]
pub struct Remote {
    core: Arc<Core>,
    link: Mutex<Option<JoinHandle<()>>>,
}

/// What callers and the link share.
#[derive(Debug)]
struct Core {
    options: RemoteOptions,
    desk: Mutex<Desk>,
    id: Mutex<MemberId>,
    /// The link is to say goodbye.
    closing: CancellationToken,
}

impl Core {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        // No code between lock and unlock can leave the lists half changed.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self) -> MutexGuard<'_, MemberId> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those who wait what became of what they asked.
    fn tell(&self, told: Told) {
        for (asker, answer) in told {
            if let Some(call) = asker.answer_one_of_many(answer) {
                self.hand_in(&Ask::told(call));
            }
        }
    }

    fn enter(&self, ask: &Arc<Ask>) -> Result<(u64, Option<Waker>), Error> {
        // Only of a wait it matters when it began.
        let is_wait = ask.call().request.command.wait_ms() > 0;
        let now = if is_wait { self.options.clock.boot() } else { BootTime(0) };
        self.desk().enter(now, ask)
    }

    /// Hands in what nobody waits for, as far as that is still possible.
    fn hand_in(&self, ask: &Arc<Ask>) {
        wake_soon(self.enter(ask).ok().and_then(|(_, waker)| waker));
    }

    fn denied(&self, why: String) -> Error {
        Error::Denied { address: self.options.address.to_string(), why }
    }

    fn unreachable(&self, why: impl std::fmt::Display) -> Error {
        Error::Unreachable { address: self.options.address.to_string(), why: why.to_string() }
    }

    fn no_handshake(&self, why: String) -> Error {
        Error::Handshake { address: self.options.address.to_string(), why }
    }
}

impl Remote {
    /// Connects. Fails if the server is not there now; later the connection is restored by itself.
    pub(crate) async fn open(options: RemoteOptions) -> Result<Self, Error> {
        let core = Arc::new(Core {
            options,
            desk: Mutex::new(Desk::new()),
            id: Mutex::new(MemberId(crate::chance::random_u128())),
            closing: CancellationToken::new(),
        });
        let connected = Connected::new(&core).await?;
        let link = tokio::spawn(link::run(Arc::clone(&core), connected));
        Ok(Self { core, link: Mutex::new(Some(link)) })
    }

    pub(crate) fn options(&self) -> &RemoteOptions {
        &self.core.options
    }

    /// Whether calls are still taken.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.core.desk().check_open()
    }

    pub(crate) fn member(&self) -> MemberSlot {
        self.core.desk().member()
    }

    pub(crate) fn member_id(&self) -> MemberId {
        *self.core.id()
    }

    pub(crate) fn submit(&self, call: Call) -> Pending<'_> {
        Pending::remote(self, call, false)
    }

    /// Hands in a call whose outcome stands even if nobody takes its answer.
    pub(crate) fn submit_for_good(&self, call: Call) -> Pending<'_> {
        Pending::remote(self, call, true)
    }

    /// Hands in a call whose answer nobody waits for.
    pub(crate) fn tell(&self, call: Call) {
        self.core.hand_in(&Ask::told(call));
    }

    /// Leaves an ask at the desk.
    pub(crate) fn enter(&self, ask: Arc<Ask>) -> Entered {
        let entered = self.core.enter(&ask);
        match entered {
            Ok((number, waker)) => {
                wake_soon(waker);
                Entered::Wait(Ticket(number))
            }
            Err(error) => {
                // Nothing was handed out that would have to be given back.
                let _ = Asker::new(ask).answer(Err(error));
                Entered::Answered
            }
        }
    }

    /// Nobody waits for this answer any more.
    pub(crate) fn withdraw(&self, ticket: Ticket, gives_back: bool) {
        let waker: Option<Waker> = self.core.desk().withdraw(ticket.0, gives_back);
        wake_soon(waker);
    }

    /// Says goodbye: the member's leases are free at once, and its waits are over.
    pub async fn close(&self) {
        let leave = self.submit(super::call(self.member(), Command::Leave));
        // Without a connection there is nobody to say goodbye to; the member runs out by itself.
        let _ = tokio::time::timeout(CLOSING, async {
            let mut leave = std::pin::pin!(leave);
            let polled = std::future::poll_fn(|cx| match leave.as_mut().poll(cx) {
                std::task::Poll::Ready(done) => std::task::Poll::Ready(Some(done)),
                std::task::Poll::Pending => std::task::Poll::Ready(None),
            });
            if polled.await.is_none() {
                // It is asked; nothing else is after it.
                self.core.desk().stop(Error::Closed);
                let _ = leave.await;
            }
        })
        .await;
        self.core.closing.cancel();
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(link) = link {
            // What could panic there ends the link, not us.
            let _ = link.await;
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let leave = Ask::told(super::call(self.member(), Command::Leave));
        self.core.hand_in(&leave);
        self.core.closing.cancel();
    }
}
