//! `bellwether lease`: leases that stand by themselves, and a look at all of them.

mod acquire;
#[path = "lease/break.rs"]
mod break_;
mod list;
mod release;
mod renew;
pub(super) mod show;

use std::io::Write;

use bellwether::{Grant, Ttl};
use clap::Subcommand;
use serde_json::json;

use super::failure::Ended;
use super::form;
use super::human::{Span, ms};
use super::screen::Screen;

/// Take, keep and give back leases.
#[derive(Debug, Subcommand)]
pub(crate) enum Lease {
    List(list::List),
    Show(show::Show),
    Acquire(acquire::Acquire),
    Renew(renew::Renew),
    Release(release::Release),
    Break(break_::Break),
}

impl Lease {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match self {
            Self::List(list) => list.run(out),
            Self::Show(show) => show.run(out),
            Self::Acquire(acquire) => acquire.run(out),
            Self::Renew(renew) => renew.run(out),
            Self::Release(release) => release.run(out),
            Self::Break(break_) => break_.run(out),
        }
    }
}

/// Writes down what was granted.
fn granted(screen: &mut Screen<'_>, name: &str, grant: &Grant) -> std::io::Result<()> {
    let ttl_ms = match grant.ttl {
        Ttl::Fixed(ttl) => ms(ttl),
        Ttl::Infinite => u64::MAX,
    };
    let (id, term) = (form::lease::id(grant.id), grant.term);
    let ttl = Span(ttl_ms);
    screen.say(
        &format!("lease {name:?} is held under term {term}, for {ttl} without a renewal\nid {id}"),
        &json!({ "lease": name, "id": id, "term": term.0, "ttl_ms": form::span(ttl_ms) }),
    )
}
