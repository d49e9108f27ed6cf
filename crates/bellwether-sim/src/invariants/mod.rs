//! What must always hold, one file each. The numbers are those of `docs/invariants.md`, M… those of
//! `docs/message.md`, T… those of `docs/lease.md`.

use crate::history::Record;
use crate::plan::Plan;

mod batch_all_or_nothing;
mod complete_is_idempotent_by_request;
mod completed_stays_completed;
mod conservation;
mod counts;
mod deleted_stays_deleted;
mod delivered_is_what_was_sent;
mod delivery_number_grows;
mod fates;
mod faults_have_a_cause;
mod fenced_resource;
mod granted_to_the_present;
mod kept_values;
mod lease_book;
mod lock_book;
mod locks_survive_restart;
mod never_before_due;
mod no_acknowledged_message_lost;
mod no_durable_answer_after_fault;
mod no_early_regrant;
mod no_lock_expires_early;
mod nothing_for_the_withdrawn;
mod old_term_refused;
mod one_lock_at_a_time;
mod one_principal_per_term;
mod one_session_holder;
mod one_trusting_leader;
mod queue_drains;
mod released_in_order;
mod restart_grace;
mod sequence_numbers_grow;
mod session_order;
mod somebody_leads;
mod stale_token_refused;
mod terms_only_grow;
mod trust_ends_in_time;
mod unknown_retry_adds_at_most_one;
mod volatile;

/// One invariant.
pub(crate) trait Invariant: std::fmt::Debug {
    /// Its number and name.
    fn name(&self) -> &'static str;

    /// Something happened; `Err` says why it must not have.
    fn see(&mut self, record: &Record) -> Result<(), String>;
}

/// An invariant that broke.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "some of it is only told to people")]
pub(crate) struct Violation {
    /// Which.
    pub invariant: &'static str,
    /// How.
    pub how: String,
    /// At which record.
    pub index: u64,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Invariants(Vec<Box<dyn Invariant>>);

impl Invariants {
    /// All invariants, for the world of `plan`.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self(vec![
            Box::new(no_acknowledged_message_lost::Check::default()),
            Box::new(delivered_is_what_was_sent::Check::default()),
            Box::new(unknown_retry_adds_at_most_one::Check::new(plan)),
            Box::new(completed_stays_completed::Check::default()),
            Box::new(stale_token_refused::Check::default()),
            Box::new(complete_is_idempotent_by_request::Check::default()),
            Box::new(batch_all_or_nothing::Check::default()),
            Box::new(conservation::Check::default()),
            Box::new(deleted_stays_deleted::Check::default()),
            Box::new(no_durable_answer_after_fault::Check::default()),
            Box::new(one_lock_at_a_time::Check::default()),
            Box::new(delivery_number_grows::Check::default()),
            Box::new(no_lock_expires_early::Check::new(plan)),
            Box::new(locks_survive_restart::Check::default()),
            Box::new(counts::Check::new(plan)),
            Box::new(session_order::Check::new(plan)),
            Box::new(one_session_holder::Check::default()),
            Box::new(kept_values::Check::new(plan)),
            Box::new(sequence_numbers_grow::Check::default()),
            Box::new(never_before_due::Check::new(plan)),
            Box::new(terms_only_grow::Check::default()),
            Box::new(one_principal_per_term::Check::default()),
            Box::new(no_early_regrant::Check::default()),
            Box::new(granted_to_the_present::Check::default()),
            Box::new(released_in_order::Check::default()),
            Box::new(nothing_for_the_withdrawn::Check::default()),
            Box::new(restart_grace::Check::default()),
            Box::new(trust_ends_in_time::Check),
            Box::new(one_trusting_leader::Check::new(plan)),
            Box::new(fenced_resource::Check::default()),
            Box::new(old_term_refused::Check::default()),
            Box::new(faults_have_a_cause::Check),
            Box::new(queue_drains::Check),
            Box::new(somebody_leads::Check),
        ])
    }

    /// Something happened; the first invariant that it breaks.
    pub(crate) fn see(&mut self, record: &Record) -> Option<Violation> {
        self.0.iter_mut().find_map(|invariant| {
            let how = invariant.see(record).err()?;
            Some(Violation { invariant: invariant.name(), how, index: record.index })
        })
    }
}
