//! `bellwether key sign`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::super::failure::{Ended, Failure};
use super::super::human::{ms, parse_duration};
use super::super::reach::now;
use super::super::screen::Screen;
use super::Kept;
use crate::access::{file, sas};

const EXAMPLES: &str = "\
Examples:
  bellwether key sign azure --for 1h
  bellwether key sign azure --for 30d --name orders
  bellwether key sign azure --for 1h --second";

/// Make a shared access signature with a key of a rule: a credential that ends by itself.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Sign {
    /// The name of the rule.
    rule: String,
    /// How long it counts, as 90s, 15m, 12h or 7d.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    time: Duration,
    /// Only for this name and what is under it.
    #[arg(long, value_name = "NAME", default_value = "")]
    name: String,
    /// With the older of the two keys.
    #[arg(long)]
    second: bool,
    #[command(flatten)]
    kept: Kept,
}

impl Sign {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let rules = file::read(&self.kept.path()).map_err(Failure::BadInput)?.unwrap_or_default();
        let rule = &self.rule;
        let known = rules.find(rule).ok_or_else(|| {
            Failure::NotThere(format!(
                "there is no rule {rule:?}; `bellwether key list` names them"
            ))
        })?;
        let key = known.keys.get(usize::from(self.second)).ok_or_else(|| {
            Failure::NotThere(format!(
                "rule {rule:?} has no such key to sign with; `bellwether key create {rule} --signing`"
            ))
        })?;
        let expires_at = (now().0 + ms(self.time)) / 1000;
        let resource = format!("sb://bellwether/{}", self.name);
        let signed = sas::sign_for(rule, key, &resource, expires_at);
        let value =
            json!({ "rule": rule, "credential": signed.reveal(), "expires_at": expires_at });
        Screen::new(out, self.kept.output).say(signed.reveal(), &value)?;
        Ok(ExitCode::SUCCESS)
    }
}
