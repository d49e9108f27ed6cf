//! What every handler has: the store, and what this door remembers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bellwether::core::command::{Command, Request};
use bellwether::core::name::{MemberSlot, RequestNumber};
use bellwether::core::outcome::{MemberInfo, Outcome};
use bellwether::engine::Reply;
use bellwether::{Bellwether, MemberId, Refusal};
use bellwether_core::time::{BootTime, Now};
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::keys::Keys;
use super::observer::Observed;
use super::problem::{Kind, Problem, Told};
use crate::time;

/// So many members' numbers are remembered; beyond, they are looked up anew.
const MEMBERS_MAX: usize = 10_000;

/// How ids of members that joined here begin, so that they are known after a restart, too.
const MARK: u128 = 0x6874_7470;
const MARK_SHIFT: u32 = 96;

/// The id of a member that joins here.
pub(crate) fn marked(id: u128) -> MemberId {
    MemberId((MARK << MARK_SHIFT) | (id & ((1 << MARK_SHIFT) - 1)))
}

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct State(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bellwether: Bellwether,
    keys: Keys,
    members: Mutex<BTreeMap<MemberId, MemberSlot>>,
    observed: Observed,
}

impl State {
    /// A door to this store. Who asks through it without a name of its own asks as the member that
    /// `bellwether` is. `stop` ends all that waits: the observer, streams and long polls.
    pub(crate) fn new(bellwether: Bellwether, stop: CancellationToken) -> Self {
        Self(Arc::new(Inner {
            bellwether,
            keys: Keys::default(),
            members: Mutex::default(),
            observed: Observed::new(stop),
        }))
    }

    pub(crate) fn bellwether(&self) -> &Bellwether {
        &self.0.bellwether
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.0.keys
    }

    pub(crate) fn observed(&self) -> &Observed {
        &self.0.observed
    }

    /// What may wait for long, unless the server stops; then it is dropped, which withdraws it.
    pub(crate) async fn unless_stopped<T>(&self, wait: impl Future<Output = Told<T>>) -> Told<T> {
        tokio::select! {
            biased;
            told = wait => told,
            () = self.0.observed.stopped().cancelled() => {
                let detail = "the server stops; nothing was handed out; ask again when it is back";
                Err(Problem::new(Kind::Closed, detail).retry_after(1000))
            }
        }
    }

    pub(crate) fn now(&self) -> Now {
        self.0.bellwether.clock().now()
    }

    /// The wall-clock time at which a moment on the boot clock will be, as things stand.
    pub(crate) fn wall_at(&self, until: BootTime) -> String {
        let now = self.now();
        time::of_wall(now.wall.plus_ms(now.boot.ms_until(until)))
    }

    /// Asks as the door itself, without a memory of the outcome.
    pub(crate) async fn ask(&self, command: Command) -> Told<Outcome> {
        Ok(self.ask_as(self.0.bellwether.slot(), command, Vec::new()).await?.outcome)
    }

    pub(crate) async fn ask_as(
        &self,
        member: MemberSlot,
        command: Command,
        contents: Vec<Bytes>,
    ) -> Told<Reply> {
        let request = request(member, RequestNumber(0), command);
        Ok(self.0.bellwether.call(request, contents).await?)
    }

    pub(crate) async fn members(&self) -> Told<Vec<MemberInfo>> {
        match self.ask(Command::ListMembers).await? {
            Outcome::Members(members) => Ok(members),
            other => unexpected(&other),
        }
    }

    /// The number under which the ledger knows a member that joined here. Who joined through
    /// another door is kept by that one: nobody speaks for it here.
    pub(crate) async fn slot_of(&self, id: MemberId) -> Told<MemberSlot> {
        if id.0 >> MARK_SHIFT != MARK {
            let why = "this member did not join over HTTP; POST /v1/members makes one that did";
            return Err(Problem::invalid("member", why));
        }
        let known = self.lock_members().get(&id).copied();
        if let Some(slot) = known {
            return Ok(slot);
        }
        let members = self.members().await?;
        let slot = members.iter().find(|member| member.id == id).map(|member| member.slot);
        let slot = slot.ok_or(Refusal::MemberGone)?;
        self.remember(id, slot);
        Ok(slot)
    }

    pub(crate) fn remember(&self, id: MemberId, slot: MemberSlot) {
        let mut members = self.lock_members();
        if members.len() >= MEMBERS_MAX {
            members.clear();
        }
        members.insert(id, slot);
    }

    pub(crate) fn forget(&self, id: MemberId) {
        self.lock_members().remove(&id);
    }

    fn lock_members(&self) -> std::sync::MutexGuard<'_, BTreeMap<MemberId, MemberSlot>> {
        self.0.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn request(member: MemberSlot, number: RequestNumber, command: Command) -> Request {
    Request { member, number, answered_below: RequestNumber(0), command }
}

/// The engine answered a command with another command's outcome: a broken invariant.
pub(crate) fn unexpected(outcome: &Outcome) -> ! {
    unreachable!("an engine answers each command with its own outcome, not {outcome:?}")
}
