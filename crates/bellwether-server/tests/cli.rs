//! The command line, as people and scripts see it: what is written, where, and how it ends.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]

#[path = "cli/backing_up.rs"]
mod backing_up;
#[path = "cli/carrying.rs"]
mod carrying;
#[path = "cli/chaos.rs"]
mod chaos;
#[path = "cli/dead_letters.rs"]
mod dead_letters;
#[path = "cli/documented.rs"]
mod documented;
#[path = "cli/explaining.rs"]
mod explaining;
#[path = "cli/following.rs"]
mod following;
#[path = "cli/jobs.rs"]
mod jobs;
#[path = "cli/leases.rs"]
mod leases;
#[path = "cli/measuring.rs"]
mod measuring;
#[path = "cli/messages.rs"]
mod messages;
#[path = "cli/queues.rs"]
mod queues;
#[path = "cli/reaching.rs"]
mod reaching;
#[path = "cli/served.rs"]
mod served;
#[path = "cli/store.rs"]
mod store;
#[path = "cli/terminal.rs"]
mod terminal;
