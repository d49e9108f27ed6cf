//! `bellwether election history`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::Bellwether;
use bellwether::core::outcome::{LeftAs, TermInfo};
use clap::Args;
use serde_json::{Value, json};

use super::super::failure::{Ended, Failure};
use super::super::form::{lease as form, time};
use super::super::human::Wall;
use super::super::reach::Reach;
use super::super::table::Table;
use crate::ending::{self, EndedByName, LeftAsName};

const EXAMPLES: &str = "\
Examples:
  bellwether election history chores
  bellwether election history chores --output json | jq -r '.[-1].member'
  bellwether election history chores --data ./store";

/// Who led when: the last hundred terms of an election.
///
/// A store remembers the last 4096 grants of all its elections and leases, of each the last hundred.
/// When it is opened it reads them from its journal, as far as that still goes: units that hold nothing
/// but history are used again.
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
        self.reach.look(out, async |store, screen| {
            let terms = remembered(store, &self.election).await?;
            if screen.is_json() {
                screen.json(&Value::Array(terms.iter().map(as_json).collect()))?;
                return Ok(ExitCode::SUCCESS);
            }
            let mut table = Table::new(&[">TERM", "GRANTED", "KIND", "MEMBER", "SAYS", "LEFT AS"]);
            for term in &terms {
                table.row([
                    term.term.to_string(),
                    Wall(term.granted_at).to_string(),
                    form::kind_name(term.kind).into(),
                    term.holder.map_or(String::new(), |member| member.to_string()),
                    term.metadata.clone(),
                    left_as(term.left_as),
                ]);
            }
            screen.table(&table)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// The terms that the store remembers, the oldest first.
pub(super) async fn remembered(
    store: &Bellwether,
    election: &str,
) -> Result<Vec<TermInfo>, Failure> {
    let mut terms = store.election(election)?.history().await?;
    if terms.is_empty() {
        return Err(Failure::NotThere(format!("the store remembers no term of {election:?}")));
    }
    terms.reverse();
    Ok(terms)
}

/// The most that is known in one word, or two.
fn left_as(left_as: LeftAs) -> String {
    let word = match left_as {
        LeftAs::Ended { by, .. } => json!(EndedByName::from(by)),
        other => json!(LeftAsName::from(other)),
    };
    let word = word.as_str().unwrap_or_default().replace('_', "-");
    match ending::reason_of(left_as).map(|reason| json!(reason)) {
        Some(Value::String(reason)) => {
            let code =
                ending::exit_code_of(left_as).map_or(String::new(), |code| format!(" {code}"));
            format!("{word}: {}{code}", reason.replace('_', "-"))
        }
        _ => word,
    }
}

pub(super) fn as_json(term: &TermInfo) -> Value {
    let ended = match term.left_as {
        LeftAs::Ended { at, by } => Some((time(at), EndedByName::from(by))),
        _ => None,
    };
    let (ended_at, ended_by) = ended.unzip();
    json!({
        "term": term.term.0,
        "granted_at": time(term.granted_at),
        "kind": form::kind_name(term.kind),
        "member": term.holder.map(|member| member.to_string()),
        "metadata": term.metadata,
        "left_as": LeftAsName::from(term.left_as),
        "ended_at": ended_at,
        "ended_by": ended_by,
        "reason": ending::reason_of(term.left_as),
        "exit_code": ending::exit_code_of(term.left_as),
    })
}
