//! The gate: who is let in, and what for.
//!
//! ```text
//!   Hello.credential ─► Gate::admit ─► Pass ─► every ask is checked against its grants
//!                            │            └──► ended: the connection is over, too
//!                            └─► Turned ─► Goodbye(Credential), after a while
//! ```
//!
//! Without a gate nothing of this is looked at. The caller of the acceptor supplies it: what a
//! credential is, and which of them count, is no affair of the wire.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::command::{Command, Request};
use bellwether_core::error::Refusal;
use bellwether_core::fence::Fence;
use bellwether_core::right::{Grants, Needs, needs};
use bellwether_core::time::BootTime;
use tokio_util::sync::CancellationToken;

use super::owners::{Owners, marked};
use crate::error::Error;
use crate::wire::Why;

/// Lets one connection in, or not.
pub trait Gate: Debug + Send + Sync {
    /// What this credential is good for; it is empty if none was shown.
    fn admit(&self, credential: &str) -> Result<Arc<Pass>, Turned>;
}

/// Somebody was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turned {
    /// For programs.
    pub why: Why,
    /// For people.
    pub text: String,
    /// Told after this long, so that guessing takes time; nothing is held up meanwhile.
    pub after: Duration,
}

/// Somebody was let in.
#[derive(Debug)]
pub struct Pass {
    /// Whom it stands for. Members of one principal are not those of another.
    pub principal: Arc<str>,
    /// What may be asked under it.
    pub grants: Grants,
    /// Cancelled when it does not count any more.
    pub ended: CancellationToken,
    /// Where it is kept what was managed under it.
    pub record: Arc<dyn Record>,
}

/// Keeps what those did who run the place.
pub trait Record: Debug + Send + Sync {
    /// What was asked, and what became of it: `None` if nobody heard.
    fn note(&self, principal: &str, asked: &Needs<'_>, outcome: Option<Result<(), &Error>>);

    /// Something was asked without the right to it.
    fn count_forbidden(&self);
}

impl Pass {
    /// Whether it allows a command under this fence, if it has one; a refusal is recorded if it is
    /// worth it.
    pub fn check(&self, command: &Command, fence: Option<&Fence>) -> Result<(), Refusal> {
        let asked = needs(command);
        let fence = fence.map_or(Ok(()), |fence| self.grants.check_fence(fence));
        self.grants.check(&asked).and(fence).inspect_err(|refusal| {
            self.record.count_forbidden();
            if asked.is_manage() {
                let error = Error::Refused(refusal.clone());
                self.record.note(&self.principal, &asked, Some(Err(&error)));
            }
        })
    }

    /// Records what became of a command that was allowed, if it is worth it.
    pub fn note<T>(&self, command: &Command, outcome: Option<Result<&T, &Error>>) {
        // A backup is one thing that was done, in however many steps.
        if matches!(command, Command::Backup { step: 1.., .. }) {
            return;
        }
        let asked = needs(command);
        if asked.is_manage() {
            let outcome = outcome.map(|outcome| outcome.map(|_| ()));
            self.record.note(&self.principal, &asked, outcome);
        }
    }

    /// Whether it allows a request, and speaks for its member. What a member says of itself gets
    /// its principal's name.
    pub(super) fn admit(
        &self,
        owners: &Owners,
        request: &mut Request,
        now: BootTime,
    ) -> Result<(), Refusal> {
        self.check(&request.command, request.fence.as_ref())?;
        if !owners.is_of(request.member, &self.principal, now) {
            return Err(Refusal::MemberGone);
        }
        if let Command::Join { id, metadata, ttl_ms } = &mut request.command {
            if !owners.claim(*id, Some(&self.principal), *ttl_ms, now) {
                return Err(Refusal::MemberGone);
            }
            *metadata = marked(metadata, &self.principal);
        }
        Ok(())
    }
}
