//! A member's part in one election: performs what a candidacy says, and the work of a leader.
//!
//! The work writes to a fenced resource, each write with the term, after asking whether the lease
//! is still trusted.

use bellwether_core::candidacy::{
    Action, Attempt, Candidacy, Config, Event as CandidacyEvent, View, WorkEnd,
};
use bellwether_core::command::{Acquire, Command, HeldSet, LeaseKind};
use bellwether_core::error::LeaseRefusal;
use bellwether_core::error::Refusal;
use bellwether_core::member::digest;
use bellwether_core::name::{LeaseId, LeaseName, Term};
use bellwether_core::outcome::{Beat, Outcome};
use bellwether_core::time::BootTime;

use super::shell::{Heard, Patience, Shell, Timer, Who};
use crate::boundary::lease_name;
use crate::bus::{Bus, Write};
use crate::history::What;
use crate::plan::ElectionPlan;

#[derive(Debug)]
pub(super) struct Elector {
    index: usize,
    pub(super) election: u8,
    plan: ElectionPlan,
    pub(super) candidacy: Candidacy,
    /// The term of the work that runs, and its number among this member's.
    pub(super) work: Option<Term>,
    works: u64,
    /// The member's heartbeats name this lease.
    renews: bool,
    /// A renewal that a heartbeat shall carry, and when it must be answered.
    pub(super) wants_beat: Option<(Attempt, BootTime)>,
    /// When the newest ask or renewal went out.
    sent: (Attempt, BootTime),
    /// When the newest one that was answered went out.
    answered: BootTime,
    id: LeaseId,
    /// Ids of earlier tenures, to be shown on purpose.
    old_ids: Vec<LeaseId>,
    /// It takes part no more.
    pub(super) is_closed: bool,
}

impl Elector {
    pub(super) fn new(shell: &mut Shell, index: usize, election: u8, plan: ElectionPlan) -> Self {
        let config = Config {
            member: shell.id,
            ttl_ms: plan.ttl_ms,
            wait_ms: plan.wait_ms,
            retry_ms: (plan.ttl_ms / 2).max(50),
            stop_ms: plan.stop_ms,
            renew_ms: 0,
            stall_ms: 0,
            once: false,
        };
        Self {
            index,
            election,
            plan,
            candidacy: Candidacy::new(config, shell.dice.bits()),
            work: None,
            works: 0,
            renews: false,
            wants_beat: None,
            sent: (Attempt(0), BootTime(0)),
            answered: BootTime(0),
            id: LeaseId(0),
            old_ids: Vec::new(),
            is_closed: false,
        }
    }

    /// What the member's heartbeat says of this election.
    pub(super) fn held(&self) -> Option<(LeaseName, Term)> {
        self.candidacy.term().filter(|_| self.renews).map(|term| (lease_name(self.election), term))
    }

    pub(super) fn start(&mut self, shell: &mut Shell, bus: &mut Bus) {
        self.step(shell, bus, CandidacyEvent::Start);
    }

    pub(super) fn shut_down(&mut self, shell: &mut Shell, bus: &mut Bus) {
        self.step(shell, bus, CandidacyEvent::Shutdown);
    }

    pub(super) fn wake(&mut self, shell: &mut Shell, bus: &mut Bus) {
        if self.candidacy.next_wake().is_some_and(|at| at <= shell.now) {
            self.step(shell, bus, CandidacyEvent::Wake);
        }
    }

    fn step(&mut self, shell: &mut Shell, bus: &mut Bus, event: CandidacyEvent) {
        for action in self.candidacy.step(shell.now, event) {
            match action {
                Action::Acquire { attempt, id, wait_ms } => {
                    self.acquire(shell, bus, attempt, id, wait_ms);
                }
                Action::Renew { attempt, deadline, .. } => {
                    self.sent = (attempt, shell.now);
                    self.renew(shell, bus, attempt, deadline);
                }
                Action::StartWork { term } => {
                    self.work = Some(term);
                    self.works += 1;
                    self.renews = true;
                    bus.stats.terms += 1;
                    shell.after(0, Timer::Work(self.index));
                    if !bus.healed && shell.dice.percent(30) {
                        let ms = shell.dice.around(3 * self.plan.ttl_ms);
                        shell.after(ms, Timer::WorkEnds(self.index, self.works));
                    }
                }
                Action::CancelWork { .. } => {
                    let ms = shell.dice.below(1 + self.plan.stop_ms * 5 / 4);
                    shell.after(ms, Timer::WorkEnds(self.index, self.works));
                }
                Action::AbortWork => {
                    self.renews = false;
                    shell.after(1, Timer::WorkEnds(self.index, self.works));
                }
                Action::Release { id, .. } => self.release(shell, bus, id),
                Action::Announce(view) => {
                    if let View::Following { .. } = view {
                        self.renews = false;
                    }
                    let (member, election) = (shell.member, self.election);
                    bus.note(|| format!("member {member} in election {election}: {view:?}"));
                }
                Action::Closed => self.is_closed = true,
            }
        }
        if let (Some(term), Some(until)) = (self.candidacy.term(), self.candidacy.trusted_until()) {
            bus.record(What::Believes {
                election: self.election,
                member: shell.member,
                term: term.0,
                until_ms: until.0,
                asked_ms: self.answered.0,
                ttl_ms: self.plan.ttl_ms,
            });
        }
    }

    fn acquire(
        &mut self,
        shell: &mut Shell,
        bus: &mut Bus,
        attempt: Attempt,
        id: LeaseId,
        wait_ms: u64,
    ) {
        self.sent = (attempt, shell.now);
        self.id = id;
        let command = Command::Acquire(Acquire {
            lease: lease_name(self.election),
            id,
            kind: LeaseKind::Bound,
            ttl_ms: self.plan.ttl_ms,
            metadata: String::new(),
            wait_ms,
            priority: shell.dice.below(3) as i32,
            slots: 1,
        });
        let patience =
            Patience { resend_ms: self.plan.ttl_ms / 2, give_up_ms: wait_ms + self.plan.ttl_ms };
        shell.ask(
            bus,
            Who::Acquire { elector: self.index, attempt },
            command,
            Vec::new(),
            patience,
        );
    }

    /// Most renewals are heartbeats of the whole member; some name the lease by its id.
    fn renew(&mut self, shell: &mut Shell, bus: &mut Bus, attempt: Attempt, deadline: BootTime) {
        if !attempt.0.is_multiple_of(7) {
            self.wants_beat = Some((attempt, deadline));
            return;
        }
        let give_up_ms = shell.now.ms_until(deadline);
        let patience = Patience { resend_ms: give_up_ms / 2, give_up_ms };
        let command = Command::RenewLease { lease: lease_name(self.election), id: self.id };
        let who = Who::Renew { elector: self.index, attempt };
        shell.ask_unnumbered(bus, who, command, patience);
    }

    fn release(&mut self, shell: &mut Shell, bus: &mut Bus, id: LeaseId) {
        self.renews = false;
        let successor = bus.successor(&mut shell.dice);
        let command = Command::ReleaseLease { lease: lease_name(self.election), id, successor };
        let patience = Patience { resend_ms: self.plan.ttl_ms / 3, give_up_ms: self.plan.ttl_ms };
        shell.ask(bus, Who::Release { elector: self.index }, command, Vec::new(), patience);
    }

    pub(super) fn hear(&mut self, shell: &mut Shell, bus: &mut Bus, who: Who, heard: &Heard) {
        let event = match (who, heard) {
            (Who::Acquire { attempt, .. }, Heard::Yes(reply)) => match reply.outcome {
                Outcome::Granted { term, .. } => {
                    if attempt == self.sent.0 {
                        self.answered = self.sent.1;
                        self.old_ids.push(self.id);
                    }
                    CandidacyEvent::Acquired { attempt, term }
                }
                _ => CandidacyEvent::AcquireUnknown { attempt },
            },
            (Who::Acquire { attempt, .. }, Heard::No(_)) => {
                CandidacyEvent::AcquireRefused { attempt, retry_after_ms: None }
            }
            (Who::Acquire { attempt, .. }, Heard::Unknown) => {
                CandidacyEvent::AcquireUnknown { attempt }
            }
            (Who::Renew { attempt, .. }, Heard::Yes(_)) => self.renewed(attempt),
            (Who::Renew { attempt, .. }, Heard::No(Refusal::Lease(refusal))) => match refusal {
                LeaseRefusal::IdMismatch(_)
                | LeaseRefusal::TermOver { .. }
                | LeaseRefusal::Broken(_)
                | LeaseRefusal::NotPresent(_) => CandidacyEvent::RenewRefused { attempt },
                _ => CandidacyEvent::RenewUnknown { attempt },
            },
            (Who::Renew { attempt, .. } | Who::Beat { attempt, .. }, _) => {
                CandidacyEvent::RenewUnknown { attempt }
            }
            (Who::Release { .. }, Heard::Unknown) => CandidacyEvent::ReleaseUnknown,
            (Who::Release { .. }, _) => CandidacyEvent::Released,
            _ => return,
        };
        self.step(shell, bus, event);
    }

    fn renewed(&mut self, attempt: Attempt) -> CandidacyEvent {
        if attempt == self.sent.0 {
            self.answered = self.answered.max(self.sent.1);
        }
        CandidacyEvent::Renewed { attempt }
    }

    /// The member's heartbeat was answered; `attempt` is the renewal it carried for this election.
    pub(super) fn beaten(
        &mut self,
        shell: &mut Shell,
        bus: &mut Bus,
        attempt: Option<Attempt>,
        beat: &Beat,
    ) {
        let name = lease_name(self.election);
        let term = self.candidacy.term();
        let lost = term.is_some_and(|term| beat.lost.contains(&(name.clone(), term)));
        if let Some(attempt) = attempt {
            let event =
                if lost { CandidacyEvent::RenewRefused { attempt } } else { self.renewed(attempt) };
            self.step(shell, bus, event);
        }
        let asked = beat.step_down.iter().find(|(lease, _)| *lease == name);
        if let Some((_, term)) = asked {
            self.step(shell, bus, CandidacyEvent::StepDownAsked { term: *term, successor: None });
        }
    }

    /// The leader does a piece of work.
    pub(super) fn work(&mut self, shell: &mut Shell, bus: &mut Bus) {
        let Some(term) = self.work else { return };
        if self.candidacy.is_trusted(shell.now) {
            let (election, process) = (self.election, shell.process);
            bus.send_write(Write { election, term: term.0, process });
        }
        let ms = shell.dice.around(self.plan.ttl_ms / 4);
        shell.after(ms.max(20), Timer::Work(self.index));
    }

    pub(super) fn work_ends(&mut self, shell: &mut Shell, bus: &mut Bus, work: u64) {
        if work != self.works || self.work.take().is_none() {
            return;
        }
        let end = if shell.dice.percent(50) { WorkEnd::Finished } else { WorkEnd::Failed };
        self.step(shell, bus, CandidacyEvent::WorkEnded(end));
    }

    /// Shows what was true once, to see that it is refused.
    pub(super) fn ghost(&mut self, shell: &mut Shell, bus: &mut Bus) {
        // The newest id may be held, asked for or about to be: it is not old yet. Who has stopped
        // to work under it may renew it, if its time is not over.
        let late = self.work.is_none() && shell.dice.percent(50);
        let old = self.old_ids.iter().rev().find(|id| late || **id != self.id).copied();
        let Some(id) = old else { return };
        bus.stats.ghosts += 1;
        let lease = lease_name(self.election);
        let command = if id == self.id || shell.dice.percent(50) {
            Command::RenewLease { lease, id }
        } else {
            Command::ReleaseLease { lease, id, successor: None }
        };
        let patience = Patience { resend_ms: 5_000, give_up_ms: 1_000 };
        shell.ask_unnumbered(bus, Who::Nobody, command, patience);
    }
}

/// The set of leases a member believes it holds, in full or as a digest.
pub(super) fn held_set(held: Vec<(LeaseName, Term)>, in_full: bool) -> HeldSet {
    if in_full {
        return HeldSet::List(held);
    }
    let sum = digest(held.iter().map(|(name, term)| (name, *term)));
    HeldSet::Same { count: held.len() as u32, digest: sum }
}
