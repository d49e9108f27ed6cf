//! E9: whoever shows an old term, or the id of an earlier tenure, renews and releases nothing; nor
//! does a holder whose lease has ended renew it.

use super::Invariant;
use super::lease_book::LeaseBook;
use crate::history::{Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    book: LeaseBook,
}

impl Check {
    fn newest(&self, election: u8, term: u64, applied_ms: u64) -> Result<(), String> {
        let newer = self.book.get(election);
        match newer.filter(|grant| grant.term > term && grant.since_ms < applied_ms) {
            Some(newer) => Err(format!(
                "election {election}: term {term} was accepted after term {}",
                newer.term
            )),
            None => Ok(()),
        }
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "E9 old_term_refused"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::Kept { election, term, ok: true, stood, applied_ms, .. } => {
                self.newest(*election, *term, *applied_ms)?;
                if !stood {
                    return Err(format!("election {election}: term {term} was over and is kept"));
                }
            }
            What::RenewedById { election, id, term, stood, applied_ms } => {
                self.newest(*election, *term, *applied_ms)?;
                if !stood {
                    return Err(format!("election {election}: {id} was over and is renewed"));
                }
            }
            What::Released { election, id, ok: true, stood: false, .. } => {
                return Err(format!("election {election}: {id} did not hold and released"));
            }
            _ => {}
        }
        self.book.see(record);
        Ok(())
    }
}
