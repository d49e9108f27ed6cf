//! What those who take part in an election tell each other.
//!
//! A report is like a heartbeat: in memory, gone with its member, and told anew after a restart.

use std::collections::BTreeMap;

use crate::error::Refusal;
use crate::limits;
use crate::name::{LeaseName, MemberSlot};
use crate::outcome::{Outcome, Report};
use crate::time::{BootTime, Now};

use super::Ledger;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Reports {
    told: BTreeMap<(LeaseName, MemberSlot), (String, BootTime)>,
}

impl Reports {
    pub(super) fn forget(&mut self, member: MemberSlot) {
        self.told.retain(|(_, slot), _| *slot != member);
    }
}

impl Ledger {
    /// Tells something in the place of what the member told before; nothing takes that back.
    pub(super) fn report(
        &mut self,
        now: Now,
        member: MemberSlot,
        lease: &LeaseName,
        text: &str,
    ) -> Result<Outcome, Refusal> {
        if self.members.get(&member).is_none_or(|member| member.gone_at.is_some()) {
            return Err(Refusal::MemberGone);
        }
        if text.len() > limits::REPORT_BYTES_MAX {
            let (bytes, bytes_max) = (text.len() as u64, limits::REPORT_BYTES_MAX as u64);
            return Err(Refusal::TooLarge { what: "a report", bytes, bytes_max });
        }
        let told = &mut self.reports.told;
        let key = (lease.clone(), member);
        if text.is_empty() {
            told.remove(&key);
        } else {
            if told.len() >= limits::REPORTS_MAX && !told.contains_key(&key) {
                let max = limits::REPORTS_MAX as u64;
                return Err(Refusal::TooMany { what: "reports", max });
            }
            told.insert(key, (text.to_owned(), now.boot));
        }
        Ok(self.list_reports(now, lease))
    }

    /// All that is told in an election, by the age of the members.
    pub(super) fn list_reports(&self, now: Now, lease: &LeaseName) -> Outcome {
        let first = (lease.clone(), MemberSlot(0));
        let of_lease = self.reports.told.range(first..).take_while(|((of, _), _)| of == lease);
        let reports = of_lease.filter_map(|((_, slot), (text, at))| {
            let member = self.members.get(slot)?.id;
            Some(Report { member, text: text.clone(), age_ms: at.ms_until(now.boot) })
        });
        Outcome::Reports(reports.collect())
    }
}
