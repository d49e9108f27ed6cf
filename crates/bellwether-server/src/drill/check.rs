//! What must never have happened, looked for in a history. A function of it, and of nothing else.
//!
//! 1. *A term has one leader, and terms grow* (E1, E2): in the order in which they are led, and for
//!    each process.
//! 2. *One leads at a time* (E4, E5): a belief lasts from the moment a process says that it leads until
//!    its trust is over, it says that it has stopped, or it was killed. No two of them meet.
//! 3. *No old write* (E6): the fenced file never accepts a term after a newer one, nor one that
//!    nobody was granted, and keeps what it acknowledged.
//! 4. *Somebody leads again* (E10): after the faults have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::event::{Event, History, Op, Phase};

/// What is allowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// By how much two beliefs may seem to meet: the grain of the clock they were written down with.
    pub grain_ns: u64,
    /// The clocks ran further apart than leases allow for: beliefs may meet, and only the fence holds.
    pub beyond_drift: bool,
}

/// What there was to check. Where nothing happened nothing is proved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Terms that somebody led.
    pub terms: usize,
    /// Faults that were made.
    pub faults: usize,
    /// Writes that the fenced file accepted.
    pub accepted: usize,
    /// Writes that it refused, because a newer term had written.
    pub refused: usize,
}

/// What must never happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two were told that they have the same term. (E2)
    TermTwice {
        /// The term.
        term: u64,
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// A smaller term was led after a greater one. (E1)
    TermBack {
        /// The smaller one.
        term: u64,
        /// The greater one.
        after: u64,
        /// Who led under the smaller one.
        proc: String,
    },
    /// Two believed to lead at the same time. (E5)
    Overlap {
        /// The term that began first.
        first: u64,
        /// The one that began before that was over.
        second: u64,
        /// For how long.
        ns: u64,
    },
    /// The fenced file accepted a write after one of a newer term. (E6)
    OldWrite {
        /// The old term.
        term: u64,
        /// The newer one.
        newest: u64,
    },
    /// A write was accepted under a term that its writer was never granted.
    Ungranted {
        /// The term.
        term: u64,
        /// The writer.
        proc: String,
    },
    /// A write was acknowledged, and is not in the file.
    LostWrite {
        /// The term.
        term: u64,
        /// The writer.
        proc: String,
        /// Its number.
        op_id: u64,
    },
    /// The faults have ended, and nobody leads. (E10)
    Leaderless,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TermTwice { term, first, second } => {
                write!(f, "term {term} was granted to {first} and to {second}")
            }
            Self::TermBack { term, after, proc } => {
                write!(f, "{proc} led under term {term} after term {after}")
            }
            Self::Overlap { first, second, ns } => {
                let (ms, us) = (ns / 1_000_000, ns / 1_000 % 1_000);
                write!(f, "terms {first} and {second} were led at once for {ms}.{us:03} ms")
            }
            Self::OldWrite { term, newest } => {
                write!(f, "a write of term {term} was accepted after one of term {newest}")
            }
            Self::Ungranted { term, proc } => {
                write!(f, "{proc} wrote under term {term}, which it was never granted")
            }
            Self::LostWrite { term, proc, op_id } => {
                write!(f, "write {op_id} of {proc} under term {term} was acknowledged and is gone")
            }
            Self::Leaderless => f.write_str("the faults have ended, and nobody leads"),
        }
    }
}

/// One process's belief that it leads.
#[derive(Clone, Debug)]
struct Belief<'a> {
    term: u64,
    proc: &'a str,
    from_ns: u64,
    until_ns: u64,
}

/// Looks at the history of one election.
pub fn check(history: &History, rules: Rules) -> (Tally, Vec<Violation>) {
    let mut found = Vec::new();
    let beliefs = beliefs(&history.events);
    terms(&beliefs, &mut found);
    if !rules.beyond_drift {
        order(&beliefs, rules.grain_ns, &mut found);
    }
    writes(history, &beliefs, &mut found);
    if is_leaderless(&history.events) {
        found.push(Violation::Leaderless);
    }
    let of = |op, phase| {
        history.events.iter().filter(move |event| event.op == op && event.phase == phase).count()
    };
    let tally = Tally {
        terms: beliefs.iter().map(|belief| belief.term).collect::<BTreeSet<_>>().len(),
        faults: of(Op::Fault, Phase::Invoke),
        accepted: history.accepted.len(),
        refused: of(Op::Write, Phase::Fail),
    };
    (tally, found)
}

/// By when they began.
fn beliefs(events: &[Event]) -> Vec<Belief<'_>> {
    let mut found: BTreeMap<(&str, u64), Belief<'_>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.op == Op::Lead) {
        let Some(term) = event.term else { continue };
        let (proc, from_ns) = (event.proc.as_str(), event.t_boot_ns);
        let belief = Belief { term, proc, from_ns, until_ns: 0 };
        let belief = found.entry((proc, term)).or_insert(belief);
        belief.from_ns = belief.from_ns.min(from_ns);
    }
    for event in events.iter().filter(|event| matches!(event.op, Op::Lead | Op::Trust)) {
        let Some(belief) = event.term.and_then(|term| found.get_mut(&(event.proc.as_str(), term)))
        else {
            continue;
        };
        belief.until_ns = belief.until_ns.max(event.trusted_until_ns.unwrap_or(0));
    }
    for event in events {
        let (proc, terms) = match (event.op, event.term, &event.target) {
            (Op::Stop, Some(term), _) => (event.proc.as_str(), term..=term),
            (Op::Kill, _, Some(target)) => (target.as_str(), 0..=u64::MAX),
            _ => continue,
        };
        for (_, belief) in found.range_mut((proc, *terms.start())..=(proc, *terms.end())) {
            belief.until_ns = belief.until_ns.min(event.t_boot_ns);
        }
    }
    let mut beliefs: Vec<_> = found.into_values().collect();
    beliefs.sort_by_key(|belief| (belief.from_ns, belief.term));
    beliefs
}

/// Terms by themselves.
fn terms(beliefs: &[Belief<'_>], found: &mut Vec<Violation>) {
    let mut holders: BTreeMap<u64, &str> = BTreeMap::new();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for Belief { term, proc, .. } in beliefs {
        match holders.insert(*term, proc) {
            Some(first) if first != *proc => {
                let (first, second) = (first.to_owned(), (*proc).to_owned());
                found.push(Violation::TermTwice { term: *term, first, second });
            }
            _ => {}
        }
        match last.insert(proc, *term) {
            Some(after) if after > *term => {
                found.push(Violation::TermBack { term: *term, after, proc: (*proc).to_owned() });
            }
            _ => {}
        }
    }
}

/// Beliefs beside each other. A process that was frozen between its grant and its word of it may say so
/// when its trust has been over for long: that is no belief.
fn order(beliefs: &[Belief<'_>], grain_ns: u64, found: &mut Vec<Violation>) {
    let mut before: Option<&Belief<'_>> = None;
    let mut newest = 0;
    for belief in beliefs.iter().filter(|belief| belief.from_ns < belief.until_ns) {
        if let Some(before) = before {
            let ns = before.until_ns.min(belief.until_ns).saturating_sub(belief.from_ns);
            if ns > grain_ns && before.term != belief.term {
                let (first, second) = (before.term, belief.term);
                found.push(Violation::Overlap { first, second, ns });
            }
        }
        if belief.term < newest {
            let (term, proc) = (belief.term, belief.proc.to_owned());
            found.push(Violation::TermBack { term, after: newest, proc });
        }
        newest = newest.max(belief.term);
        // The one that lasts longest is the one that others may meet.
        if before.is_none_or(|before| before.until_ns <= belief.until_ns) {
            before = Some(belief);
        }
    }
}

fn writes(history: &History, beliefs: &[Belief<'_>], found: &mut Vec<Violation>) {
    let granted: BTreeSet<_> = beliefs.iter().map(|belief| (belief.proc, belief.term)).collect();
    let mut newest = 0;
    let mut kept = BTreeSet::new();
    for write in &history.accepted {
        if write.term < newest {
            found.push(Violation::OldWrite { term: write.term, newest });
        }
        newest = newest.max(write.term);
        if !granted.contains(&(write.proc.as_str(), write.term)) {
            found.push(Violation::Ungranted { term: write.term, proc: write.proc.clone() });
        }
        kept.insert((write.proc.as_str(), write.op_id));
    }
    let acknowledged = history.events.iter().filter(|e| e.op == Op::Write && e.phase == Phase::Ok);
    for write in acknowledged.filter(|e| !kept.contains(&(e.proc.as_str(), e.op_id))) {
        let (term, proc) = (write.term.unwrap_or(0), write.proc.clone());
        found.push(Violation::LostWrite { term, proc, op_id: write.op_id });
    }
}

/// A leader's first word after the last fault, or its next renewal.
fn is_leaderless(events: &[Event]) -> bool {
    let healed = events.iter().filter(|event| event.op == Op::Heal).map(|event| event.t_boot_ns);
    let Some(healed) = healed.max() else { return false };
    !events.iter().any(|event| {
        let is_lead = matches!(event.op, Op::Lead | Op::Trust);
        is_lead && event.t_boot_ns > healed && event.trusted_until_ns > Some(event.t_boot_ns)
    })
}

#[cfg(test)]
mod tests;
