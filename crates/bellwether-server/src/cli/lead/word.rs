//! What `lead` and its guardian say to each other: a word a line, over a socket of their own.

use std::fmt;

use bellwether::core::time::BootTime;
use bellwether::{LeaseId, LeaseName};
use rustix::process::{Pid, Signal};

/// What the guardian is told. That `lead` has died is told by the socket's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// What to give back if `lead` has died, once nothing is left of the command.
    Keep(Kept),
    /// The command may live until then.
    Until(BootTime),
    /// Pass this signal on.
    Forward(Signal),
    /// Begin to stop, with this signal.
    Stop(Signal),
    /// Kill what is left.
    Kill,
    /// It was heard that nothing is left: `lead` sees to the rest.
    Thanks,
}

/// A lease, and how whatever keeps it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Kept {
    pub(in crate::cli) id: LeaseId,
    pub(in crate::cli) lease: LeaseName,
    /// As [`Reach::flags`](super::super::reach::Reach::flags) says it; may hold a password, and so
    /// stands on no command line.
    pub(in crate::cli) reach: Vec<String>,
}

/// What the guardian tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The command runs, in the process group of this number.
    Started(Pid),
    /// Trust is about to end, and nobody moved it on: the command was told to stop.
    Stopping,
    /// Nothing of the command is left; the exit code it stands for.
    Ended(u8),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Until(time) => write!(f, "until {}", time.0),
            Self::Forward(signal) => write!(f, "forward {}", signal.as_raw()),
            Self::Stop(signal) => write!(f, "stop {}", signal.as_raw()),
            // No part has a character that nobody can see, but what is between them.
            Self::Keep(Kept { id, lease, reach }) => {
                write!(f, "keep {:x}\t{}\t{}", id.0, lease.as_str(), reach.join("\t"))
            }
            Self::Kill => f.write_str("kill 0"),
            Self::Thanks => f.write_str("thanks 0"),
        }
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(pid) => write!(f, "started {pid}"),
            Self::Stopping => f.write_str("stopping 0"),
            Self::Ended(code) => write!(f, "ended {code}"),
        }
    }
}

/// A line that makes no sense is not from us.
pub(super) trait Word: fmt::Display + Sized {
    fn parse(line: &str) -> Option<Self>;
}

impl Word for Order {
    fn parse(line: &str) -> Option<Self> {
        let (what, number) = line.split_once(' ')?;
        let signal = || Signal::from_named_raw(number.parse().ok()?);
        match what {
            "until" => Some(Self::Until(BootTime(number.parse().ok()?))),
            "forward" => signal().map(Self::Forward),
            "stop" => signal().map(Self::Stop),
            "keep" => {
                let mut parts = number.split('\t');
                let id = u128::from_str_radix(parts.next()?, 16).ok().map(LeaseId)?;
                let lease = LeaseName::new(parts.next()?).ok()?;
                Some(Self::Keep(Kept { id, lease, reach: parts.map(str::to_owned).collect() }))
            }
            "kill" => Some(Self::Kill),
            "thanks" => Some(Self::Thanks),
            _ => None,
        }
    }
}

impl Word for News {
    fn parse(line: &str) -> Option<Self> {
        let (what, number) = line.split_once(' ')?;
        match what {
            "started" => Pid::from_raw(number.parse().ok()?).map(Self::Started),
            "stopping" => Some(Self::Stopping),
            "ended" => Some(Self::Ended(number.parse().ok()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_understood() {
        let until = Order::Until(BootTime(u64::MAX));
        let reach = ["--server=bellwethers://host", "--tls-ca=a b.pem"].map(str::to_owned).to_vec();
        let (id, lease) = (LeaseId(u128::MAX), LeaseName::new("two words").unwrap());
        let keep = Order::Keep(Kept { id, lease, reach });
        let signals = [Order::Forward(Signal::WINCH), Order::Stop(Signal::TERM)];
        for order in [until, keep, Order::Kill, Order::Thanks].into_iter().chain(signals) {
            assert_eq!(Order::parse(&order.to_string()), Some(order));
        }
        let pid = Pid::from_raw(7).unwrap();
        for news in [News::Started(pid), News::Stopping, News::Ended(255)] {
            assert_eq!(News::parse(&news.to_string()), Some(news));
        }
        for nonsense in
            ["", "until", "until x", "stop 0", "ended 256", "started 0", "stop 99999", "keep 7"]
        {
            assert_eq!(Order::parse(nonsense), None, "{nonsense}");
            assert_eq!(News::parse(nonsense), None, "{nonsense}");
        }
    }
}
