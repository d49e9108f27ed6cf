//! What the ledger promises, told as stories. Numbers cite the invariant they
//! prove.

#![allow(clippy::unwrap_used, reason = "a helper of a test is a test")]
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]

#[path = "ledger/deliveries.rs"]
mod deliveries;
#[path = "ledger/explaining.rs"]
mod explaining;
#[path = "ledger/fences.rs"]
mod fences;
#[path = "ledger/forwarding.rs"]
mod forwarding;
#[path = "ledger/importing.rs"]
mod importing;
#[path = "ledger/jobs.rs"]
mod jobs;
#[path = "ledger/leases.rs"]
mod leases;
#[path = "ledger/queues.rs"]
mod queues;
#[path = "ledger/restart.rs"]
mod restart;
#[path = "ledger/retries.rs"]
mod retries;
#[path = "ledger/schedules.rs"]
mod schedules;
#[path = "ledger/sending.rs"]
mod sending;
#[path = "ledger/sessions.rs"]
mod sessions;
#[path = "ledger/slots.rs"]
mod slots;
#[path = "ledger/stats.rs"]
mod stats;
#[path = "ledger/steering.rs"]
mod steering;
#[path = "ledger/store.rs"]
mod store;
