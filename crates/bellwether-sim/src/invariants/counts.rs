//! L5: the count of a message's deliveries grows by one with every delivery that failed or ran
//! out, not with one that was given back unused, survives restarts, and never reaches the maximum
//! outside the dead letters. A power cut may lose what was not flushed, and a queue in an outage counts
//! nothing. Nobody is convicted of crashes before there were as many as the queue allows, and one more:
//! the first, which may have had others beside it.

use std::collections::BTreeMap;

use bellwether_core::name::Part;
use bellwether_core::settings::Failures;

use super::Invariant;
use super::lock_book::LockBook;
use super::volatile::Volatile;
use crate::history::{Delivery, How, Record, Spot, Token, What};
use crate::plan::Plan;

#[derive(Clone, Copy, Debug)]
struct Last {
    token: Token,
    counted: u32,
    /// How it ended, if that was acknowledged.
    ended: Option<How>,
}

#[derive(Debug)]
pub(super) struct Check {
    book: LockBook,
    last: BTreeMap<Spot, Last>,
    deliveries_max: Vec<u32>,
    failures: Vec<Failures>,
    volatile: Volatile<Token>,
}

impl Check {
    pub(super) fn new(plan: &Plan) -> Self {
        let deliveries_max = plan.queues.iter().map(|q| q.settings.deliveries_max).collect();
        let failures = plan.queues.iter().map(|q| q.settings.failures).collect();
        let (book, last, volatile) = Default::default();
        Self { book, last, deliveries_max, failures, volatile }
    }

    fn deliver(&mut self, delivery: &Delivery) -> Result<(), String> {
        let token = delivery.token;
        let max = self.deliveries_max[usize::from(token.spot.queue)];
        if token.spot.part == Part::Main && delivery.counted >= max {
            return Err(format!("{token:?} has had {} of {max} deliveries", delivery.counted));
        }
        let new = Last { token, counted: delivery.counted, ended: None };
        let Some(old) = self.last.insert(token.spot, new) else { return Ok(()) };
        if old.token == token {
            self.last.insert(token.spot, old);
            return Ok(());
        }
        let Some(lock) = self.book.current(old.token).filter(|lock| !lock.unsure) else {
            return Ok(());
        };
        let may_be_uncounted = self.failures[usize::from(token.spot.queue)].outage.is_some();
        let least = old.counted
            + match old.ended {
                _ if may_be_uncounted => 0,
                Some(How::Abandon(_)) => 1,
                Some(_) => 0,
                // Nobody ended it, so it ran out; but a session that is closed gives back unused.
                None => u32::from(lock.settled == 0 && !lock.in_session),
            };
        let most = old.counted + token.number.saturating_sub(old.token.number);
        if !(least..=most).contains(&delivery.counted) {
            return Err(format!(
                "{token:?} says {} after {:?} said {}: it should be {least} to {most}",
                delivery.counted, old.token, old.counted
            ));
        }
        Ok(())
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "L5 counts"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        for token in self.volatile.see(record) {
            if let Some(last) = self.last.get_mut(&token.spot).filter(|l| l.token == token) {
                last.ended = None;
            }
        }
        match &record.what {
            What::Delivered(delivery) => self.deliver(delivery)?,
            What::Settled { token, how, ok: true, volatile, .. } => {
                if *volatile {
                    self.volatile.note(record, *token);
                }
                if let Some(last) = self.last.get_mut(&token.spot).filter(|l| l.token == *token) {
                    last.ended = Some(*how);
                }
            }
            What::Audited { messages, .. } => {
                let odd = messages.iter().find(|seen| {
                    seen.too_often
                        && seen.spot.part == Part::Dead
                        && seen.counted < self.deliveries_max[usize::from(seen.spot.queue)]
                });
                if let Some(seen) = odd {
                    return Err(format!("{seen:?} is a dead letter before its time"));
                }
                let innocent = messages.iter().find(|seen| {
                    let crashes_max = self.failures[usize::from(seen.spot.queue)].crashes_max;
                    seen.convicted && seen.counted <= crashes_max
                });
                if let Some(seen) = innocent {
                    return Err(format!("{seen:?} is a dead letter for what it may not have done"));
                }
            }
            _ => {}
        }
        self.book.see(record);
        Ok(())
    }
}
