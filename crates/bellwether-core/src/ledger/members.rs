//! Members: joining, heartbeats, leaving.
//!
//! A heartbeat renews every lease its member holds by moving one time on, `beaten_at`; the leases
//! themselves are not touched. It counts only for the set both sides agree on.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::{Change, KeptOutcome};
use crate::command::{HeldSet, LeaseKind, Loss};
use crate::error::Refusal;
use crate::limits;
use crate::name::{LeaseId, LeaseName, MemberId, MemberSlot, RequestNumber, Term, Ticket};
use crate::outcome::{Beat, EndedBy, MemberHealth, MemberInfo, Outcome};
use crate::time::{BootTime, Now, WallTime};

use super::renewing::Renewing;
use super::{Effects, Ledger, Timer, Waits, refuse};

/// One member.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: MemberId,
    pub(super) metadata: String,
    pub(super) ttl_ms: u64,
    pub(super) joined_at: WallTime,
    /// When it was last heard of.
    pub(super) seen_at: BootTime,
    /// When its last heartbeat renewed what it holds.
    pub(super) beaten_at: BootTime,
    /// When its presence ended.
    pub(super) gone_at: Option<BootTime>,
    /// It went by its own word; in memory only, like the connection on which it said so.
    pub(super) said_goodbye: bool,
    /// Leases that name it, with the slot, whether or not its heartbeats renew them.
    pub(super) holds: BTreeSet<(LeaseName, u32)>,
    /// Leases its heartbeats renew: those both sides agree on.
    pub(super) renewing: Renewing,
    /// When its timer for these fires.
    pub(super) beat_armed: Option<BootTime>,
    /// Of these, those somebody asked it to step down from.
    pub(super) step_down: BTreeSet<(LeaseName, Term)>,
    pub(super) kept: BTreeMap<RequestNumber, KeptOutcome>,
    /// It has heard the answers of all requests below this one.
    pub(super) heard_below: RequestNumber,
    pub(super) waits: BTreeSet<Ticket>,
    pub(super) waiting_numbers: BTreeMap<RequestNumber, Ticket>,
}

impl Member {
    pub(super) fn keep(
        &mut self,
        number: RequestNumber,
        answered_below: RequestNumber,
        outcome: KeptOutcome,
    ) {
        self.heard_below = self.heard_below.max(answered_below);
        while self.kept.first_key_value().is_some_and(|(first, _)| *first < self.heard_below) {
            self.kept.pop_first();
        }
        if number >= self.heard_below {
            self.kept.insert(number, outcome);
        }
    }

    pub(super) fn is_present(&self, now: Now) -> bool {
        self.gone_at.is_none() && self.seen_at.plus_ms(self.ttl_ms) > now.boot
    }
}

impl Ledger {
    pub(super) fn join(
        &mut self,
        now: Now,
        id: MemberId,
        metadata: &str,
        ttl_ms: u64,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        if metadata.len() > limits::METADATA_BYTES_MAX {
            return Err(Refusal::TooLarge {
                what: "a member's metadata",
                bytes: metadata.len() as u64,
                bytes_max: limits::METADATA_BYTES_MAX as u64,
            });
        }
        if ttl_ms < limits::LEASE_MS_MIN {
            let why = format!("{ttl_ms} is less than {} ms", limits::LEASE_MS_MIN);
            return Err(Refusal::InvalidValue { what: "ttl_ms", why });
        }
        if let Some(slot) = self.member_ids.get(&id).copied() {
            let member = self.members.get_mut(&slot).ok_or(Refusal::MemberGone)?;
            if member.gone_at.is_some() {
                return Err(Refusal::MemberGone);
            }
            member.seen_at = now.boot;
            return Ok(Outcome::Joined(slot));
        }
        let slot = MemberSlot(self.last_member.0 + 1);
        let (metadata, joined_at) = (metadata.to_owned(), now.wall);
        self.emit(now, Change::Member { slot, id, metadata, ttl_ms, joined_at }, fx);
        Ok(Outcome::Joined(slot))
    }

    pub(super) fn set_member(
        &mut self,
        now: Now,
        slot: MemberSlot,
        id: MemberId,
        metadata: &str,
        ttl_ms: u64,
        joined_at: WallTime,
    ) {
        self.last_member = self.last_member.max(slot);
        self.member_ids.insert(id, slot);
        self.members.entry(slot).or_insert_with(|| Member {
            id,
            metadata: metadata.to_owned(),
            ttl_ms,
            joined_at,
            seen_at: now.boot,
            beaten_at: now.boot,
            gone_at: None,
            said_goodbye: false,
            holds: BTreeSet::new(),
            renewing: Renewing::default(),
            beat_armed: None,
            step_down: BTreeSet::new(),
            kept: BTreeMap::new(),
            heard_below: RequestNumber(0),
            waits: BTreeSet::new(),
            waiting_numbers: BTreeMap::new(),
        });
        if self.live && ttl_ms != limits::LEASE_MS_INFINITE {
            self.timers.boot.insert((now.boot.plus_ms(ttl_ms), Timer::Member(slot)));
        }
    }

    pub(super) fn set_member_gone(&mut self, now: Now, slot: MemberSlot, forgotten: bool) {
        self.last_member = self.last_member.max(slot);
        // Its last heartbeat still counts: its leases end when they would have (E3).
        self.agree(now, slot, &BTreeSet::new());
        let Some(member) = self.members.get_mut(&slot) else { return };
        member.gone_at.get_or_insert(now.boot);
        let id = member.id;
        if forgotten {
            self.member_ids.remove(&id);
            self.members.remove(&slot);
        } else if self.live {
            let at = now.boot.plus_ms(limits::MEMBER_MEMORY_MS);
            self.timers.boot.insert((at, Timer::Member(slot)));
        }
    }

    pub(super) fn heartbeat(
        &mut self,
        now: Now,
        slot: MemberSlot,
        held: &HeldSet,
    ) -> Result<Outcome, Refusal> {
        if !self.members.contains_key(&slot) {
            return Err(Refusal::MemberGone);
        }
        self.drop_ended(now, slot);
        let mut beat = Beat::default();
        match held {
            HeldSet::Same { count, digest: shown } => {
                let renewing = &self.members[&slot].renewing;
                beat.resync = renewing.len() != *count as usize || renewing.digest() != *shown;
            }
            HeldSet::List(list) => {
                let mut agreed = BTreeSet::new();
                for (name, term) in list {
                    if self.is_held(now, name, *term, slot) {
                        agreed.insert((name.clone(), *term));
                    } else {
                        beat.lost.push((name.clone(), *term));
                    }
                }
                self.agree(now, slot, &agreed);
            }
        }
        let member = self.members.get_mut(&slot).ok_or(Refusal::MemberGone)?;
        if !beat.resync {
            member.beaten_at = now.boot;
            member.renewing.beaten(now.boot);
        }
        beat.step_down = member.step_down.iter().cloned().collect();
        Ok(Outcome::Beat(beat))
    }

    /// Leases that ended before this heartbeat are not brought back by it.
    fn drop_ended(&mut self, now: Now, slot: MemberSlot) {
        let renewing = &self.members[&slot].renewing;
        if renewing.first_end().is_none_or(|at| at > now.boot) {
            return;
        }
        let ended: Vec<(LeaseName, Term)> = renewing
            .iter()
            .filter(|(name, term)| !self.is_held(now, name, *term, slot))
            .map(|(name, term)| (name.clone(), term))
            .collect();
        for (name, term) in ended {
            // What is left to be told of its end is told when its timer fires.
            self.arm_alone(now, &name, term);
            self.stop_renewing(slot, &name, term);
        }
    }

    /// The member's heartbeats do not renew this one any more.
    pub(super) fn stop_renewing(&mut self, slot: MemberSlot, name: &LeaseName, term: Term) {
        if let Some(member) = self.members.get_mut(&slot) {
            member.renewing.remove(name, term);
            member.step_down.remove(&(name.clone(), term));
        }
    }

    /// From here on the member's heartbeats renew these. What it no longer names keeps the time
    /// of its last renewal and runs out by itself.
    fn agree(&mut self, now: Now, slot: MemberSlot, agreed: &BTreeSet<(LeaseName, Term)>) {
        let Some(member) = self.members.get(&slot) else { return };
        let beaten_at = member.beaten_at;
        let renewing = member.renewing.iter().map(|(name, term)| (name.clone(), term));
        let dropped: Vec<_> = renewing.filter(|held| !agreed.contains(held)).collect();
        for (name, term) in dropped {
            self.stop_renewing(slot, &name, term);
            if let Some(entry) = self.lease_names.get(&name).and_then(|i| self.leases.get_mut(i)) {
                entry.renewed_until_now(slot, term, beaten_at);
            }
            self.arm_alone(now, &name, term);
        }
        let Some(member) = self.members.get_mut(&slot) else { return };
        member.step_down.clear();
        for (name, term) in agreed {
            let entry = self.lease_names.get(name).and_then(|index| self.leases.get(index));
            let Some(lease) = entry.and_then(|entry| entry.under(*term)) else { continue };
            if !member.renewing.contains(name, *term) {
                member.renewing.insert(name, lease, beaten_at);
            }
            if lease.step_down_asked {
                member.step_down.insert((name.clone(), *term));
            }
        }
    }

    /// The member goes, by its own word or by a proof of its death.
    pub(super) fn leave(
        &mut self,
        now: Now,
        slot: MemberSlot,
        by: EndedBy,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        // A goodbye is the holder's own word: its leases are free at once.
        if let Some(member) = self.members.get_mut(&slot) {
            member.said_goodbye = true;
        }
        self.end_and_release(now, slot, by, fx)
    }

    /// Somebody saw that the member has gone without a goodbye.
    pub(super) fn lost(
        &mut self,
        now: Now,
        slot: MemberSlot,
        how: Loss,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        match how {
            // The work has ended with the process that did it: as good as a goodbye.
            Loss::Died => {
                // Who says goodbye may have passed its deliveries on: their tokens are numbers.
                let is_here = |member: &Member| !member.said_goodbye;
                if self.members.get(&slot).is_some_and(is_here)
                    && !cfg!(planted_bug = "dead_keep_locks")
                {
                    self.end_locks(now, slot);
                }
                self.end_and_release(now, slot, EndedBy::Died, fx)
            }
            // The member may be here and come back: what is not free by its own wish stays.
            Loss::Disconnected if !self.members.contains_key(&slot) => Err(Refusal::MemberGone),
            Loss::Disconnected => {
                let mut held = self.held_by(now, slot);
                held.retain(|(name, nth, _)| {
                    let lease = self.slot_at(now, name, *nth).lease;
                    lease.is_some_and(|lease| lease.kind == LeaseKind::Connected)
                });
                self.release_all(now, &held, EndedBy::Disconnected, fx);
                Ok(Outcome::Done)
            }
        }
    }

    fn end_and_release(
        &mut self,
        now: Now,
        slot: MemberSlot,
        by: EndedBy,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let member = self.members.get(&slot).ok_or(Refusal::MemberGone)?;
        let is_gone = member.gone_at.is_some();
        let held = self.held_by(now, slot);
        // First it is gone, then its leases are free: it must not be granted one it waited for.
        if !is_gone {
            self.end_presence(now, slot, fx);
        }
        self.release_all(now, &held, by, fx);
        Ok(Outcome::Done)
    }

    fn release_all(
        &mut self,
        now: Now,
        held: &[(LeaseName, u32, LeaseId)],
        by: EndedBy,
        fx: &mut Effects,
    ) {
        for (lease, _, id) in held {
            // Held a moment ago, by this member: a refusal could only say that it is free already.
            let _ = self.release_lease(now, lease, *id, None, by, fx);
        }
    }

    fn end_presence(&mut self, now: Now, slot: MemberSlot, fx: &mut Effects) {
        let waits: Vec<Ticket> = self.members[&slot].waits.iter().copied().collect();
        for ticket in waits {
            self.withdraw(ticket);
            refuse(ticket, Refusal::MemberGone, fx);
        }
        self.emit(now, Change::MemberGone { slot, forgotten: false }, fx);
    }

    /// A member's timer fired: it was silent too long, or is remembered long enough.
    pub(super) fn member_fired(
        &mut self,
        now: Now,
        due: BootTime,
        slot: MemberSlot,
        fx: &mut Effects,
    ) {
        let Some(member) = self.members.get(&slot) else { return };
        if let Some(gone_at) = member.gone_at {
            if gone_at.plus_ms(limits::MEMBER_MEMORY_MS) <= due {
                self.emit(now, Change::MemberGone { slot, forgotten: true }, fx);
            }
            return;
        }
        let until = member.seen_at.plus_ms(member.ttl_ms);
        if until > due {
            self.timers.boot.insert((until, Timer::Member(slot)));
        } else {
            self.end_presence(now, slot, fx);
        }
    }

    /// Who has this slot, as long as it is remembered.
    pub fn member_id(&self, slot: MemberSlot) -> Option<MemberId> {
        self.members.get(&slot).map(|member| member.id)
    }

    pub(super) fn list_members(&self, now: Now) -> Outcome {
        let present = self.members.iter().filter(|(_, member)| member.gone_at.is_none());
        Outcome::Members(
            present.map(|(slot, member)| self.member_info(now, *slot, member)).collect(),
        )
    }

    fn member_info(&self, now: Now, slot: MemberSlot, member: &Member) -> MemberInfo {
        MemberInfo {
            id: member.id,
            slot,
            metadata: member.metadata.clone(),
            joined_at: member.joined_at,
            leases: self.leases_of(now, slot),
        }
    }

    /// Members by id, with what shows how they are.
    pub(super) fn member_health(&self, now: Now, after: Option<MemberId>, max: u32) -> Outcome {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        let members = self.member_ids.range((from, Unbounded));
        let present = members
            .filter_map(|(_, slot)| Some((*slot, self.members.get(slot)?)))
            .filter(|(_, member)| member.gone_at.is_none());
        let health = present.take(max as usize).map(|(slot, member)| {
            let lines = member.waits.iter().filter_map(|ticket| match self.waiting.get(ticket) {
                Some(Waits::Lease(index)) => self.leases.get(index),
                _ => None,
            });
            let waits_for: BTreeSet<&LeaseName> = lines.map(|entry| &entry.name).collect();
            MemberHealth {
                info: self.member_info(now, slot, member),
                ttl_ms: member.ttl_ms,
                silent_ms: member.seen_at.ms_until(now.boot),
                waits_for: waits_for.into_iter().cloned().collect(),
            }
        });
        Outcome::MemberHealth(health.collect())
    }
}
