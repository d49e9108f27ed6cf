//! Scopes: which names a right is about.
//!
//! ```text
//!   *              every name
//!   orders/*       orders/eu, orders/eu/late; not orders, not orders2
//!   orders         that name, a queue with its dead letters
//!   orders/$dead   the dead letters of that queue alone
//! ```
//!
//! As the names themselves, scopes of queues are compared without regard to ASCII case and scopes
//! of elections are not.

use std::fmt;

use crate::error::Refusal;
use crate::name::{LeaseName, Part, QueueName};

use super::Realm;

const EVERYTHING: &str = "*";
const UNDER: &str = "/*";
const DEAD: &str = "/$dead";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every name.
    Everything,
    /// Names that begin so; the text ends with a slash.
    Under(Box<str>),
    /// One name.
    Name(Box<str>),
    /// The dead letters of one queue.
    DeadLetters(Box<str>),
}

impl Scope {
    /// Reads a scope of queues or of elections.
    pub fn parse(realm: Realm, text: &str) -> Result<Self, Refusal> {
        let wrong = |why| Err(Refusal::InvalidName { what: "scope", why });
        if text == EVERYTHING {
            return Ok(Self::Everything);
        }
        let (name, scope): (&str, fn(Box<str>) -> Self) = match text.strip_suffix(UNDER) {
            Some("") => return wrong("every name is written *, and a prefix ends with /*"),
            Some(prefix) => (prefix, |prefix| Self::Under(format!("{prefix}/").into())),
            None => match text.strip_suffix(DEAD).filter(|_| realm == Realm::Queues) {
                Some(queue) => (queue, Self::DeadLetters),
                None => (text, Self::Name),
            },
        };
        if name.contains('*') {
            // Nobody shall believe that more, or less, is meant than is.
            return wrong("a star stands alone, or at the end after a slash, as in orders/*");
        }
        match realm {
            Realm::Queues => drop(QueueName::new(name)?),
            Realm::Elections => drop(LeaseName::new(name)?),
        }
        Ok(scope(name.into()))
    }

    /// What is left of it for `name` and what is under that name.
    pub(super) fn narrowed(&self, realm: Realm, name: &str) -> Vec<Self> {
        let starts = |text: &str, start: &str| {
            let head = text.as_bytes().get(..start.len());
            head.is_some_and(|head| match realm {
                Realm::Queues => head.eq_ignore_ascii_case(start.as_bytes()),
                Realm::Elections => head == start.as_bytes(),
            })
        };
        let under = format!("{name}/");
        let is_within =
            |text: &str| starts(text, &under) || (text.len() == name.len() && starts(text, name));
        match self {
            Self::Under(prefix) if is_within(prefix) => vec![self.clone()],
            Self::Under(prefix) if !starts(name, prefix) => Vec::new(),
            Self::Everything | Self::Under(_) => {
                vec![Self::Name(name.into()), Self::Under(under.into())]
            }
            Self::Name(text) | Self::DeadLetters(text) if is_within(text) => vec![self.clone()],
            Self::Name(_) | Self::DeadLetters(_) => Vec::new(),
        }
    }

    pub(super) fn has_queue(&self, queue: &QueueName, part: Part) -> bool {
        let queue = queue.as_str();
        match self {
            Self::Everything => true,
            Self::Under(prefix) => {
                let start = queue.as_bytes().get(..prefix.len());
                start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
            }
            Self::Name(name) => queue.eq_ignore_ascii_case(name),
            Self::DeadLetters(name) => part == Part::Dead && queue.eq_ignore_ascii_case(name),
        }
    }

    pub(super) fn has_lease(&self, lease: &LeaseName) -> bool {
        match self {
            Self::Everything => true,
            Self::Under(prefix) => lease.as_str().starts_with(&**prefix),
            Self::Name(name) => lease.as_str() == &**name,
            Self::DeadLetters(_) => false,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str(EVERYTHING),
            Self::Under(prefix) => write!(f, "{prefix}*"),
            Self::Name(name) => f.write_str(name),
            Self::DeadLetters(name) => write!(f, "{name}{DEAD}"),
        }
    }
}
