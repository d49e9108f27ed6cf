//! Who is here: whoever was heard lately.

use std::collections::BTreeMap;

use super::{Claim, FleetId};
use crate::limits;
use crate::time::BootTime;

/// The others, as far as they were heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Roster {
    silence_ms: u64,
    members: BTreeMap<FleetId, Heard>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard {
    life: u64,
    at: BootTime,
    claim: Claim,
}

impl Roster {
    pub(super) fn new(silence_ms: u64) -> Self {
        Self { silence_ms, members: BTreeMap::new() }
    }

    /// A member said something. One of another life claims nothing yet. False if there is no
    /// room for it.
    pub(super) fn heard(&mut self, now: BootTime, from: FleetId, life: u64) -> bool {
        let full = self.members.len() >= limits::FLEET_MEMBERS_MAX;
        if full && !self.members.contains_key(&from) {
            return false;
        }
        let new = Heard { life, at: now, claim: Claim::None };
        let heard = self.members.entry(from).or_insert(new);
        // What was claimed before a silence was forgotten by it.
        if heard.life != life || now >= heard.at.plus_ms(self.silence_ms) {
            *heard = new;
        }
        heard.at = now;
        true
    }

    /// What a member claims, as it or another one says; of one that is not known, nothing.
    pub(super) fn note(&mut self, of: FleetId, claim: Claim) {
        if let Some(heard) = self.members.get_mut(&of) {
            heard.claim = claim;
        }
    }

    pub(super) fn remove(&mut self, id: FleetId, life: u64) {
        if self.members.get(&id).is_some_and(|heard| heard.life == life) {
            self.members.remove(&id);
        }
    }

    /// Forgets who has been silent for long.
    pub(super) fn forget(&mut self, now: BootTime) {
        self.members.retain(|_, heard| now < heard.at.plus_ms(limits::MEMBER_MEMORY_MS));
    }

    pub(super) fn known(&self) -> impl Iterator<Item = FleetId> {
        self.members.keys().copied()
    }

    pub(super) fn present(&self, now: BootTime) -> impl Iterator<Item = FleetId> {
        self.here(now).map(|(id, _)| *id)
    }

    /// Who is here and says that it leads.
    pub(super) fn leading(&self, now: BootTime) -> impl Iterator<Item = (FleetId, u64)> {
        self.here(now).filter_map(|(id, heard)| match heard.claim {
            Claim::Leading(reign) => Some((*id, reign)),
            Claim::None | Claim::Asking => None,
        })
    }

    /// When the next one falls silent.
    pub(super) fn next_lapse(&self, now: BootTime) -> BootTime {
        let lapses = self.here(now).map(|(_, heard)| heard.at.plus_ms(self.silence_ms));
        lapses.min().unwrap_or(BootTime::NEVER)
    }

    fn here(&self, now: BootTime) -> impl Iterator<Item = (&FleetId, &Heard)> {
        let silence_ms = self.silence_ms;
        self.members.iter().filter(move |(_, heard)| now < heard.at.plus_ms(silence_ms))
    }
}
