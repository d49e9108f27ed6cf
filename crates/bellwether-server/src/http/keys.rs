//! `Idempotency-Key`: the same request again gets the first outcome.
//!
//! ```text
//!   key ──► hash of (principal, key) = the id of a member of its own ──► Join, once
//!   request ──► that member's request number 1 ──► the ledger keeps its outcome, journaled
//!   the same key again ──► the same member, number 1 ──► the first outcome, after a restart too
//! ```
//!
//! 1. What a key stands for is written into its member's metadata as a fingerprint of the request,
//!    so that a key that is used for something else is refused, after a restart too.
//! 2. A member of a key is present for [`KEY_MS`] after its last use. The ledger remembers it for
//!    as long again, so an outcome is told again for at least [`KEY_MS`].
//! 3. So many keys are remembered at the same time, and no more: each costs memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bellwether::core::limits;
use bellwether::core::name::MemberSlot;
use bellwether::core::outcome::Outcome;
use bellwether::{Error, MemberId, Refusal};
use bellwether_core::time::BootTime;
use siphasher::sip128::SipHasher13;
use tokio::sync::OnceCell;

use super::problem::{Kind, Problem, Told};
use super::state::{State, unexpected};

/// How long a key is remembered after its last use, at least.
pub(crate) const KEY_MS: u64 = 10 * 60 * 1000;
/// So many at the same time: about half a kilobyte each.
const KEYS_MAX: usize = 100_000;
/// How a key's member names itself.
const METADATA: &str = "idempotency-key ";
/// A key whose member is gone but not forgotten gets the next id, and so on.
const LIVES_MAX: u128 = 4;

/// Keys are told apart by these hashes in every life of a store, so their own key is fixed.
const HASH_KEY: (u64, u64) = (0x6265_6c6c_7765_7468, 0x6572_2d68_7474_7030);

/// 128 bits of these parts, each with its length.
pub(crate) fn hash(parts: &[&[u8]]) -> u128 {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    SipHasher13::new_with_keys(HASH_KEY.0, HASH_KEY.1).hash(&bytes).as_u128()
}

/// The ids a key may have, the first one first.
fn lives(key: u128) -> impl Iterator<Item = u128> {
    (0..LIVES_MAX).map(move |life| key.wrapping_add(life))
}

/// A request that carries a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyed {
    /// Which key, of which principal.
    pub(crate) key: u128,
    /// What is asked.
    pub(crate) fingerprint: u128,
}

/// The keys that are remembered.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// What an earlier life of the store left behind was read.
    is_loaded: OnceCell<()>,
    known: Mutex<BTreeMap<u128, Known>>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    member: MemberSlot,
    fingerprint: u128,
    until: BootTime,
}

/// Whether a member is a key's and no process.
pub(crate) fn is_key(metadata: &str) -> bool {
    metadata.starts_with(METADATA)
}

impl Keys {
    /// The member of a key, which is there from now on.
    pub(crate) async fn member(&self, state: &State, keyed: Keyed) -> Told<MemberSlot> {
        self.is_loaded.get_or_try_init(|| self.load(state)).await?;
        let now = state.now().boot;
        if let Some(member) = self.find(keyed, now)? {
            return Ok(member);
        }
        if !self.has_room(now) {
            let detail = format!(
                "{KEYS_MAX} keys are remembered, the limit; send without one, or wait until some \
                 are forgotten, {KEY_MS} ms after their last use"
            );
            let problem = Problem::new(Kind::TooManyKeys, detail);
            return Err(problem.limit(KEYS_MAX as u64).retry_after(KEY_MS / 10));
        }
        let member = join(state, keyed).await?;
        self.add(keyed, member, now)
    }

    /// The member of a key is gone: the key is as new.
    pub(crate) fn forget(&self, keyed: Keyed) {
        let mut known = self.lock();
        for key in lives(keyed.key) {
            known.remove(&key);
        }
    }

    async fn load(&self, state: &State) -> Told<()> {
        let now = state.now().boot;
        for member in state.members().await? {
            let Some(text) = member.metadata.strip_prefix(METADATA) else { continue };
            let Ok(fingerprint) = u128::from_str_radix(text, 16) else { continue };
            let known = Known { member: member.slot, fingerprint, until: now.plus_ms(2 * KEY_MS) };
            self.lock().insert(member.id.0, known);
        }
        Ok(())
    }

    fn find(&self, keyed: Keyed, now: BootTime) -> Told<Option<MemberSlot>> {
        let mut known = self.lock();
        // A later life of a key has a later id; after a restart only that one is known.
        let Some(key) = lives(keyed.key).find(|key| known.contains_key(key)) else {
            return Ok(None);
        };
        let Some(found) = known.get_mut(&key) else { return Ok(None) };
        if found.fingerprint != keyed.fingerprint {
            return Err(reused());
        }
        found.until = now.plus_ms(2 * KEY_MS);
        Ok(Some(found.member))
    }

    fn has_room(&self, now: BootTime) -> bool {
        let mut known = self.lock();
        if known.len() >= KEYS_MAX {
            known.retain(|_, key| key.until > now);
        }
        known.len() < KEYS_MAX
    }

    fn add(&self, keyed: Keyed, member: MemberSlot, now: BootTime) -> Told<MemberSlot> {
        let until = now.plus_ms(2 * KEY_MS);
        let mut known = self.lock();
        let Keyed { key, fingerprint } = keyed;
        // Somebody else may have come first, under the same key.
        let entry = known.entry(key).or_insert(Known { member, fingerprint, until });
        if entry.fingerprint == fingerprint { Ok(entry.member) } else { Err(reused()) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u128, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn join(state: &State, keyed: Keyed) -> Told<MemberSlot> {
    for id in lives(keyed.key) {
        let metadata = format!("{METADATA}{:032x}", keyed.fingerprint);
        match state.join(MemberId(id), &metadata, KEY_MS).await {
            Ok(reply) => match reply.outcome {
                Outcome::Joined(member) => return Ok(member),
                other => unexpected(&other),
            },
            Err(Error::Refused(Refusal::MemberGone)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let detail = "this key was used and forgotten several times in a short while; use a new one";
    Err(Problem::new(Kind::KeyReused, detail).retry_after(limits::MEMBER_MEMORY_MS))
}

fn reused() -> Box<Problem> {
    let detail = "this Idempotency-Key was used for another request (method, path, query, headers \
                  and body count); nothing was changed; use a new key for a new request";
    Problem::new(Kind::KeyReused, detail)
}
