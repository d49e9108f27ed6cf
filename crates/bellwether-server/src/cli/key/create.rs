//! `bellwether key create`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::core::right::{Grant, Grants, Realm};
use clap::Args;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser as _};
use serde_json::json;

use super::super::failure::{Ended, Failure};
use super::super::screen::Screen;
use super::Kept;
use crate::access::file;
use crate::access::rule::{Rule, Rules, certificate_name, check_name, parse_grant};
use crate::access::secret::{Fingerprint, Secret};

const EXAMPLES: &str = "\
Examples:
  bellwether key create worker --queues 'listen,send=orders/*' --elections send=nightly
  bellwether key create admin --queues 'manage=*' --elections 'manage=*'
  bellwether key create worker
  bellwether key create azure --queues listen,send=orders --signing
  bellwether key create azure --signing
  bellwether key create agent --queues send=orders --certificate spiffe://example.org/agent
  bellwether key create mail --queues 'listen=mail/$dead' --keys /etc/bellwether/keys.json";

/// Make a credential, and its rule if there is none.
///
/// A rule has rights (listen, send, manage) on names: one, those under a prefix (orders/*), all (*),
/// or the dead letters of a queue (orders/$dead). Without --signing or --certificate a token is made.
/// It is shown once; only its SHA-256 is kept. Keys to sign with are kept as they are.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Create {
    /// The name of the rule.
    rule: String,
    /// Rights on queues, as listen,send=orders/*; may be given several times.
    #[arg(long, value_name = "RIGHTS=NAMES")]
    queues: Vec<String>,
    /// Rights on elections: listen observes, send campaigns, manage breaks and asks to step down.
    #[arg(long, value_name = "RIGHTS=NAMES")]
    elections: Vec<String>,
    /// Make a key for shared access signatures. The newest two count.
    #[arg(long)]
    signing: bool,
    /// A name (DNS or URI) in the certificates of clients that the rule is for.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new().map(certificate_name))]
    certificate: Vec<String>,
    #[command(flatten)]
    kept: Kept,
}

/// What was made.
struct Made {
    existed: bool,
    token: Option<Secret>,
    keys: Vec<Secret>,
}

fn parse_grants(realm: Realm, texts: &[String]) -> Result<Vec<Grant>, Failure> {
    texts.iter().map(|text| parse_grant(realm, text).map_err(Failure::Usage)).collect()
}

impl Create {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        check_name(&self.rule).map_err(Failure::Usage)?;
        let mut grants = parse_grants(Realm::Queues, &self.queues)?;
        grants.extend(parse_grants(Realm::Elections, &self.elections)?);
        let made = file::change(&self.kept.path(), |rules| self.make(rules, grants))
            .map_err(Failure::BadInput)?;
        self.tell(&mut Screen::new(out, self.kept.output), &made)
    }

    fn make(&self, rules: &mut Rules, grants: Vec<Grant>) -> Result<Made, String> {
        let name = &self.rule;
        let existed = rules.find(name).is_some();
        if existed && !grants.is_empty() {
            return Err(format!(
                "there is a rule {name:?} with rights of its own; leave out --queues and \
                 --elections to add a credential, or revoke it first"
            ));
        }
        if !existed && grants.is_empty() {
            return Err(format!(
                "there is no rule {name:?}; say what it may do, as in --queues listen=orders"
            ));
        }
        let taken = |name: &&String| rules.0.iter().any(|rule| rule.certificates.contains(name));
        if let Some(taken) = self.certificate.iter().find(taken) {
            return Err(format!("a rule is known by the certificate name {taken:?} already"));
        }
        if !existed {
            rules.0.push(Rule::new(name, Grants(grants)));
        }
        let rule = rules.0.iter_mut().find(|rule| rule.name == *name).ok_or("it is not there")?;
        rule.certificates.extend(self.certificate.iter().cloned());
        let token = if self.signing || !self.certificate.is_empty() {
            None
        } else {
            let token = Secret::new_token()?;
            rule.tokens.push(Fingerprint::of(token.reveal()));
            Some(token)
        };
        if self.signing {
            // A rule begins with both, so that the first change needs no second thought.
            let new = if rule.keys.is_empty() { 2 } else { 1 };
            for _ in 0..new {
                rule.keys.insert(0, Secret::new_key()?);
            }
            rule.keys.truncate(2);
        }
        let keys = if self.signing { rule.keys.clone() } else { Vec::new() };
        Ok(Made { existed, token, keys })
    }

    fn tell(&self, screen: &mut Screen<'_>, made: &Made) -> Ended {
        let name = &self.rule;
        let keys: Vec<_> = made.keys.iter().map(Secret::reveal).collect();
        if screen.is_json() {
            screen.json(&json!({
                "rule": name,
                "existed": made.existed,
                "token": made.token.as_ref().map(Secret::reveal),
                "signing_keys": keys,
                "certificates": self.certificate,
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(token) = &made.token {
            // Alone on stdout, so that it can go straight into a file.
            screen.line(token.reveal())?;
            eprintln!("rule {name:?}: this token is not shown again");
        }
        for key in keys {
            screen.line(key)?;
        }
        if !made.keys.is_empty() {
            eprintln!("rule {name:?}: both keys count; the first is the newest");
        }
        if !self.certificate.is_empty() {
            screen.line(&format!("rule {name:?} is known by its certificate"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
