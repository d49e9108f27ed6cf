//! Where the servers are, and which bucket.
//!
//! ```text
//!   nats://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…][/BUCKET][?replicas=N]      tls:// for TLS
//! ```

/// The bucket, if the address names none.
const BUCKET: &str = "bellwether-elections";
/// More copies than a stream can have.
const REPLICAS_MAX: u64 = 5;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// One for each server, with what lets us in.
    pub(super) servers: Vec<String>,
    pub(super) bucket: String,
    pub(super) replicas: u64,
}

impl Address {
    pub(super) fn read(address: &str) -> Result<Self, String> {
        let (scheme, rest) = address.split_once("://").ok_or("it begins with nats://")?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, bucket) = place.split_once('/').unwrap_or((place, ""));
        // What lets us in is said once, and is the same everywhere.
        let (pass, hosts) = match hosts.rsplit_once('@') {
            Some((pass, hosts)) => (format!("{pass}@"), hosts),
            None => (String::new(), hosts),
        };
        let servers: Vec<String> =
            hosts.split(',').map(|host| format!("{scheme}://{pass}{}", host.trim())).collect();
        if hosts.split(',').any(|host| host.trim().is_empty()) {
            return Err("name at least one server, as in nats://10.0.0.5:4222".into());
        }
        let bucket = if bucket.is_empty() { BUCKET } else { bucket };
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !bucket.chars().all(letters) {
            return Err(format!("{bucket:?} is no bucket: letters, digits, - and _ alone"));
        }
        let replicas = match query.split_once('=') {
            None if query.is_empty() => 1,
            Some(("replicas", number)) => number
                .parse()
                .ok()
                .filter(|number| (1..=REPLICAS_MAX).contains(number))
                .ok_or_else(|| format!("replicas is a number from 1 to {REPLICAS_MAX}"))?,
            _ => return Err("the only thing it takes after the ? is replicas=N".into()),
        };
        Ok(Self { servers, bucket: bucket.to_owned(), replicas })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_servers_a_bucket_and_copies() {
        let read = Address::read("nats://me:secret@a:4222,b:4222/office?replicas=3").unwrap();
        assert_eq!(read.servers, ["nats://me:secret@a:4222", "nats://me:secret@b:4222"]);
        assert_eq!((&*read.bucket, read.replicas), ("office", 3));
        let short = Address::read("tls://a").unwrap();
        assert_eq!((&*short.servers[0], &*short.bucket, short.replicas), ("tls://a", BUCKET, 1));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (address, said) in [
            ("nats://", "at least one server"),
            ("nats://a,,b", "at least one server"),
            ("nats://a/x.y", "no bucket"),
            ("nats://a?replicas=9", "1 to 5"),
            ("nats://a?copies=3", "replicas=N"),
        ] {
            let why = Address::read(address).unwrap_err();
            assert!(why.contains(said), "{address}: {why}");
        }
    }
}
