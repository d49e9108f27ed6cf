//! `bellwether key list`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::core::right::Realm;
use clap::Args;
use serde_json::{Value, json};

use super::super::failure::{Ended, Failure};
use super::super::screen::Screen;
use super::super::table::Table;
use super::Kept;
use crate::access::file;
use crate::access::rule::{Rule, write_grant};
use crate::access::secret::Fingerprint;

const EXAMPLES: &str = "\
Examples:
  bellwether key list
  bellwether key list --data /var/lib/bellwether --output json";

/// All rules: what they may do, and by what they are known.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    kept: Kept,
}

fn grants(rule: &Rule, realm: Realm) -> Vec<String> {
    rule.grants.0.iter().filter(|grant| grant.realm == realm).map(write_grant).collect()
}

fn tokens(rule: &Rule) -> Vec<String> {
    rule.tokens.iter().map(Fingerprint::short).collect()
}

fn to_json(rule: &Rule) -> Value {
    json!({
        "rule": rule.name,
        "queues": grants(rule, Realm::Queues),
        "elections": grants(rule, Realm::Elections),
        "tokens": tokens(rule),
        "signing_keys": rule.keys.len(),
        "certificates": rule.certificates,
    })
}

impl List {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let path = self.kept.path();
        let rules = file::read(&path).map_err(Failure::BadInput)?.ok_or_else(|| {
            let path = path.display();
            Failure::NotThere(format!("there is no file of rules {path}; `bellwether key create`"))
        })?;
        let mut screen = Screen::new(out, self.kept.output);
        if screen.is_json() {
            screen.json(&Value::Array(rules.0.iter().map(to_json).collect()))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table =
            Table::new(&["RULE", "QUEUES", "ELECTIONS", "TOKENS", ">SIGNING KEYS", "CERTIFICATES"]);
        for rule in &rules.0 {
            table.row([
                rule.name.clone(),
                grants(rule, Realm::Queues).join(" "),
                grants(rule, Realm::Elections).join(" "),
                tokens(rule).join(" "),
                rule.keys.len().to_string(),
                rule.certificates.join(" "),
            ]);
        }
        screen.table(&table)?;
        Ok(ExitCode::SUCCESS)
    }
}
