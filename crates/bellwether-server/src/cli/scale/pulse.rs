//! What a host asks and tells the store, round after round, beside its workers: a store that is slow or
//! away holds up nobody.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bellwether::core::name::MemberId;
use bellwether::scaler::{Load, Policy};
use bellwether::{Bellwether, Error, Leadership, Queue};
use serde_json::json;
use tokio::sync::watch;

use super::super::form::time;
use super::super::lead::system::boot;
use super::super::reach::now;
use super::Teller;
use super::crew::Known;
use super::plan::{Head, HostReport, Plan, newest};

/// What the workers' side is told.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// How many workers this host should have, once somebody said so.
    pub(super) share: Option<u32>,
    pub(super) known: Known,
}

/// What was heard in the last rounds.
#[derive(Debug, Default)]
struct Memory {
    hosts: Vec<HostReport>,
    /// The last plan that was heard of; whoever made it may be gone.
    plan: Option<Plan>,
}

/// The term this member leads under, while it does.
#[derive(Clone, Debug, Default)]
pub(super) struct Office(Arc<Mutex<Option<Leadership>>>);

impl Office {
    /// Leads: holds the office until it is told to leave it.
    pub(super) async fn hold(self, leadership: Leadership) {
        self.set(Some(leadership.clone()));
        leadership.cancelled().await;
        self.set(None);
    }

    fn set(&self, leadership: Option<Leadership>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = leadership;
    }

    fn term(&self) -> Option<u64> {
        let office = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let leadership = office.as_ref()?;
        leadership.ensure().ok().map(|fence| fence.term.0)
    }
}

/// See the module.
pub(super) struct Pulse {
    pub(super) store: Bellwether,
    pub(super) queue: Queue,
    pub(super) election: String,
    pub(super) policy: Policy,
    pub(super) start_ms: u64,
    pub(super) every: Duration,
    pub(super) office: Office,
    pub(super) teller: Teller,
    /// What the host tells of its workers.
    pub(super) host: watch::Receiver<HostReport>,
    pub(super) heard: watch::Sender<Heard>,
}

impl Pulse {
    /// Round after round; never ready.
    pub(super) async fn beat(self) {
        let mut rounds = tokio::time::interval(self.every);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut head, mut told) = (None, Memory::default());
        let mut trouble = String::new();
        loop {
            rounds.tick().await;
            let error = match self.round(&mut head, &mut told).await {
                Ok(()) => String::new(),
                Err(error) => error.to_string(),
            };
            if error != trouble {
                if error.is_empty() {
                    self.teller.tell("recovered", "the store answers again", &[]);
                } else {
                    let sentence = format!("nothing is decided, workers go on: {error}");
                    self.teller.tell("trouble", &sentence, &[("error", json!(error))]);
                }
                trouble = error;
            }
        }
    }

    async fn round(&self, head: &mut Option<Head>, told: &mut Memory) -> Result<(), Error> {
        let load = self.queue.load().await?;
        let known = self.known(&load).await?;
        self.heard.send_modify(|heard| heard.known = known);
        let mut ours = self.host.borrow().clone();
        ours.plan = self.plan(head, told, &ours, &load);
        let text = serde_json::to_string(&ours).unwrap_or_default();
        let heard = self.store.report(&self.election, &text).await?;
        // Whoever has the right may tell something else there.
        told.hosts = heard.iter().filter_map(|r| serde_json::from_str(&r.text).ok()).collect();
        if let Some(plan) = newest(&told.hosts) {
            told.plan = Some(plan.clone());
            // A host that the plan does not know yet has no workers.
            let share = plan.shares.get(&ours.instance).copied().unwrap_or(0);
            self.heard.send_modify(|heard| heard.share = Some(share));
        }
        Ok(())
    }

    /// The leader's plan, if this is the leader and has one.
    fn plan(
        &self,
        head: &mut Option<Head>,
        told: &Memory,
        ours: &HostReport,
        load: &Load,
    ) -> Option<Plan> {
        let Some(term) = self.office.term() else {
            *head = None;
            return None;
        };
        let at = boot();
        if head.as_ref().is_none_or(|head| head.term() != term) {
            let sentence = format!("leading {:?} under term {term}", self.election);
            self.teller.tell("leading", &sentence, &[("term", json!(term))]);
            let every_ms = super::ms(self.every);
            let before = told.plan.as_ref();
            *head = Some(Head::new(at, term, self.policy.clone(), every_ms, self.start_ms, before));
        }
        let head = head.as_mut()?;
        head.hear(at, &told.hosts);
        head.hear(at, std::slice::from_ref(ours));
        let wall = time(now()).as_str().unwrap_or_default().to_owned();
        let (plan, decision) = head.plan(at, wall, load);
        let plan = plan.cloned();
        if let Some(decision) = decision {
            let details = [
                ("from", json!(decision.from)),
                ("wanted", json!(decision.wanted)),
                ("why", json!(decision.why.name())),
                ("ready", json!(load.counts.ready)),
                ("oldest_ms", json!(load.oldest_ms)),
            ];
            self.teller.tell("decided", &decision.to_string(), &details);
        }
        plan
    }

    /// What workers say of themselves, as members of the store.
    async fn known(&self, load: &Load) -> Result<Known, Error> {
        let busy: BTreeSet<MemberId> = load.busy.iter().map(|busy| busy.member).collect();
        let mut known = Known::default();
        for member in self.store.members().await? {
            let words = member.metadata.split_whitespace();
            let Some(worker) = words.filter_map(|word| word.strip_prefix("worker=")).next_back()
            else {
                continue;
            };
            if busy.contains(&member.id) {
                known.busy.insert(worker.to_owned());
            }
            if !member.leases.is_empty() {
                known.lead.insert(worker.to_owned());
            }
            known.here.insert(worker.to_owned());
        }
        Ok(known)
    }
}
