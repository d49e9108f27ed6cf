//! Who may be listened for.
//!
//! Loopback needs no credentials: whoever is on this machine is trusted with it, but for the pages
//! in its browser (`guard.rs`). Any other address is refused at the start, not connection by
//! connection, so that nobody runs an open server without knowing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Site;
use crate::cli::Failure;
use crate::config::{Config, Source};

/// Between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(3600);

/// Refuses an address that other machines can reach, unless they are told apart and cannot be
/// overheard, or whoever starts the server wants it nevertheless.
pub(crate) fn check_listen(
    config: &Config,
    address: SocketAddr,
    found: &Source,
) -> Result<(), Failure> {
    if address.ip().to_canonical().is_loopback() || config.insecure_allow_remote {
        return Ok(());
    }
    let port = address.port();
    Err(Failure::Exposed(format!(
        "will not listen on {address} ({found}): other machines can reach it, and this version has \
         no TLS, so that what they show and send could be read on the way. There are three ways \
         out: listen on 127.0.0.1 or [::1] and use a tunnel from the other machine (ssh -L \
         {port}:127.0.0.1:{port} THIS-MACHINE); or put a proxy on this machine in front that does \
         TLS, with --credentials required here, and for HTTP its host named in http_hosts; or, in a \
         network where everybody may do everything, say --insecure-allow-remote"
    )))
}

/// Says again and again what is not safe.
pub(super) async fn warn(site: Arc<Site>) {
    loop {
        tracing::warn!(
            http = %site.connections.http.address(),
            wire = %site.connections.wire.address(),
            "insecure_allow_remote: other machines can reach this server, and nothing they send is \
             kept from being read on the way"
        );
        tokio::select! {
            () = tokio::time::sleep(WARN_EVERY) => {}
            () = site.stopping.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;

    #[test]
    fn only_loopback_is_listened_on_unless_somebody_insists() {
        let config = |flags: &Flags| Config::load(flags, None, []).unwrap();
        let usual = config(&Flags::default());
        let open = config(&Flags::default().with("insecure_allow_remote", "true"));
        for address in ["127.0.0.1:7400", "127.1.2.3:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let checked = check_listen(&usual, address.parse().unwrap(), &Source::Default);
            assert!(checked.is_ok(), "{address}");
        }
        for address in ["0.0.0.0:7400", "[::]:7400", "192.168.0.7:7400", "[fe80::1]:7400"] {
            let address: SocketAddr = address.parse().unwrap();
            let found = Source::Flag("--http".into());
            let said = check_listen(&usual, address, &found).unwrap_err().to_string();
            let ways = ["ssh -L", "proxy", "--credentials required", "--insecure-allow-remote"];
            for words in ways.iter().chain(&["flag --http", &address.to_string()]) {
                assert!(said.contains(words), "{said}");
            }
            assert!(check_listen(&open, address, &found).is_ok());
        }
        assert!(!open.is_insecure(), "it listens on loopback only");
    }
}
