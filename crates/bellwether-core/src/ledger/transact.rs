//! Transactions: everything is checked, then everything is done ([`crate::transaction`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::change::Change;
use crate::command::{Disposition, NewContent, Settlement};
use crate::content::ContentId;
use crate::error::{Refusal, StepRefusal};
use crate::limits;
use crate::message::{Message, NewMessage};
use crate::name::{At, Part, QueueId, SequenceNumber};
use crate::note::{NoteName, Report};
use crate::outcome::{Outcome, Sequences};
use crate::queue::Queue;
use crate::ready::LaneId;
use crate::time::Now;
use crate::transaction::Step;

use super::claims::claim_lost;
use super::notes::{check_ttl, claim_name, result_name};
use super::results::check_report;
use super::sessions::check_state;
use super::{Effects, Ledger};

/// What steps before a send will have changed: of its queue, and of all messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    pub(super) sessions: usize,
    pub(super) messages_in: u64,
    pub(super) messages_out: u64,
    /// Of its queue.
    came: u64,
    went: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Ahead {
    /// The size of the queue by then.
    pub(super) fn size_bytes(&self, queue: &Queue) -> u64 {
        queue.size_bytes + self.bytes_in - self.bytes_out
    }
}

/// What the steps checked so far will have changed.
#[derive(Default)]
struct Plan {
    /// Settled or cancelled.
    ended: BTreeSet<At>,
    /// By queue; what is counted of all messages is in `messages_*`.
    queues: BTreeMap<QueueId, Ahead>,
    /// How long the states of sessions are.
    states: BTreeMap<(QueueId, LaneId), u64>,
    messages_in: u64,
    messages_out: u64,
    bytes: u64,
    /// Results that are asked for, and claims that end.
    notes: BTreeSet<NoteName>,
}

impl Plan {
    fn ahead(&self, id: QueueId) -> Ahead {
        let (messages_in, messages_out) = (self.messages_in, self.messages_out);
        let of_queue = self.queues.get(&id).copied().unwrap_or_default();
        Ahead { messages_in, messages_out, ..of_queue }
    }

    /// A message goes, and so do its contents.
    fn goes(&mut self, at: At, bytes: u64) {
        self.messages_out += 1;
        let ahead = self.queues.entry(at.queue).or_default();
        ahead.bytes_out += bytes;
        ahead.went += u64::from(at.part == Part::Main);
    }
}

/// A step that was checked, and what was found.
enum Checked<'a> {
    Settle(At, Message, &'a Settlement),
    Send(QueueId, &'a [NewMessage], u32),
    State(QueueId, LaneId, Option<NewContent>),
    Cancel(QueueId, &'a [SequenceNumber]),
    Request(QueueId, &'a NewMessage, u32, NoteName, u64),
    /// A request that was asked before.
    Repeat,
    Report(NoteName, Report, Option<NewContent>, Option<u64>),
    Finish(NoteName, Option<NewContent>),
    GiveUp(NoteName),
}

impl Ledger {
    pub(super) fn transact(
        &mut self,
        now: Now,
        steps: &[Step],
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        if steps.is_empty() {
            let why = "a transaction needs at least one step".into();
            return Err(Refusal::InvalidValue { what: "steps", why });
        }
        if steps.len() > limits::TRANSACTION_STEPS_MAX {
            let max = limits::TRANSACTION_STEPS_MAX as u64;
            return Err(Refusal::TooMany { what: "steps of one transaction", max });
        }
        let mut plan = Plan::default();
        let mut checked = Vec::with_capacity(steps.len());
        for (index, step) in steps.iter().enumerate() {
            match self.check_step(now, step, &mut plan) {
                Ok(found) => checked.push(found),
                Err(why) => {
                    #[cfg(planted_bug = "transaction_half_done")]
                    for step in checked {
                        self.take_step(now, step, &mut Vec::new(), fx);
                    }
                    let (step, why) = (index as u32, Box::new(why));
                    return Err(Refusal::Step(StepRefusal { step, why }));
                }
            }
        }
        // From here on nothing is refused.
        let mut sends = Vec::new();
        for step in checked {
            self.take_step(now, step, &mut sends, fx);
        }
        Ok(Outcome::Transacted(sends))
    }

    fn check_step<'a>(
        &self,
        now: Now,
        step: &'a Step,
        plan: &mut Plan,
    ) -> Result<Checked<'a>, Refusal> {
        plan.bytes += step.contents().map(|new| u64::from(new.bytes)).sum::<u64>();
        if plan.bytes > limits::COMMAND_BYTES_MAX {
            let (bytes, bytes_max) = (plan.bytes, limits::COMMAND_BYTES_MAX);
            return Err(Refusal::TooLarge { what: "one transaction", bytes, bytes_max });
        }
        match step {
            Step::Settle { from, settlement } => {
                let id = self.queue_id(&from.queue)?;
                let sequence = settlement.token.sequence;
                let at = At { queue: id, part: from.part, sequence };
                #[cfg(not(planted_bug = "settled_twice_in_one_transaction"))]
                if plan.ended.contains(&at) {
                    return Err(Refusal::LockLost(sequence));
                }
                let (at, message) = self.check_settle(now, id, from.part, settlement)?;
                plan.ended.insert(at);
                if settlement.disposition == Disposition::Complete {
                    plan.goes(at, self.bytes_of(&message));
                }
                Ok(Checked::Settle(at, message, settlement))
            }
            Step::Send { queue, messages, first } => {
                let queue = self.queue_named(queue)?;
                self.plan_send(queue, messages, plan)?;
                Ok(Checked::Send(queue.id, messages, *first))
            }
            Step::SetSessionState { queue, token, state } => {
                let queue = self.queue_named(queue)?;
                let lane = queue.held_lane(now, token)?;
                let key = (queue.id, lane);
                let old = plan.states.get(&key).copied();
                let old = old.unwrap_or_else(|| self.state_bytes_of(queue, lane));
                check_state(queue, *state, plan.ahead(queue.id).size_bytes(queue) - old)?;
                let new = state.map_or(0, |state| u64::from(state.bytes));
                plan.states.insert(key, new);
                let ahead = plan.queues.entry(queue.id).or_default();
                ahead.bytes_in += new;
                ahead.bytes_out += old;
                Ok(Checked::State(queue.id, lane, *state))
            }
            Step::Cancel { queue, sequences } => {
                let id = self.queue_id(queue)?;
                self.check_cancel(id, sequences)?;
                let at = |sequence: SequenceNumber| At { queue: id, part: Part::Main, sequence };
                let ended = |sequence: &&SequenceNumber| plan.ended.contains(&at(**sequence));
                if let Some(gone) = sequences.iter().find(ended) {
                    return Err(Refusal::MessageNotFound(*gone));
                }
                for at in sequences.iter().map(|sequence| at(*sequence)) {
                    // The same number twice in one step is cancelled once.
                    if plan.ended.insert(at)
                        && let Some(message) = self.message(at)
                    {
                        plan.goes(at, self.bytes_of(message));
                    }
                }
                Ok(Checked::Cancel(id, sequences))
            }
            _ => self.check_note_step(now, step, plan),
        }
    }

    /// The same for a step about a result or a claim.
    fn check_note_step<'a>(
        &self,
        now: Now,
        step: &'a Step,
        plan: &mut Plan,
    ) -> Result<Checked<'a>, Refusal> {
        match step {
            Step::Request { queue, message, content, key, ttl_ms } => {
                let queue = self.queue_named(queue)?;
                check_ttl(*ttl_ms)?;
                let name = result_name(&queue.name, key);
                if self.note(now, &name).is_some() || plan.notes.contains(&name) {
                    return Ok(Checked::Repeat);
                }
                self.plan_send(queue, std::slice::from_ref(message), plan)?;
                plan.notes.insert(name.clone());
                self.check_note_room(plan.notes.len() as u64)?;
                Ok(Checked::Request(queue.id, message, *content, name, *ttl_ms))
            }
            Step::Report { queue, key, report, content, ttl_ms } => {
                let name = result_name(queue, key);
                let is_new = self.note(now, &name).is_none() && !plan.notes.contains(&name);
                let ttl_ms = ttl_ms.filter(|_| is_new);
                check_report(*report, *content, ttl_ms)?;
                if ttl_ms.is_some() {
                    plan.notes.insert(name.clone());
                    self.check_note_room(plan.notes.len() as u64)?;
                }
                Ok(Checked::Report(name, *report, *content, ttl_ms))
            }
            Step::Finish { scope, key, token, content } => {
                let name = claim_name(scope, key);
                self.check_claim(now, &name, *token, *content)?;
                if !plan.notes.insert(name.clone()) {
                    return Err(claim_lost(&name));
                }
                Ok(Checked::Finish(name, *content))
            }
            Step::GiveUp { scope, key, token } => {
                let name = claim_name(scope, key);
                self.check_claim(now, &name, *token, None)?;
                if !plan.notes.insert(name.clone()) {
                    return Err(claim_lost(&name));
                }
                Ok(Checked::GiveUp(name))
            }
            Step::Settle { .. }
            | Step::Send { .. }
            | Step::SetSessionState { .. }
            | Step::Cancel { .. } => unreachable!("checked as a step about messages"),
        }
    }

    /// Checks a send, and counts what it adds.
    fn plan_send(
        &self,
        queue: &Queue,
        messages: &[NewMessage],
        plan: &mut Plan,
    ) -> Result<(), Refusal> {
        let ahead = plan.ahead(queue.id);
        self.check_send(queue, messages, ahead)?;
        // Nobody is dropped for a transaction, and none of it goes elsewhere: it happens as it was
        // asked for, or not at all.
        let more = ahead.came + messages.len() as u64;
        if queue.is_crowded_by(more.saturating_sub(ahead.went)) {
            return Err(self.busy(queue, messages.len()));
        }
        plan.messages_in += messages.len() as u64;
        if plan.messages_in > limits::BATCH_MESSAGES_MAX as u64 {
            let max = limits::BATCH_MESSAGES_MAX as u64;
            return Err(Refusal::TooMany { what: "messages in one transaction", max });
        }
        let ahead = plan.queues.entry(queue.id).or_default();
        ahead.came += messages.len() as u64;
        ahead.bytes_in += messages.iter().map(|new| u64::from(new.content_bytes)).sum::<u64>();
        let named = messages.iter().filter_map(|new| new.session.as_ref());
        ahead.sessions += named.filter(|id| queue.sessions.find(id).is_none()).count();
        Ok(())
    }

    fn take_step(
        &mut self,
        now: Now,
        step: Checked<'_>,
        sends: &mut Vec<Sequences>,
        fx: &mut Effects,
    ) {
        match step {
            Checked::Settle(at, message, settlement) => {
                self.touch_queue(now, at.queue);
                self.end_delivery(now, at, message, settlement, fx);
            }
            Checked::Send(id, messages, first) => {
                sends.push(self.put_all(now, id, messages, first, fx));
            }
            Checked::State(id, lane, state) => {
                self.put_session_state(now, id, lane, state, fx);
            }
            Checked::Cancel(id, sequences) => {
                self.put_cancelled(now, id, sequences, fx);
            }
            Checked::Request(id, message, content, name, ttl_ms) => {
                // Before it is sent: it may become a dead letter in that moment.
                let next = ContentId(self.contents.last_id().0 + 1);
                self.expect_result(now, &name, next, ttl_ms, fx);
                let numbers = self.put_all(now, id, std::slice::from_ref(message), content, fx);
                let is_duplicate = numbers.iter().all(|number| number.0 == 0);
                if is_duplicate {
                    self.expect_result(now, &name, ContentId(0), ttl_ms, fx);
                }
                sends.push(numbers);
            }
            Checked::Repeat => sends.push(Sequences::List(vec![SequenceNumber(0)])),
            Checked::Report(name, report, content, ttl_ms) => {
                self.write_result(now, &name, report, content, ttl_ms, fx);
            }
            Checked::Finish(name, content) => self.finish(now, &name, content, fx),
            Checked::GiveUp(name) => self.emit(now, Change::NoteGone { name }, fx),
        }
    }

    /// The contents of a message, what was changed on it included.
    fn bytes_of(&self, message: &Message) -> u64 {
        self.contents.len(message.content) + self.contents.len(message.standing.overlay)
    }
}
