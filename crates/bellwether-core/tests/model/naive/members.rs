//! Members, and outcomes kept for them.

use bellwether_core::command::{Command, HeldSet, Loss, Receive, Request};
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::member::digest;
use bellwether_core::name::{LeaseName, LockToken, MemberId, MemberSlot, Part, Term};
use bellwether_core::outcome::{Beat, LeaseState, MemberHealth, MemberInfo, Outcome};
use bellwether_core::time::{BootTime, WallTime};

use super::leases::Lease;
use super::{ForWhat, Naive};

pub struct Member {
    pub slot: u32,
    pub id: MemberId,
    pub metadata: String,
    pub ttl_ms: u64,
    pub joined_at: WallTime,
    pub seen_at: BootTime,
    pub gone_at: Option<BootTime>,
    pub forgotten: bool,
    /// The leases both sides agree it holds; some may have ended since.
    pub agreed: Vec<(LeaseName, Term)>,
    pub kept: Vec<(u64, Kept)>,
    /// It has heard the answers of all requests below this one.
    pub heard_below: u64,
}

#[derive(Clone)]
pub enum Kept {
    Plain(Outcome),
    Deliveries { queue: u32, dead: bool, tokens: Vec<LockToken> },
}

impl Member {
    /// When its presence ends or, if it has ended, when it is forgotten.
    pub fn ends_at(&self) -> BootTime {
        match self.gone_at {
            _ if self.forgotten => BootTime::NEVER,
            Some(at) => at.plus_ms(limits::MEMBER_MEMORY_MS),
            None => self.seen_at.plus_ms(self.ttl_ms),
        }
    }
}

impl Naive {
    pub fn member(&self, slot: u32) -> Option<&Member> {
        self.members.iter().find(|member| member.slot == slot && !member.forgotten)
    }

    pub fn member_mut(&mut self, slot: u32) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.slot == slot && !member.forgotten)
    }

    pub fn is_present(&self, slot: u32) -> bool {
        self.member(slot).is_some_and(|member| {
            member.gone_at.is_none() && member.seen_at.plus_ms(member.ttl_ms) > self.now.boot
        })
    }

    /// What was answered to this request before.
    pub fn recall(&mut self, request: &Request) -> Result<Option<Outcome>, Refusal> {
        let (slot, number) = (request.member.0, request.number.0);
        if slot == 0 || matches!(request.command, Command::Lost { .. }) {
            return Ok(None);
        }
        let now = self.now.boot;
        let member = self.member_mut(slot).ok_or(Refusal::MemberGone)?;
        let kept = member.kept.iter().find(|(n, _)| *n == number).map(|(_, kept)| kept.clone());
        if member.gone_at.is_some() && kept.is_none() {
            return Err(Refusal::MemberGone);
        }
        member.seen_at = now;
        if number == 0 {
            return Ok(None);
        }
        if let Some(kept) = kept {
            return Ok(Some(self.answered(&kept)));
        }
        if number < self.member(slot).unwrap().heard_below {
            return Err(Refusal::InvalidValue { what: "request number", why: String::new() });
        }
        // Asked again while the first one waits: the first one waits no more.
        let first = self.waits.iter().find(|wait| wait.member == slot && wait.number == number);
        if let Some(ticket) = first.map(|wait| wait.ticket) {
            self.wait_ends(ticket);
        }
        Ok(None)
    }

    pub fn answered(&self, kept: &Kept) -> Outcome {
        match kept {
            Kept::Plain(Outcome::Session(Some(hold))) => {
                let stands = (0..self.queues.len()).any(|q| self.held(q, &hold.token).is_ok());
                Outcome::Session(stands.then(|| hold.clone()))
            }
            Kept::Plain(outcome) => outcome.clone(),
            Kept::Deliveries { queue, dead, tokens } => {
                let still = tokens.iter().filter_map(|token| {
                    let q = self.queue_by_id(*queue)?;
                    let m = self.locked(q, *dead, *token).ok()?;
                    Some(super::receive::view(&self.queues[q].messages[m]))
                });
                Outcome::Received(still.collect())
            }
        }
    }

    /// Keeps what tells of a change that must not be made twice. A grant is not kept: whoever asks
    /// for a lease again must hear whether it holds it now.
    pub fn keep(
        &mut self,
        slot: u32,
        number: u64,
        answered_below: u64,
        command: &Command,
        outcome: &Outcome,
    ) {
        if slot == 0 || number == 0 {
            return;
        }
        let kept = match outcome {
            Outcome::Done
            | Outcome::QueueCreated { .. }
            | Outcome::Sent(_)
            | Outcome::Count(_)
            | Outcome::Settled { .. }
            | Outcome::Session(Some(_))
            | Outcome::JobCreated { .. }
            | Outcome::Dispatched { .. }
            | Outcome::ScheduleCreated { .. }
            | Outcome::Breaking { .. } => Kept::Plain(outcome.clone()),
            Outcome::Queue(_) if matches!(command, Command::UpdateQueue { .. }) => {
                Kept::Plain(outcome.clone())
            }
            Outcome::Received(views) => {
                let tokens: Vec<LockToken> =
                    views.iter().filter_map(bellwether_core::message::MessageView::token).collect();
                let (Command::Receive(Receive { from, .. })
                | Command::ReceiveDeferred { from, .. }) = command
                else {
                    return;
                };
                if tokens.is_empty() {
                    return;
                }
                let queue = self.queues[self.queue_named(&from.queue).unwrap()].id;
                Kept::Deliveries { queue, dead: from.part == Part::Dead, tokens }
            }
            _ => return,
        };
        let Some(member) = self.member_mut(slot) else { return };
        member.heard_below = member.heard_below.max(answered_below);
        let heard_below = member.heard_below;
        member.kept.retain(|(n, _)| *n >= heard_below);
        if number >= heard_below {
            member.kept.push((number, kept));
        }
    }

    pub fn join(&mut self, id: MemberId, metadata: &str, ttl_ms: u64) -> Result<Outcome, Refusal> {
        if ttl_ms < limits::LEASE_MS_MIN {
            return Err(Refusal::InvalidValue { what: "ttl_ms", why: String::new() });
        }
        let now = self.now;
        let known = self.members.iter_mut().find(|member| member.id == id && !member.forgotten);
        if let Some(member) = known {
            if member.gone_at.is_some() {
                return Err(Refusal::MemberGone);
            }
            member.seen_at = now.boot;
            return Ok(Outcome::Joined(MemberSlot(member.slot)));
        }
        self.members_ever += 1;
        self.members.push(Member {
            slot: self.members_ever,
            id,
            metadata: metadata.to_owned(),
            ttl_ms,
            joined_at: now.wall,
            seen_at: now.boot,
            gone_at: None,
            forgotten: false,
            agreed: Vec::new(),
            kept: Vec::new(),
            heard_below: 0,
        });
        Ok(Outcome::Joined(MemberSlot(self.members_ever)))
    }

    /// Whether a member holds a lease under a term right now.
    fn holds(&self, slot: u32, name: &LeaseName, term: Term) -> bool {
        self.leases.iter().any(|lease| {
            lease.name == *name
                && lease.term == term
                && lease.member == slot
                && lease.state(self.now) == LeaseState::Leased
        })
    }

    /// What ended, or passed to another member, is not agreed on any more, even if the same term
    /// should come back.
    pub fn forget_ended_agreements(&mut self) {
        for index in 0..self.members.len() {
            let slot = self.members[index].slot;
            let mut agreed = std::mem::take(&mut self.members[index].agreed);
            agreed.retain(|(name, term)| self.holds(slot, name, *term));
            self.members[index].agreed = agreed;
        }
    }

    /// A heartbeat renews exactly the leases both sides agree on, if they agree.
    pub fn heartbeat(&mut self, slot: u32, held: &HeldSet) -> Outcome {
        self.forget_ended_agreements();
        let mut agreed = self.member(slot).unwrap().agreed.clone();
        let mut beat = Beat::default();
        match held {
            HeldSet::Same { count, digest: shown } => {
                let known = digest(agreed.iter().map(|(name, term)| (name, *term)));
                beat.resync = agreed.len() != *count as usize || known != *shown;
            }
            HeldSet::List(list) => {
                agreed.clear();
                for (name, term) in list {
                    if !self.holds(slot, name, *term) {
                        beat.lost.push((name.clone(), *term));
                    } else if !agreed.contains(&(name.clone(), *term)) {
                        agreed.push((name.clone(), *term));
                    }
                }
            }
        }
        agreed.sort();
        for (name, term) in &agreed {
            let mut slots = self.leases.iter_mut().filter(|lease| lease.name == *name);
            let lease = slots.find(|lease| lease.term == *term).unwrap();
            if !beat.resync {
                lease.beaten(self.now.boot);
            }
            if lease.step_down_asked {
                beat.step_down.push((name.clone(), *term));
            }
        }
        self.member_mut(slot).unwrap().agreed = agreed;
        Outcome::Beat(beat)
    }

    /// A goodbye: its waits are over, and its leases are free at once.
    pub fn leave(&mut self, slot: u32) -> Outcome {
        self.presence_ends(slot);
        self.release_those(slot, Lease::is_bound);
        Outcome::Done
    }

    /// Its process has ended, or its last connection.
    pub fn lost(&mut self, slot: u32, how: Loss) -> Result<Outcome, Refusal> {
        let member = self.member(slot).ok_or(Refusal::MemberGone)?;
        match how {
            Loss::Died => {
                if member.gone_at.is_none() {
                    self.presence_ends(slot);
                }
                self.release_those(slot, Lease::is_bound);
            }
            Loss::Disconnected => self.release_those(slot, Lease::ends_with_connection),
        }
        Ok(Outcome::Done)
    }

    fn release_those(&mut self, slot: u32, which: impl Fn(&Lease) -> bool) {
        let mut held: Vec<_> = self
            .leases
            .iter()
            .filter(|lease| which(lease) && lease.holder(self.now) == Some(slot))
            .map(|lease| (lease.name.clone(), lease.slot, lease.id().unwrap()))
            .collect();
        held.sort();
        for (name, _, id) in held {
            self.release_lease(&name, id, None).unwrap();
        }
    }

    /// Silent for too long, or remembered for long enough.
    pub fn presence_ends(&mut self, slot: u32) {
        let now = self.now.boot;
        let member = self.member_mut(slot).unwrap();
        if member.gone_at.is_some() {
            member.forgotten = true;
            return;
        }
        member.gone_at = Some(now);
        member.agreed.clear();
        let waiting = self.waits.iter().filter(|wait| wait.member == slot);
        let waiting: Vec<_> = waiting.map(|wait| wait.ticket).collect();
        for ticket in waiting {
            self.answer_wait(ticket, Err(Refusal::MemberGone));
        }
    }

    fn present(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|m| m.gone_at.is_none() && !m.forgotten)
    }

    fn member_info(&self, member: &Member) -> MemberInfo {
        let held = self.leases.iter().filter(|l| l.holder(self.now) == Some(member.slot));
        let mut leases: Vec<_> = held.map(|lease| (lease.name.clone(), lease.term)).collect();
        leases.sort();
        MemberInfo {
            id: member.id,
            slot: MemberSlot(member.slot),
            metadata: member.metadata.clone(),
            joined_at: member.joined_at,
            leases,
        }
    }

    pub fn list_members(&self) -> Outcome {
        Outcome::Members(self.present().map(|member| self.member_info(member)).collect())
    }

    pub fn member_health(&self, after: Option<MemberId>, max: u32) -> Outcome {
        let waits_for = |member: &Member| {
            let asks = self.waits.iter().filter(|wait| wait.member == member.slot);
            let mut names: Vec<_> = asks
                .filter_map(|wait| match &wait.for_what {
                    ForWhat::Lease(ask) => Some(ask.lease.clone()),
                    _ => None,
                })
                .collect();
            names.sort();
            names.dedup();
            names
        };
        let mut members: Vec<MemberHealth> = self
            .present()
            .filter(|member| after.is_none_or(|after| member.id > after))
            .map(|member| MemberHealth {
                info: self.member_info(member),
                ttl_ms: member.ttl_ms,
                silent_ms: member.seen_at.ms_until(self.now.boot),
                waits_for: waits_for(member),
            })
            .collect();
        members.sort_by_key(|member| member.info.id);
        members.truncate(max as usize);
        Outcome::MemberHealth(members)
    }

    pub fn restart_members(&mut self) {
        for member in self.members.iter_mut().filter(|member| !member.forgotten) {
            member.seen_at = self.now.boot;
            member.agreed.clear();
            // It lived in the process that has ended.
            let is_over = member.gone_at.is_some() || member.ttl_ms == limits::LEASE_MS_INFINITE;
            member.gone_at = is_over.then_some(self.now.boot);
        }
    }
}
