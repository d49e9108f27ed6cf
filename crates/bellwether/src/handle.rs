//! The way in: one handle to one store.

use std::sync::Arc;

use bellwether_core::command::{Command, Request};
use bellwether_core::fence::Fence;
use bellwether_core::few::Few;
use bellwether_core::job::JobInfo;
use bellwether_core::limits;
use bellwether_core::name::{JobName, LeaseName, MemberId, MemberSlot, QueueName, ScheduleName};
use bellwether_core::outcome::{LeaseInfo, MemberHealth, MemberInfo, Outcome, QueueInfo};
use bellwether_core::schedule::ScheduleInfo;
use bellwether_core::settings::QueueSettings;
use bytes::Bytes;
use tokio::sync::OnceCell;

use crate::clock::{Clock, VirtualClock};
use crate::elector::Election;
use crate::engine::local::Local;
use crate::engine::pending::Pending;
use crate::engine::remote::{Remote, RemoteOptions};
use crate::engine::{Call, Engine, Reply, call};
use crate::error::Error;
use crate::job::Job;
use crate::lease::Lease;
use crate::open::Open;
use crate::queue::Queue;
use crate::schedule::Schedule;

/// One store, opened. Cheap to clone; the store is closed when the last clone is gone, or by
/// [`Bellwether::close`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
/// use bellwether::Bellwether;
///
/// let bw = Bellwether::open("memory:").await?;
/// let orders = bw.create_queue("orders", Default::default()).await?;
/// orders.send("two coffees").await?;
///
/// let delivery = orders.receive().one().await?.expect("it was just sent");
/// assert_eq!(delivery.text(), Some("two coffees"));
/// delivery.complete().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Bellwether {
    pub(crate) inner: Arc<Inner>,
    /// What its queues are asked under.
    fence: Option<Fence>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) clock: Clock,
    /// What others see of this member.
    metadata: String,
    pub(crate) presence: crate::presence::Presence,
    pub(crate) unreadable: crate::delivery::Unreadable,
    /// A member of its own, over a connection of its own, for what must be renewed in time.
    renewer: OnceCell<Arc<Inner>>,
}

impl Bellwether {
    /// Opens the store at `address`: `memory:` keeps nothing, `file:PATH` keeps everything in a
    /// folder, which is created if it is not there.
    pub async fn open(address: impl Into<String>) -> Result<Self, Error> {
        Open::new(address).open().await
    }

    /// The same with a clock that the caller moves, for tests: advance an hour in a microsecond.
    pub async fn open_with_clock(
        address: impl Into<String>,
        clock: VirtualClock,
    ) -> Result<Self, Error> {
        Open::new(address).clock(clock).open().await
    }

    /// Takes part in a running engine as a new member.
    pub(crate) async fn join(
        local: Arc<Local>,
        clock: Clock,
        metadata: String,
    ) -> Result<Self, Error> {
        let member_id = MemberId(crate::chance::random_u128());
        let command = Command::Join {
            id: member_id,
            metadata: metadata.clone(),
            // This process is the store: as long as the store is open, the member is here.
            ttl_ms: limits::LEASE_MS_INFINITE,
        };
        let reply = local.submit(call(MemberSlot(0), command)).await?;
        let Outcome::Joined(member) = reply.outcome else { unreachable_outcome(&reply.outcome) };
        Ok(Self::with(Engine::Local { local, member, id: member_id }, clock, metadata))
    }

    /// Takes part in the engine of a server.
    pub(crate) async fn connect(options: RemoteOptions) -> Result<Self, Error> {
        let (clock, metadata) = (options.clock.clone(), options.metadata.clone());
        Ok(Self::with(Engine::Remote(Remote::open(options).await?), clock, metadata))
    }

    fn with(engine: Engine, clock: Clock, metadata: String) -> Self {
        let (presence, unreadable, renewer) = Default::default();
        let inner = Arc::new(Inner { engine, clock, metadata, presence, unreadable, renewer });
        Self { inner, fence: None }
    }

    /// The same store, whose queues are asked under this fence; see [`Queue::with_fence`]. It has
    /// nothing to do with what is asked of elections and leases.
    #[must_use]
    pub fn with_fence(&self, fence: &Fence) -> Self {
        Self { inner: Arc::clone(&self.inner), fence: Some(fence.clone()) }
    }

    /// A second member in the same store, with leases of its own: for tests and for programs
    /// that run several candidates in one process.
    pub async fn another_member(&self) -> Result<Self, Error> {
        match &self.inner.engine {
            Engine::Local { local, .. } => {
                let Inner { clock, metadata, .. } = &*self.inner;
                Self::join(Arc::clone(local), clock.clone(), metadata.clone()).await
            }
            Engine::Remote(remote) => Self::connect(remote.options().clone()).await,
        }
    }

    /// This member's id, as others see it. What it leads at a server it leads as another one,
    /// [`Leadership::member`](crate::Leadership::member): renewals have a connection of their own.
    pub fn member(&self) -> MemberId {
        self.inner.engine.member_id()
    }

    /// Creates a queue, or finds it: an existing queue's settings are left alone.
    pub async fn create_queue(&self, name: &str, settings: QueueSettings) -> Result<Queue, Error> {
        let queue = self.queue(name)?;
        let command =
            Command::CreateQueue { queue: queue.name().clone(), settings: Box::new(settings) };
        queue.ask(command).await?;
        Ok(queue)
    }

    /// A handle to a queue; nothing is asked of the store yet.
    pub fn queue(&self, name: &str) -> Result<Queue, Error> {
        let queue = Queue::new(Arc::clone(&self.inner), QueueName::new(name)?);
        Ok(Queue { fence: self.fence.clone(), ..queue })
    }

    /// A handle to a job; nothing is asked of the store yet.
    pub fn job(&self, name: &str) -> Result<Job, Error> {
        let job = Job::new(Arc::clone(&self.inner), JobName::new(name)?);
        Ok(match &self.fence {
            Some(fence) => job.with_fence(fence),
            None => job,
        })
    }

    /// All jobs that are kept, by name.
    pub async fn jobs(&self) -> Result<Vec<JobInfo>, Error> {
        let command = Command::ListJobs { after: None, max: u32::MAX };
        match self.inner.ask(command).await?.outcome {
            Outcome::Jobs(jobs) => Ok(jobs),
            other => unreachable_outcome(&other),
        }
    }

    /// A handle to a schedule; nothing is asked of the store yet.
    pub fn schedule(&self, name: &str) -> Result<Schedule, Error> {
        let (inner, fence) = (Arc::clone(&self.inner), self.fence.clone());
        Ok(Schedule::new(inner, ScheduleName::new(name)?, fence))
    }

    /// All schedules, by name.
    pub async fn schedules(&self) -> Result<Vec<ScheduleInfo>, Error> {
        let command = Command::ListSchedules { from: None, max: u32::MAX };
        match self.inner.ask(command).await?.outcome {
            Outcome::Schedules(schedules) => Ok(schedules),
            other => unreachable_outcome(&other),
        }
    }

    /// A handle to an election; nothing is asked of the store yet.
    pub fn election(&self, name: &str) -> Result<Election, Error> {
        Ok(Election::new(Arc::new(Arc::clone(&self.inner)), LeaseName::new(name)?))
    }

    /// A handle to a lease that is kept by its own renewals; nothing is asked of the store yet.
    pub fn lease(&self, name: &str) -> Result<Lease, Error> {
        Ok(Lease::new(Arc::clone(&self.inner), LeaseName::new(name)?))
    }

    /// All queues, by name.
    pub async fn queues(&self) -> Result<Vec<QueueInfo>, Error> {
        let command = Command::ListQueues { after: None, max: u32::MAX };
        match self.inner.ask(command).await?.outcome {
            Outcome::Queues(queues) => Ok(queues),
            other => unreachable_outcome(&other),
        }
    }

    /// All leases anybody ever asked for, by name: those of elections and those that stand by
    /// themselves.
    pub async fn leases(&self) -> Result<Vec<LeaseInfo>, Error> {
        let command = Command::ListLeases { after: None, max: u32::MAX };
        match self.inner.ask(command).await?.outcome {
            Outcome::Leases(leases) => Ok(leases),
            other => unreachable_outcome(&other),
        }
    }

    /// All members that are here.
    pub async fn members(&self) -> Result<Vec<MemberInfo>, Error> {
        match self.inner.ask(Command::ListMembers).await?.outcome {
            Outcome::Members(members) => Ok(members),
            other => unreachable_outcome(&other),
        }
    }

    /// All members that are here, by id: when each was last heard of, what it holds and what it
    /// waits for.
    pub async fn member_health(&self) -> Result<Vec<MemberHealth>, Error> {
        let command = Command::MemberHealth { after: None, max: u32::MAX };
        match self.inner.ask(command).await?.outcome {
            Outcome::MemberHealth(members) => Ok(members),
            other => unreachable_outcome(&other),
        }
    }

    /// Sends one request as it is and returns the answer as it is: for doors, tests and tools.
    pub async fn call(&self, request: Request, contents: Vec<Bytes>) -> Result<Reply, Error> {
        self.inner.engine.submit(Call { request, contents: contents.into() }).await
    }

    /// The same for what stands even if the caller leaves before the answer: a lease asked for
    /// under an id that its holder may show already.
    pub async fn call_for_good(
        &self,
        request: Request,
        contents: Vec<Bytes>,
    ) -> Result<Reply, Error> {
        self.inner.engine.submit_for_good(Call { request, contents: contents.into() }).await
    }

    /// The clock this store lives by.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// The slot this member has in the ledger, for [`Bellwether::call`].
    pub fn slot(&self) -> MemberSlot {
        self.inner.engine.member()
    }

    /// Finishes what is in flight, flushes, and lets go of the store. Later calls are answered
    /// with [`Error::Closed`].
    pub async fn close(&self) {
        self.inner.close().await;
    }
}

impl Inner {
    /// Who contends, holds and renews for this process. A connection to a server shares its fate
    /// with the runtime it was opened on, so there it is another one, on the renewer's thread.
    pub(crate) async fn renewer(self: &Arc<Self>) -> Result<&Arc<Self>, Error> {
        let (Engine::Remote(remote), Clock::System) = (&self.engine, &self.clock) else {
            return Ok(self);
        };
        let connect = || async {
            remote.check_open()?;
            let connect = Bellwether::connect(remote.options().clone());
            match crate::renewer::spawn(&self.clock, connect).await {
                Ok(connected) => Ok(connected?.inner),
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        };
        self.renewer.get_or_try_init(connect).await
    }

    /// The same, if it was ever needed.
    pub(crate) fn renewing(self: &Arc<Self>) -> &Arc<Self> {
        self.renewer.get().unwrap_or(self)
    }

    pub(crate) async fn close(&self) {
        if let Some(renewer) = self.renewer.get() {
            renewer.engine.close().await;
        }
        self.engine.close().await;
    }

    /// Asks without a request number: in one process no answer can get lost.
    pub(crate) fn ask(&self, command: Command) -> Pending<'_> {
        self.ask_with(command, Few::default())
    }

    pub(crate) fn ask_with(&self, command: Command, contents: Few<Bytes>) -> Pending<'_> {
        self.ask_under(None, command, contents)
    }

    /// Asks under a fence, if there is one.
    pub(crate) fn ask_under(
        &self,
        fence: Option<&Fence>,
        command: Command,
        contents: Few<Bytes>,
    ) -> Pending<'_> {
        let mut call = Call { contents, ..call(self.engine.member(), command) };
        call.request.fence = fence.cloned();
        self.engine.submit(call)
    }

    /// Asks for what stands even if the caller leaves before the answer.
    pub(crate) fn ask_for_good(&self, command: Command) -> Pending<'_> {
        self.engine.submit_for_good(call(self.engine.member(), command))
    }

    /// Asks without waiting for the answer, from where nothing can be awaited.
    pub(crate) fn tell(&self, command: Command) {
        self.tell_with(command, Few::default());
    }

    pub(crate) fn tell_with(&self, command: Command, contents: Few<Bytes>) {
        self.engine.tell(Call { contents, ..call(self.engine.member(), command) });
    }
}

/// The engine answered a command with another command's outcome: a broken invariant.
pub(crate) fn unreachable_outcome(outcome: &Outcome) -> ! {
    unreachable!("an engine answers each command with its own outcome, not {outcome:?}")
}
