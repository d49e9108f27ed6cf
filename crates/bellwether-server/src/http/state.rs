//! What every handler has: the store, and what this door remembers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use bellwether::backup::Backup;
use bellwether::core::command::{Command, Request};
use bellwether::core::name::{MemberSlot, RequestNumber};
use bellwether::core::outcome::{MemberInfo, Outcome};
use bellwether::core::right::{Needs, needs};
use bellwether::engine::Reply;
use bellwether::wire::accept::{Owners, Pass, marked};
use bellwether::{Bellwether, Error, Fence, MemberId, Refusal};
use bellwether_core::time::{BootTime, Now};
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::extract::text_header;
use super::keys::Keys;
use super::observer::Observed;
use super::problem::{Kind, Problem, Told};
use crate::scale::Scales;
use crate::time;

/// So many members' numbers are remembered; beyond, they are looked up anew.
const MEMBERS_MAX: usize = 10_000;

const FENCE_HEADER: &str = "fencing-term";

/// How ids of members that joined here begin, so that they are known after a restart, too.
const MARK: u128 = 0x6874_7470;
const MARK_SHIFT: u32 = 96;

/// The id of a member that joins here.
pub(crate) fn http_member(id: u128) -> MemberId {
    MemberId((MARK << MARK_SHIFT) | (id & ((1 << MARK_SHIFT) - 1)))
}

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct State {
    inner: Arc<Inner>,
    /// What whoever asks may do; the door itself may do everything.
    pass: Option<Arc<Pass>>,
    /// What is asked, is asked under it.
    fence: Option<Fence>,
}

/// The state as whoever asks may use it.
pub(crate) struct Door<T>(pub(crate) T);

impl FromRequestParts<State> for Door<State> {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Told<Self> {
        let pass = parts.extensions.get::<Arc<Pass>>().cloned();
        if pass.is_none() && state.inner.owners.is_some() {
            let detail = "this path was reached without a look at credentials";
            return Err(Problem::new(Kind::CredentialRequired, detail));
        }
        let fence = read_fence(&parts.headers)?;
        Ok(Self(State { inner: Arc::clone(&state.inner), pass, fence }))
    }
}

/// The term under which a request is made, if it names one.
fn read_fence(headers: &HeaderMap) -> Told<Option<Fence>> {
    let Some(text) = text_header(headers, FENCE_HEADER)? else { return Ok(None) };
    text.parse().map(Some).map_err(|refusal| match refusal {
        Refusal::InvalidValue { why, .. } => Problem::invalid("Fencing-Term", why),
        other => Problem::invalid("Fencing-Term", other),
    })
}

#[derive(Debug)]
struct Inner {
    bellwether: Bellwether,
    keys: Keys,
    members: Mutex<BTreeMap<MemberId, MemberSlot>>,
    observed: Observed,
    scales: Scales,
    /// Whose members are whose, where some are let in and others are not.
    owners: Option<Arc<Owners>>,
}

/// Records what was asked even if whoever asked leaves before the answer.
struct Noted<'a> {
    pass: &'a Pass,
    /// `None` if it is not worth it, or was done.
    command: Option<Command>,
}

impl<'a> Noted<'a> {
    fn new(pass: &'a Pass, command: &Command) -> Self {
        Self { pass, command: needs(command).is_manage().then(|| command.clone()) }
    }

    fn told<T>(mut self, told: Result<&T, &Error>) {
        if let Some(command) = self.command.take() {
            self.pass.note(&command, Some(told));
        }
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if let Some(command) = &self.command {
            self.pass.note::<()>(command, None);
        }
    }
}

impl State {
    /// A door to this store. Who asks through it without a name of its own asks as the member that
    /// `bellwether` is. `stop` ends all that waits: the observer, streams and long polls.
    pub(crate) fn new(
        bellwether: Bellwether,
        stop: CancellationToken,
        owners: Option<Arc<Owners>>,
    ) -> Self {
        let inner = Arc::new(Inner {
            bellwether,
            keys: Keys::default(),
            members: Mutex::default(),
            observed: Observed::new(stop),
            scales: Scales::default(),
            owners,
        });
        Self { inner, pass: None, fence: None }
    }

    /// As the door itself, which may do everything.
    pub(crate) fn own(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), pass: None, fence: None }
    }

    /// Refuses what whoever asks may not do.
    pub(crate) fn check(&self, needs: &Needs<'_>) -> Told<()> {
        match &self.pass {
            Some(pass) => Ok(pass.grants.check(needs).inspect_err(|_| {
                pass.record.count_forbidden();
            })?),
            None => Ok(()),
        }
    }

    /// Until the credential does not count any more.
    pub(crate) async fn ended(&self) {
        match &self.pass {
            Some(pass) => pass.ended.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Asks as it is, as far as whoever asks may.
    pub(crate) async fn call(
        &self,
        mut request: Request,
        contents: Vec<Bytes>,
    ) -> Result<Reply, Error> {
        request.fence.clone_from(&self.fence);
        let Some(pass) = &self.pass else {
            return self.inner.bellwether.call(request, contents).await;
        };
        pass.check(&request.command, request.fence.as_ref())?;
        let noted = Noted::new(pass, &request.command);
        let told = self.inner.bellwether.call(request, contents).await;
        noted.told(told.as_ref());
        told
    }

    /// The same for what stands even if whoever asks leaves.
    pub(crate) async fn call_for_good(&self, mut request: Request) -> Result<Reply, Error> {
        request.fence.clone_from(&self.fence);
        if let Some(pass) = &self.pass {
            pass.check(&request.command, request.fence.as_ref())?;
        }
        self.inner.bellwether.call_for_good(request, Vec::new()).await
    }

    /// Begins a backup, as far as whoever asks may: its first bytes, and what has the others.
    pub(crate) async fn begin_backup(&self) -> Result<(Bytes, Backup), Error> {
        let mut backup = self.inner.bellwether.backup();
        let Some(pass) = &self.pass else {
            return Ok((backup.next().await?.unwrap_or_default(), backup));
        };
        let command = Command::Backup { id: 0, step: 0 };
        pass.check(&command, None)?;
        let noted = Noted::new(pass, &command);
        let first = backup.next().await;
        noted.told(first.as_ref());
        Ok((first?.unwrap_or_default(), backup))
    }

    /// Joins as a member that is whoever asks' alone; or nobody's, if the door itself does.
    pub(crate) async fn join(
        &self,
        id: MemberId,
        metadata: &str,
        ttl_ms: u64,
    ) -> Result<Reply, Error> {
        let principal = self.pass.as_ref().map(|pass| &pass.principal);
        let owners = self.inner.owners.as_ref();
        if owners.is_some_and(|owners| !owners.claim(id, principal, ttl_ms, self.now().boot)) {
            return Err(Refusal::MemberGone.into());
        }
        let metadata = principal.map_or_else(|| metadata.into(), |of| marked(metadata, of));
        let command = Command::Join { id, metadata, ttl_ms };
        let told = self.call(request(MemberSlot(0), RequestNumber(0), command), Vec::new()).await;
        match (owners, &told) {
            (Some(owners), Ok(Reply { outcome: Outcome::Joined(slot), .. })) => {
                owners.joined(id, *slot);
            }
            (Some(owners), Err(_)) => owners.refused(id),
            _ => {}
        }
        told
    }

    pub(crate) fn bellwether(&self) -> &Bellwether {
        &self.inner.bellwether
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    pub(crate) fn scales(&self) -> &Scales {
        &self.inner.scales
    }

    pub(crate) fn observed(&self) -> &Observed {
        &self.inner.observed
    }

    /// What may wait for long, unless the server stops; then it is dropped, which withdraws it.
    pub(crate) async fn unless_stopped<T>(&self, wait: impl Future<Output = Told<T>>) -> Told<T> {
        tokio::select! {
            biased;
            told = wait => told,
            () = self.inner.observed.stopped().cancelled() => {
                let detail = "the server stops; nothing was handed out; ask again when it is back";
                Err(Problem::new(Kind::Closed, detail).retry_after(1000))
            }
            () = self.ended() => {
                let detail = "the credential was revoked, changed or has expired while this waited; \
                              nothing was handed out";
                Err(Problem::new(Kind::CredentialRequired, detail))
            }
        }
    }

    pub(crate) fn now(&self) -> Now {
        self.inner.bellwether.clock().now()
    }

    /// The wall-clock time at which a moment on the boot clock will be, as things stand.
    pub(crate) fn wall_at(&self, until: BootTime) -> String {
        let now = self.now();
        time::of_wall(now.wall.plus_ms(now.boot.ms_until(until)))
    }

    /// Asks as the door itself, without a memory of the outcome.
    pub(crate) async fn ask(&self, command: Command) -> Told<Outcome> {
        Ok(self.ask_as(self.inner.bellwether.slot(), command, Vec::new()).await?.outcome)
    }

    pub(crate) async fn ask_as(
        &self,
        member: MemberSlot,
        command: Command,
        contents: Vec<Bytes>,
    ) -> Told<Reply> {
        let request = request(member, RequestNumber(0), command);
        Ok(self.call(request, contents).await?)
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
        let slot = if let Some(slot) = known {
            slot
        } else {
            let members = self.own().members().await?;
            let slot = members.iter().find(|member| member.id == id).map(|member| member.slot);
            let slot = slot.ok_or(Refusal::MemberGone)?;
            self.remember(id, slot);
            slot
        };
        match (&self.pass, &self.inner.owners) {
            // Another one's is as one that is not there.
            (Some(pass), Some(owners)) if !owners.is_of(slot, &pass.principal, self.now().boot) => {
                Err(Refusal::MemberGone.into())
            }
            _ => Ok(slot),
        }
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
        self.inner.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn request(member: MemberSlot, number: RequestNumber, command: Command) -> Request {
    Request { member, number, answered_below: RequestNumber(0), command, fence: None }
}

/// The engine answered a command with another command's outcome: a broken invariant.
pub(crate) fn unexpected(outcome: &Outcome) -> ! {
    unreachable!("an engine answers each command with its own outcome, not {outcome:?}")
}
