//! What those who scale a queue tell each other, and what the leader makes of it.
//!
//! ```text
//!   each host:   Report { instance, room, running, starting, busy, idle, failing }   every second
//!   the leader:  … and Plan { term, wanted, shares, decisions }
//!   each host:   the plan of the highest term says its share; without a plan it keeps the last
//! ```
//!
//! A leader that was deposed and does not know it has a lower term: nobody listens. When nobody leads,
//! workers go on as they are.

use std::collections::BTreeMap;

use bellwether::core::time::BootTime;
use bellwether::scaler::{Decision, Host, Load, Policy, Scaler, Workers, reading, spread};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// So many decisions are told.
const DECISIONS_MAX: usize = 100;
/// A host that was not heard of for so many rounds is gone, with its workers.
const HOST_ROUNDS: u64 = 10;
/// A new leader listens for so many before it plans.
const LISTEN_ROUNDS: u64 = 3;

/// What one host tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScaleHost)]
pub(crate) struct HostReport {
    /// Drawn at its start.
    pub(crate) instance: String,
    /// Where it is, for people.
    pub(crate) at: String,
    /// So many workers it would run.
    pub(crate) room: u32,
    /// Workers that take messages, or failed and will be started again.
    pub(crate) running: u32,
    /// Workers that do not take messages yet.
    pub(crate) starting: u32,
    /// Of those that run, those that are known to have messages.
    pub(crate) busy: u32,
    /// Of those that run, those that are known to have none.
    pub(crate) idle: u32,
    /// Of those that run, those that ended again and again.
    pub(crate) failing: u32,
    /// What the leader tells besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<Plan>,
}

/// How many workers there should be, where, and how that came to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScalePlan)]
pub(crate) struct Plan {
    /// Of whoever made it.
    pub(crate) term: u64,
    /// In all.
    pub(crate) wanted: u32,
    /// By instance.
    pub(crate) shares: BTreeMap<String, u32>,
    /// The last ones, the oldest first.
    pub(crate) decisions: Vec<Told>,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScaleDecision)]
pub(crate) struct Told {
    /// When.
    pub(crate) at: String,
    /// From how many.
    pub(crate) from: u32,
    /// To how many.
    pub(crate) wanted: u32,
    /// In a word.
    pub(crate) why: String,
    /// In a sentence.
    pub(crate) decision: String,
}

/// The plan that counts.
pub(crate) fn newest<'a>(reports: impl IntoIterator<Item = &'a HostReport>) -> Option<&'a Plan> {
    reports.into_iter().filter_map(|report| report.plan.as_ref()).max_by_key(|plan| plan.term)
}

/// The leader's view.
#[derive(Debug)]
pub(super) struct Head {
    since: BootTime,
    /// From one round to the next.
    every_ms: u64,
    scaler: Scaler,
    /// How many there should be; `None` before the first plan.
    planned: Option<u32>,
    /// Since when there are fewer than planned.
    short_since: Option<BootTime>,
    /// A worker that does not take messages after so long is not waited for.
    start_ms: u64,
    hosts: BTreeMap<String, (HostReport, BootTime)>,
    plan: Plan,
}

impl Head {
    /// A leader that begins, with what its predecessor has told.
    pub(super) fn new(
        now: BootTime,
        term: u64,
        policy: Policy,
        every_ms: u64,
        start_ms: u64,
        before: Option<&Plan>,
    ) -> Self {
        let decisions = before.map(|plan| plan.decisions.clone()).unwrap_or_default();
        let shares = before.map(|plan| plan.shares.clone()).unwrap_or_default();
        Self {
            since: now,
            every_ms,
            scaler: Scaler::new(policy),
            planned: before.map(|plan| plan.wanted),
            short_since: None,
            start_ms,
            hosts: BTreeMap::new(),
            plan: Plan { term, wanted: before.map_or(0, |plan| plan.wanted), shares, decisions },
        }
    }

    pub(super) fn term(&self) -> u64 {
        self.plan.term
    }

    /// What the hosts tell; one that is not among them is forgotten after a while only: the store may
    /// have been started anew, and hears of them again in a moment.
    pub(super) fn hear(&mut self, now: BootTime, reports: &[HostReport]) {
        for report in reports {
            let host = HostReport { plan: None, ..report.clone() };
            self.hosts.insert(host.instance.clone(), (host, now));
        }
        let host_ms_max = self.every_ms * HOST_ROUNDS;
        self.hosts.retain(|_, (_, at)| at.plus_ms(host_ms_max) > now);
    }

    /// The plan now; the decision as well if it is worth telling: one that changes something, or has
    /// another reason than the last one.
    pub(super) fn plan(
        &mut self,
        now: BootTime,
        at: String,
        load: &Load,
    ) -> (Option<&Plan>, Option<Decision>) {
        if now < self.since.plus_ms(self.every_ms * LISTEN_ROUNDS) {
            return (None, None);
        }
        let workers = self.workers(now, load);
        let decision = self.scaler.step(now, reading(load, workers));
        let hosts: Vec<Host> = self.hosts.values().map(|(host, _)| host.into()).collect();
        let shares = spread(decision.wanted, &hosts);
        // What there is no room for is not waited for.
        let total = shares.iter().sum();
        self.planned = Some(total);
        self.plan.wanted = total;
        self.plan.shares = self.hosts.keys().cloned().zip(shares).collect();
        let last = self.plan.decisions.last();
        let is_new = last.is_none_or(|last| last.why != decision.why.name());
        let is_told = decision.is_change() || is_new;
        if is_told {
            let decisions = &mut self.plan.decisions;
            if decisions.len() == DECISIONS_MAX {
                decisions.remove(0);
            }
            let (from, wanted) = (decision.from, decision.wanted);
            let (why, decision) = (decision.why.name().into(), decision.to_string());
            decisions.push(Told { at, from, wanted, why, decision });
        }
        (Some(&self.plan), is_told.then_some(decision))
    }

    /// Hosts need a moment to follow the plan: what is planned counts, and what is not there yet is
    /// starting, but not for ever.
    ///
    /// Workers that say nothing of themselves are taken for busy as long as messages are in the hands of
    /// somebody who is not known.
    fn workers(&mut self, now: BootTime, load: &Load) -> Workers {
        let sum = |of: fn(&HostReport) -> u32| -> u32 {
            self.hosts.values().map(|(host, _)| of(host)).sum()
        };
        let (running, busy) = (sum(|host| host.running), sum(|host| host.busy));
        let silent = running.saturating_sub(busy + sum(|host| host.idle));
        let unknown = load.counts.locked.saturating_sub(busy.into());
        let busy = busy + silent.min(u32::try_from(unknown).unwrap_or(u32::MAX));
        let here = running + sum(|host| host.starting);
        let mut planned = self.planned.unwrap_or(here);
        if here >= planned {
            self.short_since = None;
        } else {
            let since = *self.short_since.get_or_insert(now);
            if since.plus_ms(self.start_ms) <= now {
                (planned, self.short_since) = (here, None);
            }
        }
        let running = running.min(planned);
        Workers { running, starting: planned - running, busy: busy.min(running) }
    }
}

impl From<&HostReport> for Host {
    fn from(report: &HostReport) -> Self {
        let running = report.running + report.starting;
        Self { room: report.room, running, idle: report.idle }
    }
}

#[cfg(test)]
mod tests {
    use bellwether::core::outcome::{Counts, Totals};

    use super::*;

    fn load(ready: u64) -> Load {
        let counts = Counts { ready, ..Counts::default() };
        let (totals, busy) = (Totals::default(), Vec::new());
        Load { counts, totals, oldest_ms: None, is_paused: false, busy }
    }

    fn host(instance: &str, room: u32, running: u32) -> HostReport {
        let instance = instance.to_owned();
        HostReport { instance, room, running, idle: running, ..HostReport::default() }
    }

    fn head(before: Option<&Plan>) -> Head {
        let policy = Policy { per_worker: Some(5), in_pause_ms: 0, ..Policy::default() };
        Head::new(BootTime(0), 7, policy, 1_000, 10_000, before)
    }

    fn shares(plan: Option<&Plan>) -> Vec<(&str, u32)> {
        let plan = plan.expect("a plan");
        plan.shares.iter().map(|(instance, share)| (instance.as_str(), *share)).collect()
    }

    fn at() -> String {
        "now".into()
    }

    #[test]
    fn a_new_leader_listens_before_it_plans() {
        let mut head = head(None);
        head.hear(BootTime(0), &[host("a", 4, 0)]);
        assert_eq!(head.plan(BootTime(2_999), at(), &load(10)).0, None);
        head.hear(BootTime(3_000), &[host("a", 4, 0), host("b", 4, 0)]);
        let (plan, decision) = head.plan(BootTime(3_000), at(), &load(10));
        assert_eq!(shares(plan), [("a", 1), ("b", 0)], "the minimum first");
        assert_eq!(decision.map(|decision| decision.why.name()), Some("below-minimum"));
    }

    #[test]
    fn what_is_planned_is_not_undone_before_the_hosts_could_follow() {
        let mut head = head(None);
        head.hear(BootTime(3_000), &[host("a", 9, 1)]);
        assert_eq!(shares(head.plan(BootTime(3_000), at(), &load(25)).0), [("a", 5)]);
        head.hear(BootTime(4_000), &[host("a", 9, 1)]);
        let (plan, decision) = head.plan(BootTime(4_000), at(), &load(25));
        assert_eq!(shares(plan), [("a", 5)]);
        assert_eq!(decision.map(|decision| decision.why.name()), Some("starting"));
        head.hear(BootTime(5_000), &[host("a", 9, 5)]);
        let (plan, decision) = head.plan(BootTime(5_000), at(), &load(0));
        assert_eq!(shares(plan), [("a", 1)], "{decision:?}");
        head.hear(BootTime(6_000), &[host("a", 9, 5)]);
        assert_eq!(shares(head.plan(BootTime(6_000), at(), &load(0)).0), [("a", 1)]);
    }

    #[test]
    fn workers_that_never_start_are_not_waited_for_for_ever() {
        let mut head = head(None);
        head.hear(BootTime(3_000), &[host("a", 9, 1)]);
        head.plan(BootTime(3_000), at(), &load(25));
        for second in 4..30 {
            head.hear(BootTime(second * 1_000), &[host("a", 9, 1)]);
            head.plan(BootTime(second * 1_000), at(), &load(25));
        }
        let outs = head.plan.decisions.iter().filter(|told| told.why == "out").count();
        assert!(outs >= 2, "it is decided again: {:?}", head.plan.decisions);
    }

    #[test]
    fn a_host_that_goes_leaves_its_share_to_the_others_after_a_while() {
        let mut head = head(None);
        head.hear(BootTime(3_000), &[host("a", 9, 2), host("b", 9, 2)]);
        assert_eq!(shares(head.plan(BootTime(3_000), at(), &load(20)).0), [("a", 2), ("b", 2)]);
        head.hear(BootTime(4_000), &[host("a", 9, 2)]);
        let still = head.plan(BootTime(4_000), at(), &load(20)).0;
        assert_eq!(shares(still), [("a", 2), ("b", 2)], "the store may have been started anew");
        head.hear(BootTime(13_000), &[host("a", 9, 2)]);
        assert_eq!(shares(head.plan(BootTime(13_000), at(), &load(20)).0), [("a", 4)]);
        // One that says that it stops has no room.
        head.hear(BootTime(14_000), &[host("a", 0, 2), host("c", 9, 0)]);
        assert_eq!(shares(head.plan(BootTime(14_000), at(), &load(20)).0), [("a", 0), ("c", 4)]);
    }

    #[test]
    fn the_next_leader_goes_on_where_the_last_one_was() {
        let mut first = head(None);
        first.hear(BootTime(3_000), &[host("a", 9, 1)]);
        let plan = first.plan(BootTime(3_000), at(), &load(25)).0.cloned();
        let reports = [HostReport { plan: plan.clone(), ..host("a", 9, 1) }, host("b", 9, 0)];
        let newer = Plan { term: 8, ..Plan::default() };
        let both =
            [reports[0].clone(), HostReport { plan: Some(newer.clone()), ..host("c", 1, 1) }];
        assert_eq!(newest(&both), Some(&newer), "nobody listens to a lower term");
        let mut second = head(newest(&reports));
        second.hear(BootTime(3_000), &reports);
        let (plan, _) = second.plan(BootTime(3_000), at(), &load(25));
        assert_eq!(shares(plan), [("a", 3), ("b", 2)], "five are planned");
        assert_eq!(plan.map(|plan| plan.decisions.len()), Some(2));
    }

    #[test]
    fn a_hundred_decisions_fit_into_a_report() {
        let mut head = head(None);
        for second in 3..500 {
            let now = BootTime(second * 1_000);
            let running = 1 + u32::from(second % 2 == 0) * 4;
            head.hear(now, &[host("a", 9, running)]);
            head.planned = Some(running);
            head.plan(now, "2026-01-01T00:00:00.000Z".into(), &load(second % 3 * 25));
        }
        assert_eq!(head.plan.decisions.len(), DECISIONS_MAX);
        let report = HostReport { plan: Some(head.plan.clone()), ..host("a", 9, 1) };
        let bytes = serde_json::to_string(&report).unwrap().len();
        assert!(bytes < bellwether::core::limits::REPORT_BYTES_MAX / 2, "{bytes}");
    }
}
