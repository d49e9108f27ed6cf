//! From a command to the rule that decides it.

use crate::command::{Command, Request};
use crate::error::Refusal;
use crate::name::Ticket;
use crate::outcome::{EndedBy, Outcome};
use crate::time::Now;

use super::{Effects, Ledger};

impl Ledger {
    /// `None` if the request waits, and is answered later.
    pub(super) fn decide(
        &mut self,
        now: Now,
        ticket: Ticket,
        request: &Request,
        fx: &mut Effects,
    ) -> Result<Option<Outcome>, Refusal> {
        let member = request.member;
        match &request.command {
            Command::CreateQueue { queue, settings } => self.create_queue(now, queue, settings, fx),
            Command::UpdateQueue { queue, patch } => self.update_queue(now, queue, patch, fx),
            Command::DeleteQueue { queue } => self.delete_queue(now, queue, fx),
            Command::Purge { from, before, max } => self.purge(now, from, *before, *max, fx),
            Command::Remove { from, sequences } => self.remove(now, from, sequences, fx),
            Command::DescribeQueue { queue } => self.describe_queue(queue),
            Command::ListQueues { after, max } => Ok(self.list_queues(after.as_ref(), *max)),
            Command::Send { queue, messages } => self.send(now, queue, messages, fx),
            Command::Cancel { queue, sequences } => self.cancel(now, queue, sequences, fx),
            Command::Receive(receive) => return self.receive(now, ticket, request, receive, fx),
            Command::ReceiveDeferred { from, session, sequences, mode } => {
                self.receive_deferred(now, member, from, session.as_ref(), sequences, *mode, fx)
            }
            Command::Peek { from, sequence, max, session } => {
                self.peek(now, from, *sequence, *max, session.as_ref())
            }
            Command::Settle { from, settlements } => self.settle(now, from, settlements, fx),
            Command::RenewLocks { from, tokens, lock_ms } => {
                self.renew_locks(now, from, tokens, *lock_ms, fx)
            }
            Command::Redrive { queue, to, sequences, max } => {
                self.redrive(now, queue, to.as_ref(), sequences, *max, fx)
            }
            Command::AcceptSession { queue, session, wait_ms } => {
                return self.accept_session(
                    now,
                    ticket,
                    request,
                    queue,
                    session.as_ref(),
                    *wait_ms,
                    fx,
                );
            }
            Command::RenewSession { queue, token } => self.renew_session(now, queue, token),
            Command::CloseSession { queue, token } => self.close_session(now, queue, token, fx),
            Command::SetSessionState { queue, token, state } => {
                self.set_session_state(now, queue, token, *state, fx)
            }
            Command::GetSessionState { queue, token } => self.session_state(now, queue, token),
            Command::ListSessions { queue, after, max } => {
                self.list_sessions(queue, after.as_ref(), *max)
            }
            Command::DescribeSession { queue, session } => {
                self.describe_session(now, queue, session)
            }
            Command::Explain { queue, sequence } => self.explain(now, queue, *sequence),
            Command::Import { to, messages } => self.import(now, to, messages, fx),
            Command::CreateJob { job, settings, items, gather } => {
                self.create_job(now, job, settings, *items, *gather, fx)
            }
            Command::Dispatch { job, first, messages, items } => {
                self.dispatch(now, job, *first, messages, *items, fx)
            }
            Command::CompleteItem { from, token, result } => {
                self.complete_item(now, from, *token, *result, fx)
            }
            Command::EndJob { job, how } => self.end_job(now, job, *how, fx),
            Command::AwaitJob { job, wait_ms } => {
                return self.await_job(now, ticket, request, job, *wait_ms);
            }
            Command::ListJobs { after, max } => Ok(self.list_jobs(after.as_ref(), *max)),
            Command::ListItems { job, from, max, which } => {
                self.list_items(job, *from, *max, *which)
            }
            Command::CreateSchedule { schedule, settings, content } => {
                self.create_schedule(now, schedule, settings, *content, fx)
            }
            Command::SteerSchedule { schedule, how } => {
                self.steer_schedule(now, schedule, *how, fx)
            }
            Command::ListSchedules { from, max } => Ok(self.list_schedules(from.as_ref(), *max)),
            Command::Join { id, metadata, ttl_ms } => self.join(now, *id, metadata, *ttl_ms, fx),
            Command::Heartbeat { held } => self.heartbeat(now, member, held),
            Command::Leave => self.leave(now, member, EndedBy::Goodbye, fx),
            Command::Lost { how } => self.lost(now, member, *how, fx),
            Command::ListMembers => Ok(self.list_members(now)),
            Command::MemberHealth { after, max } => Ok(self.member_health(now, *after, *max)),
            Command::Acquire(acquire) => return self.acquire(now, ticket, request, acquire, fx),
            Command::RenewLease { lease, id } => self.renew_lease(now, lease, *id, fx),
            Command::ChangeLease { lease, id, to } => self.change_lease(now, lease, *id, *to, fx),
            Command::ReleaseLease { lease, id, successor } => {
                let by = EndedBy::Released { reason: None };
                self.release_lease(now, lease, *id, *successor, by, fx)
            }
            Command::StepDown { lease, id, successor, reason } => {
                let by = EndedBy::Released { reason: Some(*reason) };
                self.release_lease(now, lease, *id, *successor, by, fx)
            }
            Command::BreakLease { lease, period_ms } => {
                self.break_lease(now, lease, *period_ms, fx)
            }
            Command::TouchLease { lease } => Ok(self.touch_lease(now, lease, fx)),
            Command::AskStepDown { lease } => self.ask_step_down(now, lease, None, fx),
            Command::HandOver { lease, to } => self.ask_step_down(now, lease, Some(*to), fx),
            Command::PauseLease { lease, keep_leader } => {
                self.pause_lease(now, lease, *keep_leader, fx)
            }
            Command::ResumeLease { lease } => Ok(self.resume_lease(now, lease, fx)),
            Command::AwaitTurn { lease, wait_ms } => {
                return self.await_turn(now, ticket, request, lease, *wait_ms);
            }
            Command::DescribeLease { lease } => Ok(self.describe_lease(now, lease)),
            Command::WatchLease { lease, seen, wait_ms } => {
                return self.watch_lease(now, ticket, request, lease, *seen, *wait_ms);
            }
            Command::ListLeases { after, max } => Ok(self.list_leases(now, after.as_ref(), *max)),
            // The ledger knows how things are; whoever runs it remembers how they came to be.
            Command::LeaseHistory { .. } => Ok(Outcome::Terms(Vec::new())),
            Command::Backup { .. } => Err(Refusal::InvalidValue {
                what: "backup",
                why:
                    "this store keeps nothing, so there is nothing to back up; `bellwether export` \
                      writes down what is in it"
                        .into(),
            }),
            Command::Tick => {
                self.tick(now, fx);
                Ok(Outcome::Done)
            }
        }
        .map(Some)
    }
}
