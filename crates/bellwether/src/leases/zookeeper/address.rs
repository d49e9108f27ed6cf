//! Where the servers are, under which node, and how long a session is asked for.
//!
//! ```text
//!   zk://HOST:PORT[,HOST:PORT…][/PATH][?session_ms=N]
//! ```

use std::time::Duration;

/// The node above all elections, if the address names none.
const PATH: &str = "/bellwether";
/// Enough for the usual ttl, see [`super::SESSION_PERCENT`]. Servers shorten and lengthen it.
const SESSION: Duration = Duration::from_secs(15);

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) servers: Vec<String>,
    /// With a slash before it and none behind.
    pub(super) path: String,
    pub(super) session: Duration,
}

impl Address {
    pub(super) fn read(address: &str) -> Result<Self, String> {
        let rest = address.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
        let servers: Vec<String> = hosts.split(',').map(|host| host.trim().to_owned()).collect();
        if servers.iter().any(|host| !host.contains(':') || host.starts_with(':')) {
            return Err("name servers with their ports, as in zk://10.0.0.5:2181".into());
        }
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { PATH.to_owned() } else { format!("/{path}") };
        if path.split('/').skip(1).any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(format!("{path:?} is no path of a node"));
        }
        let session = match query.split_once('=') {
            None if query.is_empty() => SESSION,
            Some(("session_ms", number)) => number
                .parse()
                .ok()
                .filter(|ms| (1..=3_600_000).contains(ms))
                .map(Duration::from_millis)
                .ok_or("session_ms is a number of milliseconds, an hour at most")?,
            _ => return Err("the only thing it takes after the ? is session_ms=N".into()),
        };
        Ok(Self { servers, path, session })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_servers_a_path_and_a_session() {
        let read = Address::read("zk://a:2181,b:2181/shop/office/?session_ms=4000").unwrap();
        assert_eq!(read.servers, ["a:2181", "b:2181"]);
        assert_eq!((&*read.path, read.session), ("/shop/office", Duration::from_secs(4)));
        assert_eq!(Address::read("zk://a:2181").unwrap().path, PATH);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (address, said) in [
            ("zk://", "with their ports"),
            ("zk://a", "with their ports"),
            ("zk://a:2181/x//y", "no path"),
            ("zk://a:2181?session_ms=0", "milliseconds"),
            ("zk://a:2181?x=y", "session_ms=N"),
        ] {
            let why = Address::read(address).unwrap_err();
            assert!(why.contains(said), "{address}: {why}");
        }
    }
}
