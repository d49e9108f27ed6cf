//! Who may be listened for.
//!
//! Loopback needs no credentials: whoever is on this machine is trusted with it, but for the pages
//! in its browser (`guard.rs`). Any other address needs TLS and credentials, or is refused at the
//! start, not connection by connection, so that nobody runs an open server without knowing.

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
    let is_local = address.ip().to_canonical().is_loopback();
    if is_local || config.is_safe_remotely() || config.insecure_allow_remote {
        return Ok(());
    }
    let port = address.port();
    Err(Failure::Exposed(format!(
        "will not listen on {address} ({found}): other machines can reach it, and they need TLS and \
         credentials, else what they send could be read on the way, or anybody could ask anything. \
         There are three ways out: listen on 127.0.0.1 or [::1] and use a tunnel from the other \
         machine (ssh -L {port}:127.0.0.1:{port} THIS-MACHINE); or set --tls-cert, --tls-key and \
         --credentials required, and for HTTP name its host in http_hosts; or, in a network where \
         everybody may do everything, say --insecure-allow-remote"
    )))
}

/// Says again and again what is not safe.
pub(super) async fn warn(site: Arc<Site>) {
    loop {
        tracing::warn!(
            http = %site.connections.http.address(),
            wire = %site.connections.wire.address(),
            "insecure_allow_remote: other machines can reach this server, and without both TLS and \
             credentials nothing keeps others from reading what they send, or from asking anything"
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
    fn other_machines_need_tls_and_credentials_unless_somebody_insists() {
        let config = |flags: &Flags| Config::load(flags, None, []).unwrap();
        let usual = config(&Flags::default());
        let open = config(&Flags::default().with("insecure_allow_remote", "true"));
        let pair = |flags: Flags| flags.with("tls_cert", "cert.pem").with("tls_key", "key.pem");
        let tls = config(&pair(Flags::default()));
        let keys = config(&Flags::default().with("credentials", "required"));
        let both = config(&pair(Flags::default()).with("credentials", "required"));
        for address in ["127.0.0.1:7400", "127.1.2.3:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let checked = check_listen(&usual, address.parse().unwrap(), &Source::Default);
            assert!(checked.is_ok(), "{address}");
        }
        for address in ["0.0.0.0:7400", "[::]:7400", "192.168.0.7:7400", "[fe80::1]:7400"] {
            let address: SocketAddr = address.parse().unwrap();
            let found = Source::Flag("--http".into());
            let said = check_listen(&usual, address, &found).unwrap_err().to_string();
            let with_tls = ["--tls-cert", "--tls-key", "--credentials required", "http_hosts"];
            let ways = ["ssh -L", "--insecure-allow-remote"].into_iter().chain(with_tls);
            for words in ways.chain(["flag --http", &address.to_string()]) {
                assert!(said.contains(words), "{said}");
            }
            assert!(check_listen(&open, address, &found).is_ok());
            for half in [&tls, &keys] {
                assert!(check_listen(half, address, &found).is_err(), "both are needed");
            }
            assert!(check_listen(&both, address, &found).is_ok());
        }
        assert!(!open.is_insecure(), "it listens on loopback only");
        let reached = |flags: Flags| {
            let flags = flags.with("http", "0.0.0.0:0").with("insecure_allow_remote", "true");
            config(&flags).is_insecure()
        };
        assert!(reached(Flags::default()) && reached(pair(Flags::default())));
        assert!(!reached(pair(Flags::default()).with("credentials", "required")));
    }
}
