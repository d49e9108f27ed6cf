//! Rules: who is known, by what, and what for.

use bellwether::core::right::{Grant, Grants, Realm, Right, Scope};
use serde::{Deserialize, Serialize};

use super::sas::{self, Signature};
use super::secret::{Fingerprint, Secret};
use crate::serve::peer::Peer;

/// The longest name of a rule: it becomes a part of what members say of themselves.
const NAME_BYTES_MAX: usize = 64;

/// One rule: rights, and the credentials that give them.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) grants: Grants,
    /// Of the tokens only this is kept.
    pub(crate) tokens: Vec<Fingerprint>,
    /// Keys to sign with, the newest first; at most two.
    pub(crate) keys: Vec<Secret>,
    /// Names in the certificates of clients.
    pub(crate) certificates: Vec<String>,
}

/// By what somebody is known: what must still be there for him to stay.
#[derive(Clone, Debug)]
pub(crate) enum Proof {
    Token(Fingerprint),
    Signature {
        key: Secret,
        expires_at: u64,
        narrowed_to: String,
    },
    Certificate {
        name: String,
        last_second: u64,
    },
    /// It came by a way that only this user has.
    Socket,
}

impl Rule {
    pub(crate) fn new(name: &str, grants: Grants) -> Self {
        let (tokens, keys, certificates) = Default::default();
        Self { name: name.to_owned(), grants, tokens, keys, certificates }
    }

    /// What it gives to whoever is known by `proof`, at this second; `None` if nothing any more.
    pub(super) fn gives(&self, proof: &Proof, now_s: u64) -> Option<Grants> {
        match proof {
            Proof::Token(token) => self.tokens.contains(token).then(|| self.grants.clone()),
            Proof::Certificate { name, last_second } => {
                let counts = self.certificates.contains(name) && now_s <= *last_second;
                counts.then(|| self.grants.clone())
            }
            Proof::Signature { key, expires_at, narrowed_to } => {
                let counts = self.keys.contains(key) && now_s < *expires_at;
                counts.then(|| match narrowed_to.as_str() {
                    "" => self.grants.clone(),
                    name => self.grants.narrowed(name),
                })
            }
            Proof::Socket => Some(Grants::all()),
        }
    }
}

/// All rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(pub(crate) Vec<Rule>);

impl Rules {
    pub(crate) fn find(&self, name: &str) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.name == name)
    }

    /// Whose token that is.
    pub(super) fn by_token(&self, token: &str) -> Option<(&Rule, Proof)> {
        let shown = Fingerprint::of(token);
        let known = self.0.iter().find(|rule| rule.tokens.contains(&shown))?;
        Some((known, Proof::Token(shown)))
    }

    /// Whose signature that is; whether it counts still is another question.
    pub(super) fn by_signature(&self, text: &str) -> Option<(&Rule, Proof)> {
        let read = Signature::parse(text)?;
        let narrowed_to = read.narrowed_to()?;
        let rule = self.find(&read.rule);
        // Whether there is such a rule is not told by how long it takes.
        let nobodys = [Secret::of("nobody's")];
        let keys = rule.map_or(&nobodys[..], |rule| &rule.keys);
        let key =
            keys.iter().fold(None, |found, key| if read.is_of(key) { Some(key) } else { found })?;
        let expires_at = read.expires_at;
        Some((rule?, Proof::Signature { key: key.clone(), expires_at, narrowed_to }))
    }

    /// Who is known by one of the names in a certificate; whether it counts still is another question.
    pub(super) fn by_certificate(&self, peer: &Peer) -> Option<(&Rule, Proof)> {
        peer.names().iter().find_map(|name| {
            let rule = self.0.iter().find(|rule| rule.certificates.contains(name))?;
            let (name, last_second) = (name.clone(), peer.last_second());
            Some((rule, Proof::Certificate { name, last_second }))
        })
    }

    /// Whose credential that is.
    pub(super) fn by_credential(&self, credential: &str) -> Option<(&Rule, Proof)> {
        match credential.strip_prefix(sas::MARK) {
            Some(signature) => self.by_signature(signature),
            None => self.by_token(credential),
        }
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_of = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_of) {
        return Err(format!(
            "{name:?} cannot be the name of a rule: it has 1 to {NAME_BYTES_MAX} letters, digits, \
             dots, dashes and underscores"
        ));
    }
    Ok(())
}

/// A name in certificates as it is compared: hosts in lower case; only a URI has a colon in it.
pub(crate) fn certificate_name(text: String) -> String {
    if text.contains(':') { text } else { text.to_ascii_lowercase() }
}

/// Reads `listen,send=orders/*`.
pub(crate) fn parse_grant(realm: Realm, text: &str) -> Result<Grant, String> {
    let wrong = |why: String| Err(format!("{text:?}: {why}; write it as listen,send=orders/*"));
    let Some((words, scope)) = text.split_once('=') else {
        return wrong("there is no = between the rights and the names".into());
    };
    let mut rights = Vec::new();
    for word in words.split(',') {
        match Right::of_word(word.trim()) {
            Some(right) => rights.push(right),
            None => return wrong(format!("{word:?} is no right; there are listen, send, manage")),
        }
    }
    match Scope::parse(realm, scope) {
        Ok(scope) => Ok(Grant { realm, scope, rights }),
        Err(why) => wrong(why.to_string()),
    }
}

pub(crate) fn write_grant(grant: &Grant) -> String {
    let words: Vec<_> = grant.rights.iter().map(|right| right.word()).collect();
    format!("{}={}", words.join(","), grant.scope)
}

/// A rule as it is kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    queues: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    elections: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tokens_sha256: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    signing_keys: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    certificates: Vec<String>,
}

impl From<&Rule> for Kept {
    fn from(rule: &Rule) -> Self {
        let of = |realm| {
            let grants = rule.grants.0.iter().filter(move |grant| grant.realm == realm);
            grants.map(write_grant).collect()
        };
        Self {
            name: rule.name.clone(),
            queues: of(Realm::Queues),
            elections: of(Realm::Elections),
            tokens_sha256: rule.tokens.iter().map(ToString::to_string).collect(),
            signing_keys: rule.keys.iter().map(|key| key.reveal().to_owned()).collect(),
            certificates: rule.certificates.clone(),
        }
    }
}

impl TryFrom<Kept> for Rule {
    type Error = String;

    fn try_from(kept: Kept) -> Result<Self, String> {
        check_name(&kept.name)?;
        let name = &kept.name;
        let of = |realm, texts: &[String]| -> Result<Vec<Grant>, String> {
            let grants = texts.iter().map(|text| parse_grant(realm, text));
            grants.collect::<Result<_, _>>().map_err(|why| format!("rule {name:?}: {why}"))
        };
        let mut grants = of(Realm::Queues, &kept.queues)?;
        grants.extend(of(Realm::Elections, &kept.elections)?);
        let tokens = kept.tokens_sha256.iter().map(|text| Fingerprint::parse(text));
        let Some(tokens) = tokens.collect() else {
            return Err(format!("rule {name:?}: a token is kept as 64 hexadecimal digits"));
        };
        if kept.signing_keys.len() > 2 || kept.signing_keys.iter().any(String::is_empty) {
            return Err(format!("rule {name:?}: there are two signing keys at most, none empty"));
        }
        Ok(Self {
            grants: Grants(grants),
            tokens,
            keys: kept.signing_keys.into_iter().map(Secret::of).collect(),
            certificates: kept.certificates.into_iter().map(certificate_name).collect(),
            name: kept.name,
        })
    }
}
