//! What every engine must do, as one list of cases that any engine runs unchanged.
//!
//! An engine says how its store is opened ([`Store`]) and asks for the tests; each case becomes a
//! test of its own, named `group::case`:
//!
//! ```text
//! async fn fixture() -> Fixture {
//!     Fixture::open(MyStore::new()).await
//! }
//!
//! bellwether::conformance_tests! { fixture: fixture, restart: yes, virtual_clock: yes }
//! ```
//!
//! 1. The list of cases exists once, in `list.rs`. A behaviour exists when a case names it; a bug
//!    found in one engine becomes a case for all.
//! 2. A case is a story: it opens nothing, names no engine, and cites the sentence it proves
//!    where the documents number it (D, L, E, S and V: `invariants.md`).
//! 3. Time passes by [`Fixture::advance`] only, which moves an injected clock or really waits.
//! 4. What an engine cannot do is said at the macro, group by group, and no tests are made of those
//!    cases: one that is not run is not listed as if it had been.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::pin::Pin;
use std::time::Duration;

pub mod dead_letter;
pub mod delivery;
pub mod demand;
pub mod duplicate;
pub mod election;
pub mod exactly_once;
pub mod fence;
pub mod fencing;
mod fixture;
pub mod forward;
pub mod job;
pub mod lease;
pub mod limits;
pub mod line;
mod list;
pub mod member;
pub mod message;
pub mod model;
pub mod operator;
pub mod queue;
pub mod restart;
pub mod restart_job;
pub mod restart_lease;
pub mod restart_schedule;
pub mod schedule;
pub mod session;
pub mod settle;
pub mod slots;
pub mod steering;
mod support;
pub mod time_to_live;

pub use fixture::{Fixture, Opening, Store};

/// No case takes longer by far; one that does waits for something that will never come.
const CASE_SECONDS_MAX: u64 = 120;

/// What a case is at work.
pub type Running<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Runs one case on a fresh fixture. Called by [`conformance_tests!`](crate::conformance_tests).
pub fn run(fixture: Running<'_, Fixture>, case: for<'a> fn(&'a Fixture) -> Running<'a, ()>) {
    run_case(async {
        let fixture = fixture.await;
        case(&fixture).await;
        fixture.close().await;
    });
}

fn run_case(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime for the case");
    runtime.block_on(async {
        let limit = Duration::from_secs(CASE_SECONDS_MAX);
        assert!(
            tokio::time::timeout(limit, case).await.is_ok(),
            "the case hangs: it is not done after {CASE_SECONDS_MAX} s"
        );
    });
}
