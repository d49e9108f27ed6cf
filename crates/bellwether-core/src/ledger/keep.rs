//! Exactly-once commands: outcomes are kept until the member has heard them.

use crate::change::{Change, KeptOutcome};
use crate::command::{Command, Disposition, Receive, Request};
use crate::error::Refusal;
use crate::limits;
use crate::message::MessageView;
use crate::name::{At, LockToken, MemberSlot, Part, QueueId, RequestNumber};
use crate::outcome::Outcome;
use crate::time::Now;

use super::{Effects, Ledger};

impl Ledger {
    /// Whether this request was decided before: asked again it gets that outcome and changes
    /// nothing.
    pub fn is_decided(&self, request: &Request) -> bool {
        let member = self.members.get(&request.member);
        member.is_some_and(|member| member.kept.contains_key(&request.number))
    }

    /// What was answered to this request before, if it was. Any request shows that its member is
    /// here.
    pub(super) fn recall(
        &mut self,
        now: Now,
        request: &Request,
        fx: &mut Effects,
    ) -> Result<Option<Outcome>, Refusal> {
        // What others saw of a member is no sign of life, and counts also when it was silent too long.
        if request.member.0 == 0 || matches!(request.command, Command::Lost { .. }) {
            return Ok(None);
        }
        let member = self.members.get_mut(&request.member).ok_or(Refusal::MemberGone)?;
        if member.gone_at.is_some() && !member.kept.contains_key(&request.number) {
            return Err(Refusal::MemberGone);
        }
        member.seen_at = now.boot;
        if request.number.0 == 0 {
            return Ok(None);
        }
        if let Some(kept) = member.kept.get(&request.number).cloned() {
            return Ok(Some(self.as_answered(now, kept)));
        }
        // A copy that was long on its way: its outcome is forgotten and must not happen twice.
        if request.number < member.heard_below {
            let why = format!("answers below {} have been heard", member.heard_below);
            return Err(Refusal::InvalidValue { what: "request number", why });
        }
        let max = limits::KEPT_OUTCOMES_MAX;
        // Those it says it has heard by now are still kept, but do not count against it.
        if member.kept.len() >= max && member.kept.range(request.answered_below..).count() >= max {
            let max = max as u64;
            return Err(Refusal::TooMany { what: "unheard answers of one member", max });
        }
        // The first one still waits and has changed nothing: its wait is over, this one's begins.
        if let Some(ticket) = member.waiting_numbers.get(&request.number).copied() {
            self.wait_fired(now, ticket, fx);
        }
        Ok(None)
    }

    /// What was handed out is told again only while it stands: somebody else may have it by now.
    fn as_answered(&self, now: Now, kept: KeptOutcome) -> Outcome {
        match kept {
            KeptOutcome::Plain(Outcome::Session(Some(hold))) => {
                let stands =
                    self.queues.values().any(|queue| queue.held_lane(now, &hold.token).is_ok());
                Outcome::Session(stands.then_some(hold))
            }
            KeptOutcome::Plain(outcome) => outcome,
            KeptOutcome::Deliveries { queue, part, tokens } => Outcome::Received(
                tokens
                    .into_iter()
                    .filter_map(|token| {
                        let at = At { queue, part, sequence: token.sequence };
                        let message = self.message(at).filter(|m| m.is_locked_by(token))?;
                        Some(self.view(at, *message))
                    })
                    .collect(),
            ),
        }
    }

    /// An outcome as it is kept, if it tells of a change that must not be made twice.
    ///
    /// A grant is not kept: a holder trusts it from when it asked, so whoever asks again must
    /// hear whether it holds the lease now; the id it proposes makes asking twice harmless
    /// (E4). What was received and deleted is not there to be handed out again.
    pub(super) fn worth_keeping(
        &self,
        command: &Command,
        outcome: &Outcome,
    ) -> Option<KeptOutcome> {
        match (command, outcome) {
            (
                Command::Receive(Receive { from, .. }) | Command::ReceiveDeferred { from, .. },
                Outcome::Received(views),
            ) => deliveries(*self.names.get(&from.queue)?, from.part, views),
            (Command::UpdateQueue { .. }, outcome) => Some(KeptOutcome::Plain(outcome.clone())),
            (_, outcome) => outcome.is_kept().then(|| KeptOutcome::Plain(outcome.clone())),
        }
    }

    /// Keeps an outcome, if the request asks for it.
    pub(super) fn keep(
        &mut self,
        now: Now,
        member: MemberSlot,
        number: RequestNumber,
        answered_below: RequestNumber,
        outcome: KeptOutcome,
        fx: &mut Effects,
    ) {
        if number.0 == 0 || member.0 == 0 {
            return;
        }
        let already = self.members.get(&member).is_none_or(|m| m.kept.contains_key(&number));
        if !already {
            self.emit(now, Change::Kept { member, number, answered_below, outcome }, fx);
        }
    }
}

/// Deliveries as they are kept: by their tokens.
pub(super) fn deliveries(queue: QueueId, part: Part, views: &[MessageView]) -> Option<KeptOutcome> {
    let tokens: Vec<LockToken> = views.iter().filter_map(MessageView::token).collect();
    (!tokens.is_empty()).then_some(KeptOutcome::Deliveries { queue, part, tokens })
}

impl Outcome {
    /// Whether this outcome, of whatever command, tells of a change that must not be made twice.
    fn is_kept(&self) -> bool {
        matches!(
            self,
            Self::Done
                | Self::QueueCreated { .. }
                | Self::Sent(_)
                | Self::Count(_)
                | Self::Settled { .. }
                | Self::Session(Some(_))
                | Self::Breaking { .. }
                | Self::JobCreated { .. }
                | Self::Dispatched { .. }
                | Self::ScheduleCreated { .. }
        )
    }
}

impl Command {
    /// Whether the command leaves nothing in the journal: it reads, or renews what only memory
    /// knows. So it never needs a number, and a full disk is no reason to refuse it.
    pub fn writes_nothing(&self) -> bool {
        matches!(
            self,
            Self::DescribeQueue { .. }
                | Self::ListQueues { .. }
                | Self::Peek { .. }
                | Self::GetSessionState { .. }
                | Self::ListSessions { .. }
                | Self::DescribeSession { .. }
                | Self::Explain { .. }
                | Self::ListMembers
                | Self::MemberHealth { .. }
                | Self::DescribeLease { .. }
                | Self::WatchLease { .. }
                | Self::AwaitTurn { .. }
                | Self::ListLeases { .. }
                | Self::LeaseHistory { .. }
                | Self::Backup { .. }
                | Self::AwaitJob { .. }
                | Self::ListJobs { .. }
                | Self::ListItems { .. }
                | Self::ListSchedules { .. }
                | Self::Heartbeat { .. }
                | Self::RenewSession { .. }
                | Self::RenewLocks { lock_ms: None, .. }
        )
    }

    /// Whether the command only gives back what its member holds.
    pub fn gives_back(&self) -> bool {
        match self {
            Self::Settle { settlements, .. } => settlements
                .iter()
                .all(|settlement| matches!(settlement.disposition, Disposition::Release)),
            Self::CloseSession { .. }
            | Self::ReleaseLease { .. }
            | Self::StepDown { .. }
            | Self::Leave
            | Self::Lost { .. } => true,
            _ => false,
        }
    }
}
