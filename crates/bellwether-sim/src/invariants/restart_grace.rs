//! E8: a lease that was held when the server died is honoured for a full duration from its
//! restart, unless its holder released it.

use super::Invariant;
use super::lease_book::LeaseBook;
use crate::history::{Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    book: LeaseBook,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "E8 restart_grace"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        let early = self.book.too_early(record).filter(|grant| grant.restarted);
        if let (Some(grant), What::LeaseIs { election, term, .. }) = (early, &record.what) {
            return Err(format!(
                "election {election}: term {term} was granted, term {} has grace until {} ms",
                grant.term, grant.until_min_ms
            ));
        }
        self.book.see(record);
        Ok(())
    }
}
