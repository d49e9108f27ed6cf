//! What a process and its guardian say to each other: a word a line, over a socket of their own.

use std::fmt;

use bellwether_core::name::{LeaseId, LeaseName};

/// No line is longer: addresses are not, and names have a limit.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;

/// What the guardian is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Whom to watch, and where its leases are kept. The first word.
    Watch { pid: u32, address: String },
    /// It is about to ask for this lease. Whatever becomes of that, it is given back.
    Asked { id: LeaseId, ttl_ms: u64, lease: LeaseName },
    /// It has given it back, or never got it.
    Done(LeaseId),
    /// Nothing is held any more. The last word.
    Goodbye,
}

/// What the guardian tells, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// From here on it watches.
    Ready,
    /// It cannot, and why.
    Cannot(String),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watch { pid, address } => write!(f, "watch {pid} {address}"),
            Self::Asked { id, ttl_ms, lease } => {
                write!(f, "asked {:x} {ttl_ms} {}", id.0, lease.as_str())
            }
            Self::Done(id) => write!(f, "done {:x}", id.0),
            Self::Goodbye => f.write_str("goodbye"),
        }
    }
}

impl Word {
    /// A line that makes no sense is not from us.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        let id = |text: &str| u128::from_str_radix(text, 16).ok().map(LeaseId);
        match what {
            "watch" => {
                let (pid, address) = rest.split_once(' ')?;
                Some(Self::Watch { pid: pid.parse().ok()?, address: address.to_owned() })
            }
            "asked" => {
                let (asked, rest) = rest.split_once(' ')?;
                let (ttl_ms, lease) = rest.split_once(' ')?;
                let lease = LeaseName::new(lease).ok()?;
                Some(Self::Asked { id: id(asked)?, ttl_ms: ttl_ms.parse().ok()?, lease })
            }
            "done" => id(rest).map(Self::Done),
            "goodbye" => Some(Self::Goodbye),
            _ => None,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Cannot(why) => write!(f, "cannot {why}"),
        }
    }
}

impl Answer {
    pub(super) fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            None if line == "ready" => Some(Self::Ready),
            Some(("cannot", why)) => Some(Self::Cannot(why.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_understood() {
        let address = "postgres://a:b c@host/db?x=y z".to_owned();
        let lease = LeaseName::new("reports of 7").unwrap();
        for word in [
            Word::Watch { pid: u32::MAX, address },
            Word::Asked { id: LeaseId(u128::MAX), ttl_ms: 7, lease },
            Word::Done(LeaseId(0)),
            Word::Goodbye,
        ] {
            assert_eq!(Word::parse(&word.to_string()), Some(word));
        }
        for answer in [Answer::Ready, Answer::Cannot("see anybody".into())] {
            assert_eq!(Answer::parse(&answer.to_string()), Some(answer));
        }
        for nonsense in
            ["", "watch", "watch x y", "asked 7", "asked 7 x", "asked g 7 a", "done", "?"]
        {
            assert_eq!(Word::parse(nonsense), None, "{nonsense}");
        }
    }
}
