//! Whether a resource refuses a deposed leader's late write. Run it on your own:
//!
//! ```
//! use bellwether::conformance::fencing::{self, FencedResource};
//! use bellwether::fencing::{FenceError, Fenced};
//! use bellwether::{Fence, Term};
//! use std::sync::Mutex;
//!
//! /// A list that keeps the newest term beside what was written.
//! #[derive(Default)]
//! struct List(Mutex<(Term, Vec<String>)>);
//!
//! impl FencedResource for List {
//!     type Fault = std::convert::Infallible;
//!
//!     async fn append(&self, fence: &Fence, record: &str) -> Result<(), FenceError<Self::Fault>> {
//!         let mut list = self.0.lock().unwrap();
//!         if list.0 > fence.term {
//!             return Err(Fenced::new(fence, list.0).into());
//!         }
//!         list.0 = fence.term;
//!         list.1.push(record.to_owned());
//!         Ok(())
//!     }
//!
//!     async fn records(&self) -> Vec<String> {
//!         self.0.lock().unwrap().1.clone()
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! fencing::a_late_write_is_refused(&List::default(), "billing", async || ()).await;
//! fencing::terms_never_go_down(std::sync::Arc::new(List::default()), "billing").await;
//! # }
//! ```

use std::sync::Arc;

use bellwether_core::name::{LeaseName, Term};

use crate::elector::Fence;
use crate::fencing::{FenceError, Fenced};

/// How many write at the same time, how often each, and the last term they come to.
const WRITERS: u64 = 12;
const WRITES: u64 = 10;
const LAST_TERM: u64 = 6;

/// Something that a leader writes, seen as a list of records.
pub trait FencedResource: Send + Sync + 'static {
    /// What can go wrong besides.
    type Fault: std::fmt::Debug + Send;

    /// Adds a record at the end, if no later term of the fence's election was here.
    fn append(
        &self,
        fence: &Fence,
        record: &str,
    ) -> impl Future<Output = Result<(), FenceError<Self::Fault>>> + Send;

    /// All records, in the order in which they took effect.
    fn records(&self) -> impl Future<Output = Vec<String>> + Send;
}

fn fence(election: &str, term: u64) -> Fence {
    Fence { election: LeaseName::new(election).unwrap(), term: Term(term) }
}

/// A leader writes, its successor writes, and what the first one then still sends is refused and
/// leaves no trace, before and after the resource was started anew by `restart`. The newest term
/// itself is accepted as often as it comes. (E6)
pub async fn a_late_write_is_refused<R: FencedResource>(
    resource: &R,
    election: &str,
    restart: impl AsyncFnOnce(),
) {
    // Far apart in size, and beyond what a double can tell apart.
    let (old, new) = (fence(election, 999), fence(election, (1 << 53) + 1));
    let late = |error: FenceError<R::Fault>| match error {
        FenceError::Fenced(fenced) => fenced,
        FenceError::Fault(fault) => panic!("refused, and not by the fence: {fault:?}"),
    };
    resource.append(&old, "the old leader").await.unwrap();
    resource.append(&old, "the old leader again").await.unwrap();
    resource.append(&new, "the new leader").await.unwrap();
    for between in [old.term, Term(new.term.0 - 1)] {
        let refused = resource.append(&fence(election, between.0), "late").await;
        let refused = late(refused.expect_err("a late write was accepted"));
        let told = Fenced { election: new.election.clone(), term: between, newest: new.term };
        assert_eq!(refused, told);
    }
    restart().await;
    let refused = resource.append(&old, "late, after the restart").await;
    late(refused.expect_err("a late write was accepted after a restart"));
    resource.append(&new, "the new leader again").await.unwrap();
    let expected =
        ["the old leader", "the old leader again", "the new leader", "the new leader again"];
    assert_eq!(resource.records().await, expected);
}

/// Leaders of many terms write all at once. In the order in which records took effect, terms never
/// go down; what was refused is not there, and what was accepted is there once. (E6)
pub async fn terms_never_go_down<R: FencedResource>(resource: Arc<R>, election: &str) {
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (resource, election) = (Arc::clone(&resource), election.to_owned());
        writers.push(tokio::spawn(async move {
            let mut accepted = Vec::new();
            for number in 0..WRITES {
                // All climb through the terms together, some a little ahead of the others.
                let term = (2 + number + writer % 3) / 2;
                let record = format!("{term} {writer} {number}");
                match resource.append(&fence(&election, term), &record).await {
                    Ok(()) => accepted.push(record),
                    Err(FenceError::Fenced(fenced)) => assert!(fenced.newest > fenced.term),
                    Err(FenceError::Fault(fault)) => panic!("{fault:?}"),
                }
            }
            accepted
        }));
    }
    let mut accepted = Vec::new();
    for writer in writers {
        accepted.extend(writer.await.unwrap());
    }
    let mut records = resource.records().await;
    let term = |record: &String| record.split(' ').next().unwrap().parse::<u64>().unwrap();
    let terms: Vec<_> = records.iter().map(term).collect();
    assert!(terms.is_sorted(), "a term went down: {terms:?}");
    assert_eq!(terms.last(), Some(&LAST_TERM), "the last term was never accepted");
    accepted.sort();
    records.sort();
    assert_eq!(records, accepted, "what was accepted is not what is there");
}
