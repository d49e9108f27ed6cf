//! `bellwether lease show`.

use std::io::{self, Write};
use std::process::ExitCode;

use bellwether::Bellwether;
use bellwether::core::outcome::LeaseInfo;
use clap::Args;

use super::super::failure::{Ended, Failure};
use super::super::form::lease as form;
use super::super::human::{Span, Wall};
use super::super::reach::{Reach, did_you_mean};
use super::super::screen::Screen;
use super::super::table::pairs;

const EXAMPLES: &str = "\
Examples:
  bellwether lease show backup
  bellwether lease show backup --output json | jq .term";

/// One lease: who holds it, under which term, for how long.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Which lease.
    lease: String,
    #[command(flatten)]
    reach: Reach,
}

impl Show {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            show(screen, &find(store, &self.lease).await?)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// A lease that somebody once asked for.
pub(crate) async fn find(store: &Bellwether, name: &str) -> Result<LeaseInfo, Failure> {
    if let Some(info) = store.lease(name)?.info().await? {
        return Ok(info);
    }
    let leases = store.leases().await?;
    let near = did_you_mean(name, leases.iter().map(|info| info.name.as_str()));
    let next = near.unwrap_or_else(|| "`bellwether lease list` shows what there is".into());
    Err(Failure::NotThere(format!("nobody ever asked for lease {name:?}; {next}")))
}

/// Writes a lease down.
pub(crate) fn show(screen: &mut Screen<'_>, info: &LeaseInfo) -> io::Result<()> {
    if screen.is_json() {
        return screen.json(&form::to_json(info));
    }
    let nobody = || "nobody".to_owned();
    let waiting: Vec<String> = info.waiting.iter().map(ToString::to_string).collect();
    let mut lines = vec![
        ("lease", info.name.to_string()),
        ("kind", form::kind_name(info.kind).into()),
        ("state", form::state_name(info.state).into()),
        ("term", info.term.to_string()),
        ("granted", Wall(info.granted_at).to_string()),
        ("ttl", Span(info.ttl_ms).to_string()),
    ];
    if let Some(id) = info.id {
        lines.push(("left", Span(info.remaining_ms).to_string()));
        lines.push(("id", form::id(id)));
        lines.push(("holder", info.holder.map_or_else(nobody, |member| member.to_string())));
        lines.push(("metadata", info.metadata.clone()));
    }
    if info.slots != 1 {
        lines.push(("slots", format!("{}, {} held", info.slots, info.holders().count())));
    }
    for other in &info.others {
        let holder = other.holder.map_or_else(nobody, |member| member.to_string());
        let asked = if other.step_down_asked { ", asked to step down" } else { "" };
        let left = Span(other.remaining_ms);
        let says = &other.metadata;
        let line = format!("{holder} under term {}, {left} left{asked} {says}", other.term);
        lines.push(("and", line.trim_end().to_owned()));
    }
    if info.step_down_asked {
        lines.push(("asked", "somebody asked the holder to step down".into()));
    }
    if let Some(successor) = info.successor {
        lines.push(("successor", format!("{successor}, as somebody wished")));
    }
    if info.paused {
        lines.push(("paused", "nobody is granted it until it is resumed".into()));
    }
    lines.push(("waiting", if waiting.is_empty() { nobody() } else { waiting.join(" ") }));
    pairs(&lines).iter().try_for_each(|line| screen.line(line))
}
