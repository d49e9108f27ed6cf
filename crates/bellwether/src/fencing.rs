//! The fencing kit: resources that refuse a deposed leader's late write.
//!
//! A lease says who should write; only the resource can make sure that nobody else does. A leader
//! that was frozen for an hour asks nobody before its next write. So every write shows its
//! [`Fence`], and the resource, in one step with the write itself,
//!
//! 1. refuses it if it has seen a later term of the same election,
//! 2. records the term, if it is later than what it has seen, for as long as it keeps the write.
//!
//! An equal term is accepted: it is the same leader. Check and write must be one step. A check
//! that is over before the write begins leaves a gap, and a process can be frozen in every gap.
//!
//! | resource | module | how check and write are one step |
//! |---|---|---|
//! | files of this machine | [`mod@file`] | a lock of the kernel, held over both |
//! | PostgreSQL | `postgres`, feature `fencing-postgres` | one transaction and the lock of a row |
//! | etcd | `etcd`, feature `fencing-etcd` | one transaction |
//! | Redis | [`redis`] | one script |
//! | a service behind HTTP | `http`, feature `fencing-http` | a layer that lets the old term's requests end first |
//!
//! For a resource of your own: `conformance::fencing` (feature `conformance`) shows whether it does.
//! Worked examples are in `docs/fencing.md`.

#[cfg(feature = "fencing-etcd")]
pub mod etcd;
pub mod file;
#[cfg(feature = "fencing-http")]
pub mod http;
#[cfg(feature = "fencing-postgres")]
pub mod postgres;
pub mod redis;
mod terms;

use bellwether_core::name::{LeaseName, Term};

use crate::elector::Fence;

pub use terms::{FileTerms, MemoryTerms, TermStore};

/// The resource has seen a later term: whoever shows this one does not lead any more. Nothing was
/// written. Asking again does not help; stop the work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "term {term} of election {election:?} is fenced off: term {newest} has written since; stop \
     the work"
)]
pub struct Fenced {
    /// Which election.
    pub election: LeaseName,
    /// The term that was shown.
    pub term: Term,
    /// The latest that the resource has seen.
    pub newest: Term,
}

impl Fenced {
    /// The same, for the fence that was refused.
    pub fn new(fence: &Fence, newest: Term) -> Self {
        Self { election: fence.election.clone(), term: fence.term, newest }
    }
}

/// Why a fenced write was not done: the fence, or the resource itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FenceError<E> {
    /// See [`Fenced`].
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// What the resource said; whether the write took effect is for it to say.
    #[error("{0}")]
    Fault(E),
}

impl<E> FenceError<E> {
    /// The refusal, if it is one.
    pub fn fenced(&self) -> Option<&Fenced> {
        match self {
            Self::Fenced(fenced) => Some(fenced),
            Self::Fault(_) => None,
        }
    }
}
