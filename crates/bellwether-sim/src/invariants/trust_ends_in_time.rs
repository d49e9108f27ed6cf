//! E4: a holder trusts its lease no longer than 80 % of the ttl, on its own clock, counted from
//! when it sent the last ask or renewal that was answered.

use bellwether_core::limits::LEASE_TRUST_PERCENT;

use super::Invariant;
use crate::history::{Record, What};

#[derive(Debug)]
pub(super) struct Check;

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "E4 trust_ends_in_time"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        let What::Believes { member, until_ms, asked_ms, ttl_ms, .. } = &record.what else {
            return Ok(());
        };
        let allowed = asked_ms + ttl_ms * LEASE_TRUST_PERCENT / 100;
        if *until_ms <= allowed {
            Ok(())
        } else {
            Err(format!("member {member} trusts until {until_ms} ms, allowed is {allowed} ms"))
        }
    }
}
