//! A leader for members that have no store at all: they only know each other.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
//! # use std::time::Duration;
//! use bellwether::fleet::{Fleet, FleetOptions, Strategy};
//!
//! let fleet = Fleet::join(FleetOptions {
//!     listen: "127.0.0.1:0".into(),
//!     members: vec![], // addresses of others; one that is there names the rest
//!     strategy: Strategy::Bully,
//!     majority_of: Some(1), // how many ids there are: a leader needs more than half of them
//! #   beat: Duration::from_millis(20), silence: Duration::from_millis(80),
//!     ..FleetOptions::new(7)
//! })
//! .await?;
//! let view = fleet.watch().wait_for(|view| view.is_us).await.unwrap().clone();
//! println!("{:?} leads", view.leader);
//! fleet.leave().await;
//! # Ok(()) }
//! ```
//!
//! This is for fleets that can have nothing better. Where there is a store, an
//! [`Election`](crate::Election) gives what no strategy here can: a term that survives everything
//! and fences what a leader writes. What each strategy promises and does not is in `docs/fleet.md`;
//! the rules are in `bellwether_core::fleet`.

mod frame;
mod link;
mod shell;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bellwether_core::error::Refusal;
use bellwether_core::fleet::{Config, Fleet as Machine, View};
use bellwether_core::limits;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

pub use bellwether_core::fleet::{FleetId, Obstacle, Strategy};

use crate::chance::random_u64;
use crate::clock::Clock;
use crate::credential::Credential;
use crate::error::Error;
use crate::queue::ms;
use frame::{ADDRESS_BYTES_MAX, Hello};
use link::Voice;
use shell::Shell;

/// Shorter secrets can be guessed from what is overheard.
const SECRET_BYTES_MIN: usize = 16;

/// How a member takes part. All members of a fleet need the same `name`, `strategy`,
/// `majority_of`, `beat`, `silence`, `hold` and `secret`; others are not spoken to.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// The fleet's name, to tell it from others; `fleet` if not said.
    pub name: String,
    /// This member's number: unique in its fleet, and the same after a restart.
    pub id: u64,
    /// Where to listen; `127.0.0.1:0` if not said. Any address but loopback needs a `secret`.
    pub listen: String,
    /// Where others can call this member, if that is not where it listens.
    pub advertise: Option<String>,
    /// Addresses of other members. This member's own may be among them.
    pub members: Vec<String>,
    /// Whether members that others name are called, too; true if not said. One address of a member
    /// that is there is then enough to find all.
    pub discover: bool,
    /// How the leader is found; [`Strategy::Bully`] if not said.
    pub strategy: Strategy,
    /// The majority rule: how many ids the fleet has at most. Its leader needs more than half of
    /// them at any time, and without them nobody leads. Without the rule every part of a divided
    /// network has a leader.
    pub majority_of: Option<u32>,
    /// How often a member says that it is here; half a second if not said.
    pub beat: Duration,
    /// How long a member may be silent before it counts as gone, at least four beats; two seconds if
    /// not said. A dead leader is followed after a little more.
    pub silence: Duration,
    /// How long a member follows a leader that it outranks before it takes over; ten seconds if
    /// not said. Members that come and go do not change the leader more often than that.
    pub hold: Duration,
    /// What all members know and nobody else does, at least 16 bytes. It proves who speaks; it
    /// hides nothing.
    pub secret: Credential,
}

impl FleetOptions {
    /// What is usual, on loopback, for a member of this number.
    pub fn new(id: u64) -> Self {
        Self {
            name: "fleet".to_owned(),
            id,
            listen: "127.0.0.1:0".to_owned(),
            advertise: None,
            members: Vec::new(),
            discover: true,
            strategy: Strategy::Bully,
            majority_of: None,
            beat: Duration::from_millis(500),
            silence: Duration::from_secs(2),
            hold: Duration::from_secs(10),
            secret: Credential::default(),
        }
    }

    fn config(&self) -> Config {
        Config {
            me: FleetId(self.id),
            life: random_u64(),
            strategy: self.strategy,
            majority_of: self.majority_of,
            beat_ms: ms(self.beat),
            silence_ms: ms(self.silence),
            hold_ms: ms(self.hold),
        }
    }

    /// Refuses what cannot work; gives the secret.
    fn check(&self) -> Result<String, Error> {
        self.config().check()?;
        let refuse = |what, why| Err(Error::Refused(Refusal::InvalidValue { what, why }));
        if self.name.len() > ADDRESS_BYTES_MAX || self.name.chars().any(char::is_control) {
            let why =
                format!("it is longer than {ADDRESS_BYTES_MAX} bytes or has control characters");
            return refuse("name", why);
        }
        if self.members.len() > limits::FLEET_MEMBERS_MAX {
            let most = limits::FLEET_MEMBERS_MAX;
            return refuse("members", format!("{} are more than {most}", self.members.len()));
        }
        let secret = match self.secret.read() {
            Ok(secret) => secret,
            Err(why) => return refuse("secret", why),
        };
        if !secret.is_empty() && secret.len() < SECRET_BYTES_MIN {
            let why = format!("it has fewer than {SECRET_BYTES_MIN} bytes and could be guessed");
            return refuse("secret", why);
        }
        for address in self.members.iter().chain(&self.advertise) {
            check_address(address, &secret)?;
        }
        Ok(secret)
    }
}

fn check_address(address: &str, secret: &str) -> Result<(), Error> {
    let wrong =
        |why: &str| Err(Error::Address { address: address.to_owned(), why: why.to_owned() });
    let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    if address.len() > ADDRESS_BYTES_MAX || !matches!(port, Some(Ok(_))) {
        return wrong("an address is HOST:PORT");
    }
    match address.parse::<SocketAddr>() {
        Ok(socket) if secret.is_empty() && !is_local(socket) => wrong(NEEDS_SECRET),
        _ => Ok(()),
    }
}

const NEEDS_SECRET: &str = "it is not on this machine, and without a secret anybody there could \
                            speak for a member; give all members the same `secret`";

fn is_local(socket: SocketAddr) -> bool {
    socket.ip().to_canonical().is_loopback()
}

/// The fleet as this member sees it: a belief, and with the majority rule one that
/// [`Fleet::is_trusted`] can make sure of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetView {
    /// Who leads, if this member knows of anybody.
    pub leader: Option<FleetId>,
    /// The number of its reign. It grows as far as members have heard of each other; it is kept
    /// nowhere, so it is no term and fences nothing.
    pub reign: u64,
    /// Whether that is this member.
    pub is_us: bool,
    /// Why this member could not lead at the moment.
    pub obstacle: Option<Obstacle>,
}

/// One address and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetMember {
    /// Where it is called.
    pub address: String,
    /// Who answers there, once somebody has.
    pub id: Option<FleetId>,
    /// Whether it was heard lately.
    pub is_present: bool,
    /// Why it cannot be spoken to, if it cannot.
    pub trouble: Option<String>,
}

/// What the shell shows to handles at any time.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    reign: AtomicU64,
    /// In milliseconds of the boot clock.
    until: AtomicU64,
    members: Mutex<Vec<FleetMember>>,
}

impl Trust {
    fn set(&self, view: View, me: FleetId, machine: &Machine) {
        if let Some((leader, reign)) = view.leader
            && leader == me
            && reign != self.reign.load(Ordering::SeqCst)
        {
            // In this order an older reign is never trusted with a newer one's time.
            self.until.store(0, Ordering::SeqCst);
            self.reign.store(reign, Ordering::SeqCst);
        }
        self.until.store(machine.trusted_until().0, Ordering::SeqCst);
    }

    fn show(&self, members: Vec<FleetMember>) {
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }

    fn is_trusted(&self, reign: Option<u64>) -> bool {
        let until = self.until.load(Ordering::SeqCst);
        let is_current = reign.is_none_or(|reign| reign == self.reign.load(Ordering::SeqCst));
        is_current && Clock::System.boot().0 < until
    }
}

/// A member of a fleet. Dropping it is like a crash: the others notice after a silence.
/// [`Fleet::leave`] tells them.
#[derive(Debug)]
pub struct Fleet {
    address: SocketAddr,
    view: watch::Receiver<FleetView>,
    trust: Arc<Trust>,
    /// Ends works.
    stop: CancellationToken,
    works: TaskTracker,
    /// Ends the shell.
    leave: CancellationToken,
    shell: tokio::sync::Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Fleet {
    /// Listens, calls the others, and takes part from now on. It leads or supports nobody before it
    /// has listened for a silence.
    pub async fn join(options: FleetOptions) -> Result<Self, Error> {
        let secret = options.check()?;
        let wrong = |why: String| Error::Address { address: options.listen.clone(), why };
        let found = tokio::net::lookup_host(&options.listen).await;
        let found: Vec<SocketAddr> = found.map_err(|e| wrong(e.to_string()))?.collect();
        if secret.is_empty() && !found.iter().copied().all(is_local) {
            return Err(wrong(NEEDS_SECRET.to_owned()));
        }
        let listener = TcpListener::bind(&found[..]).await.map_err(|e| wrong(e.to_string()))?;
        let address = listener.local_addr().map_err(|e| wrong(e.to_string()))?;
        let called = match options.advertise.clone() {
            Some(called) => called,
            None if address.ip().is_unspecified() && options.discover => {
                let why = "nobody can be told to call every address; say in `advertise` where \
                           others can call this member, or switch `discover` off";
                return Err(wrong(why.to_owned()));
            }
            None if address.ip().is_unspecified() => String::new(),
            None => address.to_string(),
        };
        let config = options.config();
        let hello = Hello { fleet: options.name.clone(), config: config.clone(), address: called };
        let voice = Arc::new(Voice { hello, secret, closing: CancellationToken::new() });
        let (view, seen) = watch::channel(FleetView::default());
        let (trust, leave) = (Arc::<Trust>::default(), CancellationToken::new());
        let machine = Machine::new(config, random_u64());
        let shell =
            Shell::new(machine, voice, options.discover, view, Arc::clone(&trust), leave.clone());
        let shell = tokio::spawn(shell.run(listener, options.members));
        Ok(Self {
            address,
            view: seen,
            trust,
            stop: CancellationToken::new(),
            works: TaskTracker::new(),
            leave,
            shell: tokio::sync::Mutex::new(Some(AbortOnDropHandle::new(shell))),
        })
    }

    /// Where this member listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who leads, as this member sees it, and every change of it.
    pub fn watch(&self) -> watch::Receiver<FleetView> {
        self.view.clone()
    }

    /// The other members: those that were named, and those that were found.
    pub fn members(&self) -> Vec<FleetMember> {
        self.trust.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this member leads at this very moment. Looks at the clock at every call. With the
    /// majority rule nobody else can lead while it is true, which may be a little longer than the
    /// reign, so that work can end in order; without the rule it is only a belief.
    pub fn is_trusted(&self) -> bool {
        self.trust.is_trusted(None)
    }

    /// Runs `work` whenever this member leads, until the fleet is left. When a reign ends its work is
    /// told to stop ([`Reign::cancelled`]) and waited for; work that returns by itself is
    /// not started again in the same reign. A panic of the work goes on here.
    pub async fn lead<F>(&self, mut work: impl FnMut(Reign) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut view = self.watch();
        loop {
            let number = tokio::select! {
                () = self.stop.cancelled() => return,
                view = view.wait_for(|view| view.is_us) => match view {
                    Ok(view) => view.reign,
                    Err(_) => return,
                },
            };
            let trust = Arc::clone(&self.trust);
            let reign = Reign { number, trust, stop: self.stop.child_token() };
            let task = self.works.spawn(work(reign.clone()));
            let mut task = AbortOnDropHandle::new(task);
            let mut over = std::pin::pin!(async {
                tokio::select! {
                    () = self.stop.cancelled() => {}
                    // Closed is over, too.
                    _ = view.wait_for(|view| !view.is_us || view.reign != number) => {}
                }
            });
            let ended = tokio::select! {
                ended = &mut task => {
                    if ended.is_ok() {
                        over.await;
                    }
                    ended
                }
                () = &mut over => {
                    reign.stop.cancel();
                    task.await
                }
            };
            if let Err(error) = ended
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Stops the work, waits for its end, says farewell, and closes every connection. The others
    /// need not wait for a silence.
    pub async fn leave(&self) {
        self.stop.cancel();
        self.works.close();
        self.works.wait().await;
        self.leave.cancel();
        if let Some(shell) = self.shell.lock().await.take() {
            // If it panicked there is nothing left to end.
            let _ = shell.await;
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop.cancel();
        self.trust.until.store(0, Ordering::SeqCst);
    }
}

/// One reign, as the leader's work holds it. Cheap to clone for the work's own tasks.
#[derive(Clone, Debug)]
pub struct Reign {
    number: u64,
    trust: Arc<Trust>,
    stop: CancellationToken,
}

impl Reign {
    /// Its number: for people and logs, never for fencing.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether it lasts at this very moment; see [`Fleet::is_trusted`]. Ask right before every act
    /// outside the process.
    pub fn is_trusted(&self) -> bool {
        self.trust.is_trusted(Some(self.number))
    }

    /// Waits until the work must stop.
    pub async fn cancelled(&self) {
        self.stop.cancelled().await;
    }
}
