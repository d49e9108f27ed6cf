//! What each command needs.

use crate::command::{Command, Receive};
use crate::error::Refusal;
use crate::name::{JobName, LeaseName, Part, QueueName, QueuePath, ScheduleName};

use super::{Realm, Right};

/// One right on one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need<'a> {
    /// Which right.
    pub right: Right,
    /// On what.
    pub of: Of<'a>,
}

/// What a right is needed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of<'a> {
    /// One queue, or its dead letters.
    Queue(&'a QueueName, Part),
    /// One election, and so its lease.
    Lease(&'a LeaseName),
    /// One job. Its name counts as a queue's.
    Job(&'a JobName),
    /// One schedule. Its name counts as a queue's.
    Schedule(&'a ScheduleName),
    /// All there is.
    Every(Realm),
}

impl Need<'_> {
    /// The refusal of whoever does not have it.
    pub fn refusal(&self) -> Refusal {
        let on = match self.of {
            Of::Queue(queue, Part::Main) => format!("queue {queue:?}"),
            Of::Queue(queue, Part::Dead) => format!("the dead letters of queue {queue:?}"),
            Of::Lease(lease) => format!("election {lease:?}"),
            Of::Job(job) => format!("job {job:?}"),
            Of::Schedule(schedule) => format!("schedule {schedule:?}"),
            Of::Every(Realm::Queues) => "all queues".into(),
            Of::Every(Realm::Elections) => "all elections".into(),
        };
        Refusal::Forbidden { right: self.right, on }
    }
}

/// All that a command needs. Without any, whoever was let in may ask it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs<'a> {
    /// What is done, for records.
    pub what: &'static str,
    needs: [Option<Need<'a>>; 3],
}

impl<'a> Needs<'a> {
    /// Nothing but to be let in.
    pub fn none(what: &'static str) -> Self {
        Self { what, needs: [None; 3] }
    }

    /// One right.
    pub fn one(what: &'static str, right: Right, of: Of<'a>) -> Self {
        Self { what, needs: [Some(Need { right, of }), None, None] }
    }

    /// One right on all there is, in both realms.
    fn on_all(what: &'static str, right: Right) -> Self {
        let on = |realm| Some(Need { right, of: Of::Every(realm) });
        Self { what, needs: [on(Realm::Queues), on(Realm::Elections), None] }
    }

    /// And the right to send to these queues, if any are named.
    fn and_send(mut self, queues: [Option<&'a QueueName>; 2]) -> Self {
        for (place, queue) in self.needs[1..].iter_mut().zip(queues) {
            *place =
                queue.map(|queue| Need { right: Right::Send, of: Of::Queue(queue, Part::Main) });
        }
        self
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Need<'a>> {
        self.needs.into_iter().flatten()
    }

    /// Whether it is for those who run the place: such things are recorded.
    pub fn is_manage(&self) -> bool {
        self.iter().any(|need| need.right == Right::Manage)
    }

    /// The name it is about, if it is about one.
    pub fn name(&self) -> Option<&'a str> {
        match self.needs[0]?.of {
            Of::Queue(queue, _) => Some(queue.as_str()),
            Of::Lease(lease) => Some(lease.as_str()),
            Of::Job(job) => Some(job.as_str()),
            Of::Schedule(schedule) => Some(schedule.as_str()),
            Of::Every(_) => None,
        }
    }
}

fn half(path: &QueuePath) -> Of<'_> {
    Of::Queue(&path.queue, path.part)
}

/// What a command needs. Every command is named here.
pub fn needs(command: &Command) -> Needs<'_> {
    use Right::{Listen, Manage, Send};
    let of = |queue| Of::Queue(queue, Part::Main);
    match command {
        Command::CreateQueue { queue, settings } => Needs::one("create-queue", Manage, of(queue))
            .and_send([settings.forward_to.as_ref(), settings.forward_dead_letters_to.as_ref()]),
        Command::UpdateQueue { queue, patch } => {
            let forward = patch.forward_to.as_ref().and_then(Option::as_ref);
            let dead = patch.forward_dead_letters_to.as_ref().and_then(Option::as_ref);
            Needs::one("change-queue", Manage, of(queue)).and_send([forward, dead])
        }
        Command::DeleteQueue { queue } => Needs::one("delete-queue", Manage, of(queue)),
        Command::Purge { from, .. } => Needs::one("purge", Manage, half(from)),
        Command::Remove { from, .. } => Needs::one("remove", Manage, half(from)),
        Command::DescribeQueue { queue } => Needs::one("show-queue", Listen, of(queue)),
        Command::ListQueues { .. } => Needs::one("list-queues", Listen, Of::Every(Realm::Queues)),
        Command::Send { queue, .. } => Needs::one("send", Send, of(queue)),
        Command::Cancel { queue, .. } => Needs::one("cancel", Send, of(queue)),
        Command::Receive(Receive { from, .. }) => Needs::one("receive", Listen, half(from)),
        Command::ReceiveDeferred { from, .. } => Needs::one("receive-deferred", Listen, half(from)),
        Command::Peek { from, .. } => Needs::one("peek", Listen, half(from)),
        Command::Settle { from, .. } => Needs::one("settle", Listen, half(from)),
        Command::RenewLocks { from, .. } => Needs::one("renew-locks", Listen, half(from)),
        // As receiving each of them and sending it would.
        Command::Redrive { queue, to, .. } => {
            Needs::one("redrive", Listen, Of::Queue(queue, Part::Dead))
                .and_send([Some(to.as_ref().unwrap_or(queue)), None])
        }
        Command::AcceptSession { queue, .. } => Needs::one("accept-session", Listen, of(queue)),
        Command::RenewSession { queue, .. } => Needs::one("renew-session", Listen, of(queue)),
        Command::CloseSession { queue, .. } => Needs::one("close-session", Listen, of(queue)),
        Command::SetSessionState { queue, .. } => {
            Needs::one("set-session-state", Listen, of(queue))
        }
        Command::GetSessionState { queue, .. } => Needs::one("session-state", Listen, of(queue)),
        Command::ListSessions { queue, .. } => Needs::one("list-sessions", Listen, of(queue)),
        Command::DescribeSession { queue, .. } => Needs::one("show-session", Listen, of(queue)),
        Command::Explain { queue, .. } => Needs::one("explain", Listen, of(queue)),
        Command::Import { to, .. } => Needs::one("import", Manage, half(to)),
        // Whoever may dispatch makes messages arrive in its queues: the one who creates it may send there.
        Command::CreateJob { job, settings, .. } => Needs::one("create-job", Send, Of::Job(job))
            .and_send([Some(&settings.queue), settings.gather_to.as_ref()]),
        Command::Dispatch { job, .. } => Needs::one("dispatch", Send, Of::Job(job)),
        Command::CompleteItem { from, .. } => Needs::one("complete-item", Listen, half(from)),
        Command::EndJob { job, .. } => Needs::one("end-job", Manage, Of::Job(job)),
        Command::AwaitJob { job, .. } => Needs::one("show-job", Listen, Of::Job(job)),
        Command::ListJobs { .. } => Needs::one("list-jobs", Listen, Of::Every(Realm::Queues)),
        Command::ListItems { job, .. } => Needs::one("list-items", Listen, Of::Job(job)),
        Command::CreateSchedule { schedule, settings, .. } => {
            Needs::one("create-schedule", Manage, Of::Schedule(schedule))
                .and_send([Some(&settings.queue), None])
        }
        Command::SteerSchedule { schedule, .. } => {
            Needs::one("steer-schedule", Manage, Of::Schedule(schedule))
        }
        Command::ListSchedules { .. } => {
            Needs::one("list-schedules", Listen, Of::Every(Realm::Queues))
        }
        // A member alone can do nothing; what it does is looked at then.
        Command::Join { .. } => Needs::none("join"),
        Command::Heartbeat { .. } => Needs::none("heartbeat"),
        Command::Leave => Needs::none("leave"),
        Command::Lost { .. } => Needs::none("lost"),
        // It tells who holds what.
        Command::ListMembers => Needs::one("list-members", Listen, Of::Every(Realm::Elections)),
        Command::MemberHealth { .. } => {
            Needs::one("member-health", Listen, Of::Every(Realm::Elections))
        }
        Command::Acquire(acquire) => Needs::one("acquire", Send, Of::Lease(&acquire.lease)),
        Command::RenewLease { lease, .. } => Needs::one("renew-lease", Send, Of::Lease(lease)),
        Command::ChangeLease { lease, .. } => Needs::one("change-lease", Send, Of::Lease(lease)),
        Command::ReleaseLease { lease, .. } => Needs::one("release-lease", Send, Of::Lease(lease)),
        Command::StepDown { lease, .. } => Needs::one("step-down", Send, Of::Lease(lease)),
        // Tells a candidate nothing but its own place.
        Command::AwaitTurn { lease, .. } => Needs::one("await-turn", Send, Of::Lease(lease)),
        Command::TouchLease { lease } => Needs::one("touch-lease", Send, Of::Lease(lease)),
        Command::BreakLease { lease, .. } => Needs::one("break-lease", Manage, Of::Lease(lease)),
        Command::AskStepDown { lease } => Needs::one("ask-step-down", Manage, Of::Lease(lease)),
        Command::HandOver { lease, .. } => Needs::one("hand-over", Manage, Of::Lease(lease)),
        Command::PauseLease { lease, .. } => Needs::one("pause-lease", Manage, Of::Lease(lease)),
        Command::ResumeLease { lease } => Needs::one("resume-lease", Manage, Of::Lease(lease)),
        Command::DescribeLease { lease } => Needs::one("show-lease", Listen, Of::Lease(lease)),
        Command::WatchLease { lease, .. } => Needs::one("watch-lease", Listen, Of::Lease(lease)),
        Command::ListLeases { .. } => {
            Needs::one("list-leases", Listen, Of::Every(Realm::Elections))
        }
        Command::LeaseHistory { lease, .. } => {
            Needs::one("lease-history", Listen, Of::Lease(lease))
        }
        // Everything there is, and the way to another store with the same in it.
        Command::Backup { .. } => Needs::on_all("backup", Manage),
        // Time is the engine's own affair: no door lets it through.
        Command::Tick => Needs::one("tick", Manage, Of::Every(Realm::Queues)),
    }
}
