//! `bellwether key revoke`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser as _};
use serde_json::json;

use super::super::failure::{Ended, Failure};
use super::super::screen::Screen;
use super::Kept;
use crate::access::file;
use crate::access::rule::{Rules, certificate_name};

const EXAMPLES: &str = "\
Examples:
  bellwether key revoke worker
  bellwether key revoke worker --token 1f0c93ab
  bellwether key revoke azure --signing
  bellwether key revoke agent --certificate spiffe://example.org/agent";

/// Take a credential back, or a rule with all of them; within a second it is of no use, also on open
/// connections.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Revoke {
    /// The name of the rule.
    rule: String,
    /// Only the token that begins so in `key list`.
    #[arg(long, value_name = "ID")]
    token: Option<String>,
    /// Only its keys for shared access signatures.
    #[arg(long)]
    signing: bool,
    /// Only this name in certificates.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new().map(certificate_name))]
    certificate: Option<String>,
    #[command(flatten)]
    kept: Kept,
}

impl Revoke {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let told = file::change(&self.kept.path(), |rules| self.take_back(rules))
            .map_err(Failure::NotThere)?;
        let rule = &self.rule;
        let sentence = format!("rule {rule:?}: {told}");
        Screen::new(out, self.kept.output)
            .say(&sentence, &json!({ "rule": rule, "revoked": told }))?;
        Ok(ExitCode::SUCCESS)
    }

    fn take_back(&self, rules: &mut Rules) -> Result<String, String> {
        let name = &self.rule;
        let Some(rule) = rules.0.iter_mut().find(|rule| rule.name == *name) else {
            return Err(format!("there is no rule {name:?}; `bellwether key list` shows them"));
        };
        let mut told = Vec::new();
        if let Some(id) = self.token.as_ref().map(|id| id.to_ascii_lowercase()) {
            let before = rule.tokens.len();
            rule.tokens.retain(|token| id.len() < 8 || !token.to_string().starts_with(&id));
            if rule.tokens.len() == before {
                return Err(format!(
                    "rule {name:?} has no token {id:?}; `bellwether key list` shows how they begin, \
                     with eight digits"
                ));
            }
            told.push(format!("token {id} was revoked"));
        }
        if let Some(certificate) = &self.certificate {
            let before = rule.certificates.len();
            rule.certificates.retain(|known| known != certificate);
            if rule.certificates.len() == before {
                return Err(format!("rule {name:?} has no certificate name {certificate:?}"));
            }
            told.push(format!("certificate name {certificate:?} was revoked"));
        }
        if self.signing {
            rule.keys.clear();
            told.push("its signing keys were revoked".into());
        }
        if told.is_empty() {
            rules.0.retain(|rule| rule.name != *name);
            told.push("revoked, with all its credentials".into());
        }
        Ok(told.join("; "))
    }
}
