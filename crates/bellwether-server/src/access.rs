//! Who may ask: what is shown at a door becomes a pass, and a pass ends.
//!
//! ```text
//!   credential, or the names of a certificate ─► rules ─► Pass: grants, until it ends
//!                                                  ▲                        │
//!   the file, looked at every half second ─────────┴── revoked, changed, expired ─► ended
//! ```
//!
//! 1. Nothing is believed that is not in the file of rules, but for the Unix socket, which only this
//!    user can open.
//! 2. A pass is looked at again whenever the file has changed, and when its time is over: within a
//!    second nothing is done under it any more.
//! 3. A file that cannot be read changes nothing: those who were known stay known, and it is logged.

mod audit;
mod failures;
pub(crate) mod file;
mod origin;
pub(crate) mod rule;
pub(crate) mod sas;
pub(crate) mod secret;
mod start;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use bellwether::clock::Clock;
use bellwether::core::right::{Grants, Needs};
use bellwether::wire::Why;
use bellwether::wire::accept::{Pass, Record, Turned};
use bellwether::{Error, Refusal};
use tokio_util::sync::CancellationToken;

use audit::{Audit, Line};
use failures::Failures;
use file::Stamp;
pub(crate) use origin::{Door, Origin};
use rule::{Proof, Rules};
pub(crate) use start::open;

/// Between two looks at the file and at the clock.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// How those are called who come by the Unix socket.
const SOCKET: &str = "(socket)";

/// See the module.
#[derive(Debug)]
pub(crate) struct Access {
    path: PathBuf,
    rules: RwLock<Arc<Rules>>,
    seen: Mutex<Seen>,
    live: Mutex<Live>,
    connections_per_rule_max: u64,
    failures: Failures,
    crowded: AtomicU64,
    forbidden: AtomicU64,
    audit: Audit,
}

/// What is known of the file.
#[derive(Debug)]
struct Seen {
    /// The file as it was when it was read last.
    read: Option<Stamp>,
    /// The file as it was when that was tried last: that it could not be read is logged once.
    tried: Option<Stamp>,
}

/// How often each of these was so.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Credentials that were not believed.
    pub(crate) turned: u64,
    /// Connections and requests beyond what one rule may have at a time.
    pub(crate) crowded: u64,
    /// Asks for want of a right.
    pub(crate) forbidden: u64,
    /// Lines of the audit log that could not be written.
    pub(crate) unrecorded: u64,
}

/// Those who are in.
#[derive(Debug, Default)]
struct Live {
    passes: Vec<Weak<Admission>>,
    by_rule: HashMap<Arc<str>, u64>,
    look_through_at: usize,
}

/// Somebody who is in.
#[derive(Debug)]
struct Admission {
    access: Arc<Access>,
    rule: Arc<str>,
    proof: Proof,
    grants: Grants,
    /// Where from, for the record.
    from: String,
    ended: CancellationToken,
}

impl Access {
    /// Reads the rules.
    fn open(
        path: PathBuf,
        audit: Option<PathBuf>,
        connections_per_rule_max: u64,
    ) -> Result<Arc<Self>, String> {
        // First its stamp: what changes while it is read is found at the next look.
        let read = file::stamp(&path);
        let rules = file::read(&path)?.unwrap_or_default();
        Ok(Arc::new(Self {
            path,
            rules: RwLock::new(Arc::new(rules)),
            seen: Mutex::new(Seen { read, tried: read }),
            live: Mutex::default(),
            connections_per_rule_max,
            failures: Failures::default(),
            crowded: AtomicU64::new(0),
            forbidden: AtomicU64::new(0),
            audit: Audit::new(audit),
        }))
    }

    /// Lets somebody in by what he shows, or by the names in his certificate if he shows nothing.
    pub(crate) fn admit(
        self: &Arc<Self>,
        credential: &str,
        origin: &Origin,
    ) -> Result<Arc<Pass>, Turned> {
        let rules = Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner));
        let known = match origin {
            Origin::Socket => {
                return self.enter(SOCKET.into(), Proof::Socket, Grants::all(), origin);
            }
            Origin::Network { peer, .. } if credential.is_empty() => rules.by_certificate(peer),
            Origin::Network { .. } => rules.by_credential(credential),
        };
        let given = known.and_then(|(rule, proof)| {
            let grants = rule.gives(&proof, now_s())?;
            Some((rule, proof, grants))
        });
        if let Some((rule, proof, grants)) = given {
            return self.enter(rule.name.as_str().into(), proof, grants, origin);
        }
        let text = if credential.is_empty() {
            "this server asks for a credential: a token, a shared access signature, or a certificate \
             that it knows"
        } else {
            "the credential is not known here, was revoked, or has expired"
        };
        let after = self.failures.count(origin, Clock::System.now().boot);
        Err(Turned { why: Why::Credential, text: text.into(), after })
    }

    fn enter(
        self: &Arc<Self>,
        rule: Arc<str>,
        proof: Proof,
        grants: Grants,
        origin: &Origin,
    ) -> Result<Arc<Pass>, Turned> {
        let mut live = self.live();
        let count = live.by_rule.entry(Arc::clone(&rule)).or_default();
        let max = self.connections_per_rule_max;
        if *count >= max {
            self.crowded.fetch_add(1, Ordering::Relaxed);
            let text = format!(
                "rule {rule:?} has {max} connections and requests at a time, the limit \
                 connections_per_rule_max; close some, or try again"
            );
            return Err(Turned { why: Why::Limit, text, after: Duration::ZERO });
        }
        *count += 1;
        let ended = CancellationToken::new();
        let admission = Arc::new(Admission {
            access: Arc::clone(self),
            rule: Arc::clone(&rule),
            proof,
            grants: grants.clone(),
            from: origin.to_string(),
            ended: ended.clone(),
        });
        if live.passes.len() >= live.look_through_at {
            live.passes.retain(|pass| pass.strong_count() > 0);
            live.look_through_at = 64 + 2 * live.passes.len();
        }
        live.passes.push(Arc::downgrade(&admission));
        Ok(Arc::new(Pass { principal: rule, grants, ended, record: admission }))
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the file and at the clock until `stopping`.
    pub(crate) async fn watch(self: Arc<Self>, stopping: CancellationToken) {
        loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let access = Arc::clone(&self);
            // A disk that does not answer holds up nobody else.
            let _ = tokio::task::spawn_blocking(move || access.look()).await;
        }
    }

    fn look(&self) {
        let found = file::stamp(&self.path);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.read != found {
            let gone = || format!("the file of rules {} is gone", self.path.display());
            match file::read(&self.path).and_then(|rules| rules.ok_or_else(gone)) {
                Ok(rules) => {
                    tracing::info!(rules = rules.0.len(), "the rules were read anew");
                    *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
                    *seen = Seen { read: found, tried: found };
                }
                // It is tried again: what was wrong may have been the system, and not the file.
                Err(why) if seen.tried != found => {
                    tracing::error!("{why}; the rules stay as they were");
                    seen.tried = found;
                }
                Err(_) => {}
            }
        }
        drop(seen);
        self.end_passes();
    }

    /// Ends what does not count any more.
    fn end_passes(&self) {
        let rules = Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner));
        let now_s = now_s();
        let passes: Vec<_> = self.live().passes.iter().filter_map(Weak::upgrade).collect();
        for pass in passes {
            let is_socket = matches!(pass.proof, Proof::Socket);
            let given = rules.find(&pass.rule).and_then(|rule| rule.gives(&pass.proof, now_s));
            if !is_socket && given.as_ref() != Some(&pass.grants) {
                pass.ended.cancel();
            }
        }
    }

    pub(crate) fn count_forbidden(&self) {
        self.forbidden.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            turned: self.failures.total(),
            crowded: self.crowded.load(Ordering::Relaxed),
            forbidden: self.forbidden.load(Ordering::Relaxed),
            unrecorded: self.audit.failed(),
        }
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }
}

impl Record for Admission {
    fn note(&self, principal: &str, asked: &Needs<'_>, outcome: Option<Result<(), &Error>>) {
        let refused = match outcome {
            Some(Err(Error::Refused(refusal @ Refusal::Forbidden { .. }))) => Some(refusal),
            _ => None,
        };
        let text = match (refused, outcome) {
            (Some(refusal), _) => format!("forbidden: {refusal}"),
            (None, Some(Ok(()))) => "done".to_owned(),
            (None, Some(Err(error))) => format!("failed: {error}"),
            (None, None) => "unknown: the caller left before the answer".to_owned(),
        };
        let (what, name, from) = (asked.what, asked.name(), self.from.as_str());
        let is_refused = refused.is_some();
        let line = Line { rule: principal, from, what, name, outcome: &text, is_refused };
        self.access.audit.write(Clock::System.now().wall, &line);
    }

    fn count_forbidden(&self) {
        self.access.count_forbidden();
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut live = self.access.live();
        if let Some(count) = live.by_rule.get_mut(&self.rule) {
            *count -= 1;
            if *count == 0 {
                live.by_rule.remove(&self.rule);
            }
        }
    }
}

fn now_s() -> u64 {
    Clock::System.now().wall.0 / 1000
}
