//! What came of a drill.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::super::measure::{Samples, shown};
use super::super::super::screen::Screen;
use super::super::super::table::Table;
use super::Fault;
use crate::drill::{History, Rules, Tally, Violation, check};

/// Per kind of fault: those after which somebody led, and how many there were.
#[derive(Default)]
struct Failovers {
    times: Samples,
    faults: usize,
    unfollowed: usize,
}

/// See the module.
pub(super) struct Report {
    election: String,
    seed: u64,
    failovers: BTreeMap<Fault, Failovers>,
    tally: Tally,
    violations: Vec<Violation>,
}

impl Report {
    pub(super) fn new(election: &str, seed: u64) -> Self {
        Self {
            election: election.into(),
            seed,
            failovers: BTreeMap::new(),
            tally: Tally::default(),
            violations: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, fault: Fault, followed: Option<Duration>) {
        let failovers = self.failovers.entry(fault).or_default();
        failovers.faults += 1;
        match followed {
            Some(after) => failovers.times.push(after),
            None => failovers.unfollowed += 1,
        }
    }

    /// Whether all was well.
    pub(super) fn judge(&mut self, history: &History, heals: bool) -> bool {
        (self.tally, self.violations) = check(history, Rules::default());
        if !heals && !self.violations.contains(&Violation::Leaderless) {
            self.violations.push(Violation::Leaderless);
        }
        self.violations.is_empty() && self.unfollowed() == 0
    }

    fn unfollowed(&self) -> usize {
        self.failovers.values().map(|failovers| failovers.unfollowed).sum()
    }

    fn overlaps(&self) -> usize {
        self.violations.iter().filter(|v| matches!(v, Violation::Overlap { .. })).count()
    }

    fn old_writes(&self) -> usize {
        self.violations.iter().filter(|v| matches!(v, Violation::OldWrite { .. })).count()
    }

    pub(super) fn tell(&self, screen: &mut Screen<'_>, kept: Option<&Path>) -> io::Result<()> {
        if screen.is_json() {
            return screen.json(&self.json(kept));
        }
        let mut table =
            Table::new(&["FAULT", ">FAULTS", ">FOLLOWED", ">MEDIAN", ">99 %", ">WORST"]);
        for (fault, failovers) in &self.failovers {
            let of = |percent| shown(failovers.times.percentile(percent));
            let followed = failovers.faults - failovers.unfollowed;
            table.row([
                fault.name().into(),
                failovers.faults.to_string(),
                followed.to_string(),
                of(50),
                of(99),
                shown(failovers.times.max()),
            ]);
        }
        screen.table(&table)?;
        let Tally { terms, accepted, refused, .. } = self.tally;
        screen.line(&format!("election {:?}, {terms} terms led", self.election))?;
        screen.line(&format!("overlaps: {}", self.overlaps()))?;
        screen.line(&format!(
            "old writes accepted: {}, refused: {refused}, of {} in all",
            self.old_writes(),
            accepted + refused,
        ))?;
        for violation in &self.violations {
            screen.line(&format!("WRONG: {violation}"))?;
        }
        match kept {
            Some(kept) => screen.line(&format!("the history is in {}", kept.display())),
            None => Ok(()),
        }
    }

    fn json(&self, kept: Option<&Path>) -> Value {
        let faults = self.failovers.iter().map(|(fault, failovers)| {
            let mut value = failovers.times.json();
            value["faults"] = json!(failovers.faults);
            value["unfollowed"] = json!(failovers.unfollowed);
            (fault.name().to_owned(), value)
        });
        let violations = self.violations.iter().map(ToString::to_string);
        json!({
            "election": self.election,
            "seed": self.seed,
            "faults": faults.collect::<serde_json::Map<_, _>>(),
            "terms": self.tally.terms,
            "overlaps": self.overlaps(),
            "old_writes_accepted": self.old_writes(),
            "old_writes_refused": self.tally.refused,
            "writes_accepted": self.tally.accepted,
            "violations": violations.collect::<Vec<_>>(),
            "history": kept.map(|kept| kept.display().to_string()),
        })
    }
}
