//! E3: a lease is granted to another only 105 % of its ttl after the last renewal that was
//! acknowledged, unless its holder released it.

use super::Invariant;
use super::lease_book::LeaseBook;
use crate::history::{Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    book: LeaseBook,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "E3 no_early_regrant"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        let early = self.book.too_early(record).filter(|grant| !grant.restarted);
        if let (Some(grant), What::LeaseIs { election, term, .. }) = (early, &record.what) {
            return Err(format!(
                "election {election}: term {term} was granted while term {} holds until {} ms",
                grant.term, grant.until_min_ms
            ));
        }
        self.book.see(record);
        Ok(())
    }
}
