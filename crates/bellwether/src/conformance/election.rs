//! What every lease engine must do: cases against [`Elections`] alone, in real time.
//!
//! An engine says how a member joins it ([`Place`]) and asks for the tests; each case becomes a
//! test of its own, named `group::case`:
//!
//! ```text
//! async fn hall() -> Hall {
//!     Hall::open(MyServer::start().await).await
//! }
//!
//! bellwether::election_tests! { hall: hall, network: yes, restart: yes }
//! ```
//!
//! 1. The list of cases exists once, at the end of this file.
//! 2. A case is a story of members, and names no engine. Every [`Hall::member`] is one more
//!    process, as far as the engine can tell.
//! 3. No case asserts how fast something is, only that it comes at all, and in which order.
//! 4. What an engine cannot do is said at the macro, and no tests are made of those cases.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Running;
use crate::elections::Elections;
use crate::elector::{Election, Leader, LeadershipGuard};
use crate::error::Error;

pub mod cut;
mod network;
pub mod office;
pub mod restart;

pub use network::Network;

/// The election that the cases are about.
const NAME: &str = "reports";
/// Shorter ones make cases fail on a busy machine that say nothing about the engine.
const TTL_MIN: Duration = Duration::from_secs(1);
/// Nothing that comes at all takes longer, beside what leases take to run out.
const AT_LAST: Duration = Duration::from_secs(20);

/// Where leases are kept, and how members get there: all that an engine's test file has to say.
pub trait Place: std::fmt::Debug + Send + Sync + 'static {
    /// One more member joins. `by` is where it shall connect instead of [`Place::server`].
    fn join(&self, by: Option<SocketAddr>) -> Running<'_, Result<Elections, Error>>;

    /// Where the engine listens; `None` if there is no network in between.
    fn server(&self) -> Option<SocketAddr>;

    /// Whatever keeps the leases dies in this moment, and is started again.
    fn restart(&self) -> Running<'_, ()>;
}

/// One fresh place, for one case.
#[derive(Debug)]
pub struct Hall {
    place: Box<dyn Place>,
    ttl: Duration,
    /// Closed at the end of the case.
    members: Mutex<Vec<Elections>>,
}

impl Hall {
    /// At a place that no case has seen, or where no case has used the election's name.
    pub async fn open(place: impl Place) -> Self {
        let place: Box<dyn Place> = Box::new(place);
        let first = place.join(None).await.expect("the engine lets a member in");
        let ttl = first.facts().ttl_min.max(TTL_MIN);
        Self { place, ttl, members: Mutex::new(vec![first]) }
    }

    /// The shortest ttl that the engine and this suite can do.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// One more member.
    pub async fn member(&self) -> Elections {
        self.joined(None).await
    }

    /// One more member, and the network between it and the engine.
    pub async fn member_by_network(&self) -> (Elections, Network) {
        let server = self.place.server().expect("a case that needs a network");
        let network = Network::start(server).await;
        (self.joined(Some(network.at)).await, network)
    }

    async fn joined(&self, by: Option<SocketAddr>) -> Elections {
        let member = self.place.join(by).await.expect("the engine lets a member in");
        self.members.lock().unwrap_or_else(PoisonError::into_inner).push(member.clone());
        member
    }

    /// The election, as this member takes part in it.
    pub fn election(&self, member: &Elections) -> Election {
        member.election(NAME).unwrap().ttl(self.ttl).retry(Duration::from_millis(200))
    }

    /// See [`Place::restart`].
    pub async fn restart(&self) {
        self.place.restart().await;
    }

    /// What comes at last.
    pub async fn at_last<T>(&self, what: &str, coming: impl Future<Output = T>) -> T {
        let limit = AT_LAST + self.ttl * 5;
        let came = tokio::time::timeout(limit, coming).await;
        came.unwrap_or_else(|_| panic!("{what} did not happen within {limit:?}"))
    }

    /// Leads, at last.
    pub async fn contend(&self, election: &Election) -> LeadershipGuard {
        self.at_last("leading", election.contend()).await.unwrap()
    }

    /// Waits until the engine's word on the leader is as expected. An engine that cannot be reached
    /// for a moment is asked again.
    pub async fn until_leader(
        &self,
        election: &Election,
        expected: impl Fn(Option<&Leader>) -> bool,
    ) -> Option<Leader> {
        let looking = async {
            loop {
                match election.leader().await {
                    Ok(leader) if expected(leader.as_ref()) => return leader,
                    _ => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        self.at_last("the expected leader", looking).await
    }

    async fn close(&self) {
        let members =
            std::mem::take(&mut *self.members.lock().unwrap_or_else(PoisonError::into_inner));
        for member in members {
            // One whose network is cut off cannot say goodbye.
            let _ = tokio::time::timeout(Duration::from_secs(5), member.close()).await;
        }
    }
}

/// How many of them surely lead at this moment.
fn leading<'a>(guards: impl IntoIterator<Item = &'a LeadershipGuard>) -> usize {
    guards.into_iter().filter(|guard| guard.ensure().is_ok()).count()
}

/// Runs one case in a fresh hall. Called by [`election_tests!`](crate::election_tests).
pub fn run(hall: Running<'_, Hall>, case: for<'a> fn(&'a Hall) -> Running<'a, ()>) {
    super::run_case(async {
        let hall = hall.await;
        case(&hall).await;
        hall.close().await;
    });
}

/// Makes one test of every case, for one engine.
///
/// `hall` names an `async fn() -> Hall` beside the macro. `network: no` says that members do not
/// reach it over TCP, and are all the same one; `restart: no` that it cannot be started again: of those cases no tests
/// are made.
#[macro_export]
macro_rules! election_tests {
    (hall: $hall:ident, network: $network:ident, restart: $restart:ident $(,)?) => {
        $crate::election_tests! { @group yes $hall office [
            one_of_five_leads
            a_second_member_sees_who_leads
            a_release_wakes_whoever_waits
            terms_only_grow
            a_dropped_guard_is_a_release
            how_the_work_ended_is_told
            whoever_leaves_the_line_is_passed_over
            those_who_wait_are_seen
            a_leader_stays_through_many_renewals
            never_two_at_once
            several_lead_at_once_or_the_engine_says_that_it_keeps_one
            a_leader_is_asked_to_step_down
            nobody_cannot_be_asked_to_step_down
            many_elections_of_one_member
            one_election_given_up_leaves_the_others
            an_election_nobody_knows_has_no_leader
            a_ttl_below_the_floor_is_refused
            metadata_has_a_limit
            odd_metadata_survives
        ] }
        $crate::election_tests! { @group $network $hall cut [
            a_leader_that_is_cut_off_stops_before_another_leads
            a_late_release_frees_nothing
            a_short_silence_costs_nothing
            a_broken_connection_costs_nothing
            a_lost_answer_is_the_same_grant
            whoever_was_cut_off_while_waiting_waits_again
            a_dropped_leader_is_followed
            a_closed_member_leads_no_more
        ] }
        $crate::election_tests! { @group $restart $hall restart [
            there_are_never_two_over_a_restart
            terms_grow_over_a_restart
        ] }
    };
    (@group yes $hall:ident $group:ident [$($case:ident)*]) => {
        mod $group {$(
            #[test]
            fn $case() {
                $crate::conformance::election::run(Box::pin(super::$hall()), |hall| {
                    Box::pin($crate::conformance::election::$group::$case(hall))
                });
            }
        )*}
    };
    (@group no $hall:ident $group:ident [$($case:ident)*]) => {};
}
