//! Fences: the proof of one term, shown with what is asked under it.
//!
//! ```text
//!   leader, term 7 ── frozen ─────────────────────────► send, under 7 ──► Fenced: 8 was granted
//!                        term 7 runs out, 8 is granted ──┘
//! ```
//!
//! 1. A request under a fence is decided only while its term is held on the ledger's own clock, in
//!    the same step: nothing can come between the look and what is decided.
//! 2. A request that waits is looked at again when it is served: the term may have ended since.
//! 3. A request whose outcome is remembered gets that outcome, whatever became of the term: it
//!    was decided while the term was held, and is not decided again.
//! 4. The grant stands in the same log before everything that was decided under it. So a power cut
//!    never leaves the one without the other, and an answer that waits for its own flush waits for
//!    the grant's as well; a refusal waits for whatever ended the term.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::error::Refusal;
use crate::name::{LeaseName, Term};

/// Proof of one term, to be shown to every resource the leader writes. A resource that has seen
/// a greater term of the same election refuses a smaller one; then no pause and no lost message
/// can make an old leader's write count.
///
/// People write it as `ELECTION/TERM`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// The election's name.
    pub election: LeaseName,
    /// The term; only grows.
    pub term: Term,
}

impl Fence {
    /// Refuses a term that is not held at this moment. A lease that is being broken still is.
    /// `slots` are the terms of the lease's slots, and whether they are held.
    pub(crate) fn check(&self, slots: impl Iterator<Item = (Term, bool)>) -> Result<(), Refusal> {
        let (mut newest, mut is_held) = (None, false);
        for (term, held) in slots {
            newest = newest.max(Some(term));
            is_held |= held && term == self.term;
        }
        if is_held || cfg!(planted_bug = "fence_ignored") {
            return Ok(());
        }
        Err(Refusal::Fenced { election: self.election.clone(), term: self.term, newest })
    }
}

/// What became of a term that does not count, and who must act.
pub(crate) fn explain(
    f: &mut fmt::Formatter<'_>,
    election: &LeaseName,
    term: Term,
    newest: Option<Term>,
) -> fmt::Result {
    match newest.map(|newest| (newest, newest.cmp(&term))) {
        Some((newest, Ordering::Greater)) => write!(
            f,
            "term {term} of election {election:?} is over, term {newest} was granted since; stop \
             the work: the newer leader does it"
        ),
        Some((_, Ordering::Equal)) => write!(
            f,
            "term {term} of election {election:?} is over, it was released or broken or has run \
             out; stop the work and lead again under a new term"
        ),
        Some((newest, Ordering::Less)) => write!(
            f,
            "term {term} of election {election:?} was never granted here, the newest is {newest}; \
             show the term of a grant of this store"
        ),
        None => write!(
            f,
            "nobody was ever granted election {election:?} here, so term {term} does not count; \
             show the election and the term of a grant of this store"
        ),
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.election, self.term)
    }
}

impl FromStr for Fence {
    type Err = Refusal;

    /// Reads `ELECTION/TERM`. The name may have slashes of its own.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let read = || {
            let (election, term) = text.rsplit_once('/')?;
            let digits = term.bytes().all(|byte| byte.is_ascii_digit());
            Some((election, digits.then(|| term.parse().ok())??))
        };
        let Some((election, term)) = read() else {
            let why = format!("{text:?} is not ELECTION/TERM, as in orders/1767225600000");
            return Err(Refusal::InvalidValue { what: "fence", why });
        };
        Ok(Self { election: LeaseName::new(election)?, term: Term(term) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

    use super::*;

    #[test]
    fn it_reads_as_it_is_written() {
        for text in ["orders/7", "a/b/c/18446744073709551615", "a:b %/0"] {
            assert_eq!(text.parse::<Fence>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_fence_is_refused_in_words() {
        for text in
            ["", "orders", "orders/", "/7", "orders/+7", "orders/x", "o/18446744073709551616"]
        {
            let refused = text.parse::<Fence>().unwrap_err();
            let names_it =
                ["fence: ", "lease name"].iter().any(|w| refused.to_string().contains(w));
            assert!(names_it, "{text:?}: {refused}");
        }
    }
}
