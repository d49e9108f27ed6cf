//! All or nothing: tried on a copy that knows only what makes room and what is over, then done.

use bellwether_core::command::Disposition;
use bellwether_core::error::{Refusal, StepRefusal};
use bellwether_core::message::{NewMessage, Reason, State};
use bellwether_core::name::Part;
use bellwether_core::outcome::Outcome;
use bellwether_core::time::WallTime;
use bellwether_core::transaction::Step;

use super::Naive;
use super::notes::check_ttl;
use super::queues::Message;

impl Naive {
    pub fn transact(&mut self, steps: &[Step]) -> Result<Outcome, Refusal> {
        if steps.is_empty() {
            return Err(Refusal::InvalidValue { what: "steps", why: String::new() });
        }
        let (real, notes, left) = (self.queues.clone(), self.notes.clone(), self.left.clone());
        let jobs = self.jobs.clone();
        let tried = steps.iter().enumerate().try_for_each(|(step, what)| {
            let why = self.try_step(what).err().map(Box::new);
            why.map_or(Ok(()), |why| Err(Refusal::Step(StepRefusal { step: step as u32, why })))
        });
        (self.queues, self.notes, self.left, self.jobs) = (real, notes, left, jobs);
        tried?;
        let mut sends = Vec::new();
        for step in steps {
            match step {
                Step::Settle { from, settlement } => {
                    let Ok(Outcome::Settled { refused }) = self.settle(from, &[*settlement]) else {
                        panic!("it was tried")
                    };
                    assert_eq!(refused, Vec::new(), "it was tried");
                }
                Step::Send { queue, messages, .. } => {
                    let q = self.queue_named(queue)?;
                    sends.push(self.put(q, messages));
                }
                Step::SetSessionState { queue, token, state } => {
                    let q = self.queue_named(queue)?;
                    let s = self.held(q, token)?;
                    self.queues[q].used_at = self.now.boot;
                    self.queues[q].sessions[s].state_bytes = state.map(|new| new.bytes);
                }
                Step::Cancel { queue, sequences } => {
                    self.cancel(queue, sequences).unwrap();
                }
                Step::Request { queue, message, key, ttl_ms, .. } => {
                    let q = self.queue_named(queue)?;
                    sends.push(self.request(q, message, key, *ttl_ms));
                }
                Step::Report { queue, key, report, content, ttl_ms } => {
                    self.write_result(queue, key, *report, *content, *ttl_ms);
                }
                Step::Finish { scope, key, content, .. } => self.finish(scope, key, *content),
                Step::GiveUp { scope, key, .. } => self.give_up(scope, key),
            }
        }
        Ok(Outcome::Transacted(sends))
    }

    fn try_step(&mut self, step: &Step) -> Result<(), Refusal> {
        match step {
            Step::Settle { from, settlement } => {
                let q = self.queue_named(&from.queue)?;
                let m = self.check_settle(q, from.part == Part::Dead, settlement)?;
                let messages = &mut self.queues[q].messages;
                if settlement.disposition == Disposition::Complete {
                    messages.remove(m);
                } else {
                    messages[m].state = State::Deferred;
                }
            }
            Step::Send { queue, messages, .. } => {
                let q = self.queue_named(queue)?;
                self.check_send(q, messages.iter())?;
                self.check_items_room(q, messages.len() as u64)?;
                self.queues[q].messages.extend(messages.iter().map(nobodys_message));
            }
            Step::SetSessionState { queue, token, state } => {
                let q = self.queue_named(queue)?;
                let s = self.held(q, token)?;
                self.check_state(q, s, *state)?;
                self.queues[q].sessions[s].state_bytes = state.map(|new| new.bytes);
            }
            Step::Cancel { queue, sequences } => {
                self.cancel(queue, sequences)?;
            }
            Step::Request { queue, message, key, ttl_ms, .. } => {
                let q = self.queue_named(queue)?;
                check_ttl(*ttl_ms)?;
                if self.has_result(q, key) {
                    return Ok(());
                }
                self.check_send(q, [message].into_iter())?;
                self.check_items_room(q, 1)?;
                self.queues[q].messages.push(nobodys_message(message));
                self.expect_result(q, key, 0, *ttl_ms);
            }
            Step::Report { queue, key, report, content, ttl_ms } => {
                self.check_report(queue, key, *report, *ttl_ms)?;
                self.write_result(queue, key, *report, *content, *ttl_ms);
            }
            Step::Finish { scope, key, token, .. } => {
                self.check_claim(scope, key, *token)?;
                self.finish(scope, key, None);
            }
            Step::GiveUp { scope, key, token } => {
                self.check_claim(scope, key, *token)?;
                self.give_up(scope, key);
            }
        }
        Ok(())
    }
}

/// Takes room and cannot be found: its number is nobody's.
fn nobodys_message(new: &NewMessage) -> Message {
    Message {
        content: 0,
        rank: new.rank.clone(),
        stamp: 0,
        item: None,
        gathers: None,
        dead: false,
        sequence: u64::MAX,
        state: State::Deferred,
        visible: false,
        bytes: new.content_bytes,
        overlay_bytes: None,
        enqueued_at: WallTime(0),
        expires_at: WallTime::NEVER,
        origin: 0,
        source: 0,
        session: None,
        number: 0,
        deliveries: 0,
        failures: 0,
        crashes: 0,
        releases: 0,
        reason: Reason::None,
        hops: 0,
    }
}
