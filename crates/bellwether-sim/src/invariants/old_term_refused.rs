//! E9: whoever shows an old term, or the id of an earlier tenure, renews and releases nothing.

use std::collections::BTreeMap;

use super::Invariant;
use super::lease_book::LeaseBook;
use crate::history::{Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    book: LeaseBook,
    terms: BTreeMap<(u8, u128), u64>,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "E9 old_term_refused"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        let shown = match &record.what {
            What::Granted { election, id, term, .. } => {
                self.terms.insert((*election, *id), *term);
                None
            }
            What::Kept { election, term, ok: true, applied_ms, .. } => {
                Some((*election, *term, *applied_ms))
            }
            What::Released { election, id, ok: true, applied_ms }
            | What::RenewedById { election, id, ok: true, applied_ms } => {
                self.terms.get(&(*election, *id)).map(|term| (*election, *term, *applied_ms))
            }
            _ => None,
        };
        if let Some((election, term, applied_ms)) = shown {
            let grant = self.book.get(election);
            if let Some(grant) = grant.filter(|g| g.term > term && g.said_ms < applied_ms) {
                return Err(format!(
                    "election {election}: term {term} was accepted after term {}",
                    grant.term
                ));
            }
        }
        self.book.see(record);
        Ok(())
    }
}
