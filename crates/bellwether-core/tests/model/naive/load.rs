//! How much there is to do, and what members tell each other.

use bellwether_core::error::Refusal;
use bellwether_core::message::State;
use bellwether_core::name::{LeaseName, QueueName};
use bellwether_core::outcome::{Busy, Load, Outcome, Report};
use bellwether_core::time::BootTime;

use super::Naive;

/// What a member told in an election.
pub struct Told {
    lease: LeaseName,
    slot: u32,
    text: String,
    at: BootTime,
}

impl Naive {
    pub fn read_load(&self, name: &QueueName) -> Result<Outcome, Refusal> {
        let queue = &self.queues[self.queue_named(name)?];
        let info = queue.info();
        let main = || queue.messages.iter().filter(|message| !message.dead);
        let ready = main().filter(|message| message.state == State::Ready);
        let oldest = ready.min_by_key(|message| message.sequence);
        let holders: Vec<u32> = main()
            .filter_map(|message| match message.state {
                State::Locked(lock) => Some(lock.member.0),
                _ => None,
            })
            .collect();
        let known = self.members.iter().filter(|member| !member.forgotten);
        let busy = known.filter_map(|member| {
            let deliveries = holders.iter().filter(|slot| **slot == member.slot).count() as u32;
            (deliveries > 0).then_some(Busy { member: member.id, deliveries })
        });
        Ok(Outcome::Load(Box::new(Load {
            counts: info.counts,
            totals: info.totals,
            oldest_ms: oldest.map(|m| self.now.wall.0.saturating_sub(m.enqueued_at.0)),
            is_paused: !queue.settings.status.can_receive(),
            busy: busy.collect(),
        })))
    }

    pub fn report(&mut self, slot: u32, lease: &LeaseName, text: &str) -> Result<Outcome, Refusal> {
        if self.member(slot).is_none_or(|member| member.gone_at.is_some()) {
            return Err(Refusal::MemberGone);
        }
        self.reports.retain(|told| told.lease != *lease || told.slot != slot);
        if !text.is_empty() {
            let (lease, text, at) = (lease.clone(), text.to_owned(), self.now.boot);
            self.reports.push(Told { lease, slot, text, at });
        }
        Ok(self.list_reports(lease))
    }

    pub fn list_reports(&self, lease: &LeaseName) -> Outcome {
        let mut told: Vec<(u32, Report)> = self
            .reports
            .iter()
            .filter(|told| told.lease == *lease)
            .filter_map(|Told { slot, text, at, .. }| {
                let member = self.member(*slot).filter(|member| member.gone_at.is_none())?.id;
                let age_ms = at.ms_until(self.now.boot);
                Some((*slot, Report { member, text: text.clone(), age_ms }))
            })
            .collect();
        told.sort_by_key(|(slot, _)| *slot);
        Outcome::Reports(told.into_iter().map(|(_, report)| report).collect())
    }
}
