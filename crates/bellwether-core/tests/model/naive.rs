//! The rules once more, as plainly as they can be said: lists, scans, and nothing remembered that
//! can be worked out again. It shares the vocabulary with the ledger and not a line of its rules.
//!
//! 1. Time passes only at a tick: what is due happens in the order of its time, what the boot
//!    clock measures before what the wall clock does.
//! 2. What a step makes ready is seen by receivers at the end of that step.
//! 3. Whoever waits is served in the order of arrival, as soon as there is something to serve.

#[path = "naive/forward.rs"]
mod forward;
#[path = "naive/jobs.rs"]
mod jobs;
#[path = "naive/leases.rs"]
mod leases;
#[path = "naive/look.rs"]
mod look;
#[path = "naive/members.rs"]
mod members;
#[path = "naive/queues.rs"]
mod queues;
#[path = "naive/receive.rs"]
mod receive;
#[path = "naive/schedules.rs"]
mod schedules;
#[path = "naive/sessions.rs"]
mod sessions;
#[path = "naive/settle.rs"]
mod settle;

use bellwether_core::command::{Acquire, Command, Receive, Request};
use bellwether_core::error::Refusal;
use bellwether_core::fence::Fence;
use bellwether_core::limits;
use bellwether_core::message::State;
use bellwether_core::name::{LeaseName, QueueName, SessionId, Term, Ticket};
use bellwether_core::outcome::Outcome;
use bellwether_core::time::{BootTime, Now};

use jobs::Job;
use leases::Lease;
use members::Member;
use queues::Queue;
use schedules::Schedule;

pub type Answer = Result<Outcome, Refusal>;

pub struct Naive {
    pub now: Now,
    pub incarnation: u32,
    pub holds: u32,
    pub queues: Vec<Queue>,
    pub queues_ever: u32,
    pub members: Vec<Member>,
    pub members_ever: u32,
    pub leases: Vec<Lease>,
    pub schedules: Vec<Schedule>,
    pub schedules_ever: u32,
    pub jobs: Vec<Job>,
    pub jobs_ever: u32,
    /// Results of jobs that are forgotten.
    pub remains_bytes: u64,
    pub waits: Vec<Wait>,
    pub answers: Vec<(Ticket, Answer)>,
}

/// Somebody who waits.
#[derive(Clone)]
pub struct Wait {
    pub ticket: Ticket,
    pub member: u32,
    pub number: u64,
    pub until: BootTime,
    pub command: Command,
    pub fence: Option<Fence>,
    pub for_what: ForWhat,
}

#[derive(Clone, PartialEq)]
pub enum ForWhat {
    Messages { queue: u32, receive: Receive, lock_ms: u32 },
    Session { queue: u32, session: Option<SessionId> },
    Lease(Acquire),
    Watch(LeaseName),
    Turn(LeaseName),
    Job(u32),
}

/// What time brings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Lock { queue: u32, dead: bool, sequence: u64 },
    Due { queue: u32, dead: bool, sequence: u64 },
    Expiry { queue: u32, sequence: u64 },
    Hold { queue: u32, number: u32, session: usize },
    Wait { ticket: u64 },
    Idle { queue: u32 },
    Presence { slot: u32 },
    Lease { first: Option<usize>, slot: u32, index: usize },
    Job { id: u32 },
    Slot { number: u32 },
}

impl Naive {
    pub fn new(now: Now) -> Self {
        Self {
            now,
            incarnation: 1,
            holds: 0,
            queues: Vec::new(),
            queues_ever: 0,
            members: Vec::new(),
            members_ever: 0,
            leases: Vec::new(),
            schedules: Vec::new(),
            schedules_ever: 0,
            jobs: Vec::new(),
            jobs_ever: 0,
            remains_bytes: 0,
            waits: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// One request; returns everybody's answers that came of it.
    pub fn step(&mut self, now: Now, ticket: Ticket, request: &Request) -> Vec<(Ticket, Answer)> {
        self.now = now;
        match self.recall(request) {
            Err(refusal) => self.answers.push((ticket, Err(refusal))),
            Ok(Some(outcome)) => self.answers.push((ticket, Ok(outcome))),
            Ok(None) => match self.decide_under_fence(ticket, request) {
                Err(refusal) => self.answers.push((ticket, Err(refusal))),
                Ok(None) => {}
                Ok(Some(outcome)) => {
                    let (member, number) = (request.member.0, request.number.0);
                    let heard = request.answered_below.0;
                    self.keep(member, number, heard, &request.command, &outcome);
                    self.answers.push((ticket, Ok(outcome)));
                }
            },
        }
        self.settle_down();
        std::mem::take(&mut self.answers)
    }

    /// Serves, shows what has become ready, and serves again.
    fn settle_down(&mut self) {
        self.forget_ended_agreements();
        loop {
            self.serve();
            let mut shown = false;
            for message in self.queues.iter_mut().flat_map(|queue| &mut queue.messages) {
                if message.state == State::Ready && !message.visible {
                    message.visible = true;
                    shown = true;
                }
            }
            if !shown {
                return;
            }
        }
    }

    fn decide_under_fence(
        &mut self,
        ticket: Ticket,
        request: &Request,
    ) -> Result<Option<Outcome>, Refusal> {
        self.check_fence(request.fence.as_ref())?;
        self.decide(ticket, request)
    }

    fn decide(&mut self, ticket: Ticket, request: &Request) -> Result<Option<Outcome>, Refusal> {
        let member = request.member.0;
        match &request.command {
            Command::CreateQueue { queue, settings } => self.create_queue(queue, settings),
            Command::UpdateQueue { queue, patch } => self.update_queue(queue, patch),
            Command::DeleteQueue { queue } => self.delete_queue(queue),
            Command::Purge { from, before, max } => self.purge(from, *before, *max),
            Command::DescribeQueue { queue } => self.describe_queue(queue),
            Command::ListQueues { after, max } => Ok(self.list_queues(after.as_ref(), *max)),
            Command::Send { queue, messages } => self.send(queue, messages),
            Command::Cancel { queue, sequences } => self.cancel(queue, sequences),
            Command::Receive(receive) => return self.receive(ticket, request, receive),
            Command::ReceiveDeferred { from, session, sequences, mode } => {
                self.receive_deferred(member, from, session.as_ref(), sequences, *mode)
            }
            Command::Peek { from, sequence, max, session } => {
                self.peek(from, sequence.0, *max, session.as_ref())
            }
            Command::Settle { from, settlements } => self.settle(from, settlements),
            Command::RenewLocks { from, tokens, lock_ms } => {
                self.renew_locks(from, tokens, *lock_ms)
            }
            Command::Redrive { queue, to, sequences, max } => {
                self.redrive(queue, to.as_ref(), sequences, *max)
            }
            Command::AcceptSession { queue, session, wait_ms } => {
                return self.accept_session(ticket, request, queue, session.as_ref(), *wait_ms);
            }
            Command::RenewSession { queue, token } => self.renew_session(queue, token),
            Command::CloseSession { queue, token } => self.close_session(queue, token),
            Command::SetSessionState { queue, token, state } => {
                self.set_session_state(queue, token, *state)
            }
            Command::GetSessionState { queue, token } => self.session_state(queue, token),
            Command::ListSessions { queue, after, max } => {
                self.list_sessions(queue, after.as_ref(), *max)
            }
            Command::CreateJob { job, settings, items, gather } => {
                self.create_job(job, settings, *items, *gather)
            }
            Command::Dispatch { job, first, messages, items } => {
                self.dispatch(job, *first, messages, *items)
            }
            Command::CompleteItem { from, token, result } => {
                self.complete_item(from, *token, *result)
            }
            Command::EndJob { job, how } => self.end_job(job, *how),
            Command::AwaitJob { job, wait_ms } => {
                return self.await_job(ticket, request, job, *wait_ms);
            }
            Command::ListJobs { after, max } => Ok(self.list_jobs(after.as_ref(), *max)),
            Command::ListItems { job, from, max, which } => {
                self.list_items(job, *from, *max, *which)
            }
            Command::CreateSchedule { schedule, settings, content } => {
                self.create_schedule(schedule, settings, *content)
            }
            Command::SteerSchedule { schedule, how } => self.steer_schedule(schedule, *how),
            Command::ListSchedules { from, max } => Ok(self.list_schedules(from.as_ref(), *max)),
            Command::DescribeSession { .. }
            | Command::Explain { .. }
            | Command::Import { .. }
            | Command::Remove { .. }
            | Command::LeaseHistory { .. }
            | Command::Backup { .. } => {
                unreachable!("never drawn: the stories of the ledger prove these")
            }
            Command::Join { id, metadata, ttl_ms } => self.join(*id, metadata, *ttl_ms),
            Command::Heartbeat { .. } | Command::Leave if member == 0 => Err(Refusal::MemberGone),
            Command::Heartbeat { held } => Ok(self.heartbeat(member, held)),
            Command::Leave => Ok(self.leave(member)),
            Command::Lost { how } => self.lost(member, *how),
            Command::ListMembers => Ok(self.list_members()),
            Command::MemberHealth { after, max } => Ok(self.member_health(*after, *max)),
            Command::Acquire(acquire) => return self.acquire(ticket, request, acquire),
            Command::RenewLease { lease, id } => self.renew_lease(lease, *id),
            Command::ChangeLease { lease, id, to } => self.change_lease(lease, *id, *to),
            Command::ReleaseLease { lease, id, successor }
            | Command::StepDown { lease, id, successor, .. } => {
                self.release_lease(lease, *id, *successor)
            }
            Command::BreakLease { lease, period_ms } => self.break_lease(lease, *period_ms),
            Command::TouchLease { lease } => Ok(self.touch_lease(lease)),
            Command::AskStepDown { lease } => self.ask_step_down(lease),
            Command::HandOver { lease, to } => self.hand_over(lease, *to),
            Command::PauseLease { lease, keep_leader } => Ok(self.pause_lease(lease, *keep_leader)),
            Command::ResumeLease { lease } => Ok(self.resume_lease(lease)),
            Command::AwaitTurn { lease, wait_ms } => {
                return self.await_turn(ticket, request, lease, *wait_ms);
            }
            Command::DescribeLease { lease } => Ok(self.describe_lease(lease)),
            Command::WatchLease { lease, seen, wait_ms } => {
                return Ok(self.watch_lease(ticket, request, lease, *seen, *wait_ms));
            }
            Command::ListLeases { after, max } => Ok(self.list_leases(after.as_ref(), *max)),
            Command::Tick => {
                self.tick();
                Ok(Outcome::Done)
            }
        }
        .map(Some)
    }

    fn tick(&mut self) {
        while let Some(event) = self.first_due() {
            self.happen(event);
            self.serve();
        }
        self.sweep();
        for index in 0..self.queues.len() {
            if std::mem::take(&mut self.queues[index].begins_to_forward) {
                self.forward_what_waits(index);
                // One queue a tick.
                return;
            }
        }
    }

    /// The event that is due and should have come first.
    fn first_due(&self) -> Option<Event> {
        let boot = self.boot_events().filter(|(at, _)| *at <= self.now.boot.0).min();
        boot.or_else(|| self.wall_events().filter(|(at, _)| *at <= self.now.wall.0).min())
            .map(|(_, event)| event)
    }

    fn boot_events(&self) -> impl Iterator<Item = (u64, Event)> {
        let of_queues = self.queues.iter().flat_map(|queue| {
            let id = queue.id;
            let locks = queue.messages.iter().filter_map(move |message| match message.state {
                State::Locked(lock) if lock.until != BootTime::NEVER => {
                    let (dead, sequence) = (message.dead, message.sequence);
                    Some((lock.until.0, Event::Lock { queue: id, dead, sequence }))
                }
                _ => None,
            });
            let holds = queue.sessions.iter().enumerate().filter_map(move |(session, s)| {
                let hold = s.hold.as_ref()?;
                Some((hold.until.0, Event::Hold { queue: id, number: hold.number, session }))
            });
            let idle = queue.settings.delete_idle_ms;
            let idle = idle.map(|ms| (queue.used_at.plus_ms(ms).0, Event::Idle { queue: id }));
            locks.chain(holds).chain(idle)
        });
        let waits = self.waits.iter().map(|w| (w.until.0, Event::Wait { ticket: w.ticket.0 }));
        let members = self.members.iter().filter(|m| m.ends_at() != BootTime::NEVER);
        let members = members.map(|m| (m.ends_at().0, Event::Presence { slot: m.slot }));
        let leases = self.leases.iter().enumerate().filter(|(_, lease)| lease.end_is_news());
        let leases = leases.map(|(index, lease)| {
            let first = self.leases.iter().position(|other| other.name == lease.name);
            (lease.ends_at().0, Event::Lease { first, slot: lease.slot, index })
        });
        of_queues.chain(waits).chain(members).chain(leases)
    }

    fn wall_events(&self) -> impl Iterator<Item = (u64, Event)> {
        let jobs =
            self.jobs.iter().filter_map(|job| Some((job.due()?.0, Event::Job { id: job.id })));
        let of_queues = self.queues.iter().flat_map(|queue| {
            let id = queue.id;
            queue.messages.iter().flat_map(move |message| {
                let (dead, sequence) = (message.dead, message.sequence);
                let due = match message.state {
                    State::Scheduled { due } | State::Delayed { due } => {
                        Some((due.0, Event::Due { queue: id, dead, sequence }))
                    }
                    _ => None,
                };
                let can_expire =
                    !dead && matches!(message.state, State::Ready | State::Delayed { .. });
                let expiry = can_expire
                    .then_some((message.expires_at.0, Event::Expiry { queue: id, sequence }));
                due.into_iter().chain(expiry)
            })
        });
        let slots = self.schedules.iter().filter_map(|schedule| {
            Some((schedule.next?.0, Event::Slot { number: schedule.number }))
        });
        of_queues.chain(jobs).chain(slots)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Lock { queue, dead, sequence } => {
                let (q, m) = self.find(queue, dead, sequence).unwrap();
                self.give_back(q, m, settle::Return::Crash, None, None);
            }
            Event::Due { queue, dead, sequence } => {
                let (q, m) = self.find(queue, dead, sequence).unwrap();
                self.becomes_due(q, m);
            }
            Event::Expiry { queue, sequence } => {
                let (q, m) = self.find(queue, false, sequence).unwrap();
                self.expire(q, m);
            }
            Event::Hold { queue, session, .. } => {
                let q = self.queue_by_id(queue).unwrap();
                self.end_hold(q, session, settle::Return::Crash);
            }
            Event::Wait { ticket } => self.wait_ends(Ticket(ticket)),
            Event::Idle { queue } => {
                let q = self.queue_by_id(queue).unwrap();
                if self.is_busy(q) {
                    self.queues[q].used_at = self.now.boot;
                } else {
                    self.remove_queue(q);
                }
            }
            Event::Presence { slot } => self.presence_ends(slot),
            Event::Lease { index, .. } => {
                self.leases[index].end_heard = true;
                self.tell_watchers(index);
            }
            Event::Job { id } => self.job_is_due(id),
            Event::Slot { number } => self.slot_is_due(number),
        }
    }

    /// Serves everybody who can be served, the first in line first.
    fn serve(&mut self) {
        loop {
            let waiting: Vec<Wait> = self.waits.clone();
            let served = waiting.iter().any(|wait| self.serve_one(wait));
            // Who is the next is known when nobody else can be granted anything.
            if !served && !self.serve_leases() && !self.serve_turns() {
                return;
            }
        }
    }

    /// Serves one who waits for messages or a session; true if it got something, or would have but
    /// for its fence.
    fn serve_one(&mut self, wait: &Wait) -> bool {
        if let Err(refusal) = self.check_fence(wait.fence.as_ref()) {
            let is_for_it = match &wait.for_what {
                ForWhat::Messages { queue, receive, .. } => {
                    let q = self.queue_by_id(*queue).unwrap();
                    self.queues[q].settings.status.can_receive() && self.has_one(q, receive)
                }
                ForWhat::Session { queue, session } => {
                    let q = self.queue_by_id(*queue).unwrap();
                    self.queues[q].settings.status.can_receive()
                        && self.has_free_session(q, session.as_ref())
                }
                _ => false,
            };
            if is_for_it {
                self.answer_wait(wait.ticket, Err(refusal));
            }
            return is_for_it;
        }
        let outcome = match &wait.for_what {
            ForWhat::Messages { queue, receive, lock_ms } => {
                let q = self.queue_by_id(*queue).unwrap();
                if !self.queues[q].settings.status.can_receive() {
                    return false;
                }
                let taken = self.take(q, receive, *lock_ms, wait.member);
                if taken.is_empty() {
                    return false;
                }
                Outcome::Received(taken)
            }
            ForWhat::Session { queue, session } => {
                let q = self.queue_by_id(*queue).unwrap();
                if !self.queues[q].settings.status.can_receive() {
                    return false;
                }
                let Some(hold) = self.take_session(q, session.as_ref()) else {
                    return false;
                };
                Outcome::Session(Some(hold))
            }
            _ => return false,
        };
        self.answer_wait(wait.ticket, Ok(outcome));
        true
    }

    /// Somebody's wait is over: it is taken out of the line and answered.
    pub fn answer_wait(&mut self, ticket: Ticket, answer: Answer) {
        let wait = self.drop_wait(ticket).unwrap();
        if let Ok(outcome) = &answer {
            self.keep(wait.member, wait.number, 0, &wait.command, outcome);
        }
        self.answers.push((ticket, answer));
    }

    /// Takes somebody out of the line without a word.
    pub fn drop_wait(&mut self, ticket: Ticket) -> Option<Wait> {
        let index = self.waits.iter().position(|wait| wait.ticket == ticket)?;
        let wait = self.waits.remove(index);
        if let ForWhat::Messages { queue, .. } | ForWhat::Session { queue, .. } = wait.for_what {
            let q = self.queue_by_id(queue).unwrap();
            self.queues[q].used_at = self.now.boot;
        }
        Some(wait)
    }

    /// The wait ended without what was waited for.
    pub fn wait_ends(&mut self, ticket: Ticket) {
        let wait = self.waits.iter().find(|wait| wait.ticket == ticket).unwrap().clone();
        let answer = match wait.for_what {
            ForWhat::Messages { .. } => Ok(Outcome::Received(Vec::new())),
            ForWhat::Session { .. } => Ok(Outcome::Session(None)),
            ForWhat::Lease(acquire) => Err(self.not_granted(acquire).into()),
            ForWhat::Turn(_) => Ok(Outcome::Turn { next: false }),
            ForWhat::Watch(lease) => Ok(self.describe_lease(&lease)),
            ForWhat::Job(id) => Ok(Outcome::Job(Box::new(self.job(id).unwrap().info()))),
        };
        self.answer_wait(ticket, answer);
    }

    fn wait(&mut self, ticket: Ticket, request: &Request, wait_ms: u64, for_what: ForWhat) {
        self.waits.push(Wait {
            ticket,
            member: request.member.0,
            number: request.number.0,
            until: self.now.boot.plus_ms(wait_ms.min(limits::WAIT_MS_MAX)),
            command: request.command.clone(),
            fence: request.fence.clone(),
            for_what,
        });
    }

    fn queue_by_id(&self, id: u32) -> Option<usize> {
        self.queues.iter().position(|queue| queue.id == id)
    }

    fn queue_named(&self, name: &QueueName) -> Result<usize, Refusal> {
        self.queues
            .iter()
            .position(|queue| queue.name == *name)
            .ok_or_else(|| Refusal::QueueNotFound(name.clone()))
    }

    fn find(&self, queue: u32, dead: bool, sequence: u64) -> Option<(usize, usize)> {
        let q = self.queue_by_id(queue)?;
        Some((q, self.queues[q].find(dead, sequence)?))
    }

    /// The store was closed and opened again: whoever waited has gone, whoever held something has
    /// it for a full duration from now. How much of a break remains is told, because
    /// it depends on when it was last written down.
    pub fn restart(&mut self, now: Now, break_left_ms: impl Fn(&LeaseName, Term) -> u64) {
        self.now = now;
        self.incarnation += 1;
        self.holds = 0;
        self.waits.clear();
        for queue in &mut self.queues {
            queue.used_at = now.boot;
            queue.begins_to_forward = queue.settings.forward_to.is_some();
            for message in &mut queue.messages {
                message.visible = true;
                if let State::Locked(lock) = &mut message.state
                    && lock.until != BootTime::NEVER
                {
                    lock.until = now.boot.plus_ms(lock.lock_ms.into());
                }
            }
            for hold in queue.sessions.iter_mut().filter_map(|session| session.hold.as_mut()) {
                hold.until = now.boot.plus_ms(hold.lock_ms.into());
            }
        }
        for job in &mut self.jobs {
            job.to_sweep = job.has_pending();
        }
        self.remains_bytes = 0;
        self.restart_members();
        self.restart_leases(break_left_ms);
    }
}
