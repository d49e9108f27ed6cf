//! `bellwether election history`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use bellwether::journal::file::{RealDisk, Visitor, dump};
use bellwether::journal::{FrameNumber, Prepared};
use bellwether_core::change::Change;
use bellwether_core::lease::{Hold, Lease};
use bellwether_core::name::{MemberId, MemberSlot};
use clap::Args;
use serde_json::{Value, json};

use super::super::failure::{Ended, Failure};
use super::super::form::{lease as form, time};
use super::super::human::Wall;
use super::super::journal::show::each_change;
use super::super::reach::Reach;
use super::super::screen::Screen;
use super::super::table::Table;

const EXAMPLES: &str = "\
Examples:
  bellwether election history chores --data ./store
  bellwether election history chores --data ./store --output json";

const NO_SERVER: &str = "a server tells no history of its elections on the wire; `election watch` follows \
    one from now on, and with --data DIR the history is read from the journal of a closed store";

/// Who led when, as far as a store's journal still tells.
///
/// Reads the journal of a closed store, named with --data, and changes nothing in it. Units that
/// hold nothing but history are used again, so the past is not there for ever.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct History {
    /// Which election.
    election: String,
    #[command(flatten)]
    reach: Reach,
}

impl History {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let dir = self.reach.folder().ok_or(Failure::NotHere(NO_SERVER))?;
        let told = read(dir, &self.election)?;
        let mut screen = Screen::new(out, self.reach.output);
        if told.terms.is_empty() {
            return Err(Failure::NotThere(format!(
                "the journal tells of no term of {:?}",
                self.election
            )));
        }
        if screen.is_json() {
            let terms = told.terms.values().map(|lease| told.json(lease)).collect();
            screen.json(&Value::Array(terms))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new(&[">TERM", "GRANTED", "KIND", "MEMBER", "SAYS", "LEFT AS"]);
        for lease in told.terms.values() {
            table.row([
                lease.term.to_string(),
                Wall(lease.granted_at).to_string(),
                form::kind_name(lease.kind).into(),
                told.member(lease.member),
                lease.metadata.clone(),
                left_as(lease.hold).into(),
            ]);
        }
        screen.table(&table)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn left_as(hold: Hold) -> &'static str {
    match hold {
        Hold::Free => "released",
        Hold::Held { .. } => "held",
        Hold::Broken { .. } => "broken",
    }
}

/// What the journal tells of one election.
struct Told<'a> {
    election: &'a str,
    /// The last record of each term.
    terms: BTreeMap<u64, Lease>,
    members: BTreeMap<MemberSlot, MemberId>,
}

impl Told<'_> {
    fn member(&self, slot: MemberSlot) -> String {
        self.members.get(&slot).map_or(String::new(), ToString::to_string)
    }

    fn json(&self, lease: &Lease) -> Value {
        json!({
            "term": lease.term.0,
            "granted_at": time(lease.granted_at),
            "kind": form::kind_name(lease.kind),
            "member": self.members.get(&lease.member).map(ToString::to_string),
            "metadata": lease.metadata,
            "left_as": left_as(lease.hold),
        })
    }

    fn changes(&mut self, payload: &[u8]) -> Result<(), String> {
        each_change(payload, |shown| {
            match &shown.change {
                Change::Member { slot, id, .. } => {
                    self.members.insert(*slot, *id);
                }
                Change::Lease { name, lease } if name.as_str() == self.election => {
                    self.terms.insert(lease.term.0, (**lease).clone());
                }
                _ => {}
            }
            Ok(())
        })
    }
}

impl Visitor for Told<'_> {
    fn block(&mut self, _: u64, block: &[u8]) -> Result<(), String> {
        self.changes(block)
    }

    fn frame(&mut self, _: Prepared, _: FrameNumber, payload: &[u8]) -> Result<(), String> {
        self.changes(payload)
    }
}

fn read<'a>(dir: &Path, election: &'a str) -> Result<Told<'a>, Failure> {
    let mut told = Told { election, terms: BTreeMap::new(), members: BTreeMap::new() };
    if !bellwether::journal::file::has_store(dir)
        .map_err(|error| Failure::Input { what: dir.display().to_string(), error })?
    {
        return Err(Failure::NoStore(dir.display().to_string()));
    }
    dump(Arc::new(RealDisk), dir, &mut told)?;
    Ok(told)
}
