//! Exactly-once commands: outcomes are kept until the member has heard them.

use crate::change::{Change, KeptOutcome};
use crate::command::{Command, Request};
use crate::error::Refusal;
use crate::limits;
use crate::name::{At, LockToken, MemberSlot, RequestNumber};
use crate::outcome::Outcome;
use crate::time::Now;

use super::{Effects, Ledger};

impl Ledger {
    /// What was answered to this request before, if it was. Any request shows that its member is
    /// here.
    pub(super) fn recall(
        &mut self,
        now: Now,
        request: &Request,
    ) -> Result<Option<Outcome>, Refusal> {
        if request.member.0 == 0 {
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
            return Ok(Some(self.as_answered(kept)));
        }
        if member.kept.len() >= limits::KEPT_OUTCOMES_MAX {
            let max = limits::KEPT_OUTCOMES_MAX as u64;
            return Err(Refusal::TooMany { what: "unheard answers of one member", max });
        }
        // The first one still waits: it changed nothing, and this one takes its place in line.
        if let Some(ticket) = member.waiting_numbers.get(&request.number).copied() {
            self.withdraw(ticket);
        }
        Ok(None)
    }

    fn as_answered(&self, kept: KeptOutcome) -> Outcome {
        match kept {
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

    /// Keeps an outcome, if the request asks for it and there is something to keep.
    pub(super) fn keep(
        &mut self,
        now: Now,
        member: MemberSlot,
        number: RequestNumber,
        answered_below: RequestNumber,
        outcome: &Outcome,
        fx: &mut Effects,
    ) {
        if number.0 == 0 || member.0 == 0 {
            return;
        }
        let already = self.members.get(&member).is_none_or(|m| m.kept.contains_key(&number));
        if already {
            return;
        }
        let outcome = match outcome {
            Outcome::Received(views) => {
                let tokens: Vec<LockToken> = views.iter().filter_map(|view| view.token()).collect();
                // Received and deleted: nothing is left to hand out again.
                let Some(first) = tokens.first().filter(|_| tokens.len() == views.len()) else {
                    return;
                };
                let Some((queue, part)) = fx.changes.iter().rev().find_map(|change| match change {
                    Change::Standing { at, .. } if at.sequence == first.sequence => {
                        Some((at.queue, at.part))
                    }
                    _ => None,
                }) else {
                    return;
                };
                KeptOutcome::Deliveries { queue, part, tokens }
            }
            outcome if outcome.is_kept() => KeptOutcome::Plain(outcome.clone()),
            _ => return,
        };
        self.emit(now, Change::Kept { member, number, answered_below, outcome }, fx);
    }
}

impl Outcome {
    /// Whether this outcome tells of a change that must not be made twice.
    fn is_kept(&self) -> bool {
        matches!(
            self,
            Self::Done
                | Self::QueueCreated { .. }
                | Self::Sent(_)
                | Self::Count(_)
                | Self::Settled { .. }
                | Self::Session(Some(_))
                | Self::Granted { .. }
                | Self::Breaking { .. }
        )
    }
}

impl Command {
    /// Whether the command may be answered from memory alone, and so never needs a number.
    pub fn is_read_only(&self) -> bool {
        matches!(
            self,
            Self::DescribeQueue { .. }
                | Self::ListQueues { .. }
                | Self::Peek { .. }
                | Self::GetSessionState { .. }
                | Self::ListSessions { .. }
                | Self::ListMembers
                | Self::DescribeLease { .. }
                | Self::WatchLease { .. }
                | Self::ListLeases { .. }
        )
    }
}
