//! Who may be listened for.
//!
//! Loopback needs no credentials: whoever is on this machine is trusted with it, but for the pages
//! in its browser (`guard.rs`). Any other address is refused at the start, not connection by
//! connection, so that nobody runs an open server without knowing.

use std::net::SocketAddr;

use crate::cli::Failure;
use crate::config::Source;

/// Refuses an address that other machines can reach.
pub(crate) fn check_listen(address: SocketAddr, found: &Source) -> Result<(), Failure> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let port = address.port();
    Err(Failure::Exposed(format!(
        "will not listen on {address} ({found}): other machines can reach it, and this version has \
         neither TLS nor credentials. Listen on 127.0.0.1 or [::1] instead; from another machine \
         use a tunnel (ssh -L {port}:127.0.0.1:{port} THIS-MACHINE), or put a proxy on this machine \
         in front that does TLS and checks who asks; one for HTTP has its host named in http_hosts"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_listened_on_without_credentials() {
        for address in ["127.0.0.1:7400", "127.1.2.3:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            assert!(check_listen(address.parse().unwrap(), &Source::Default).is_ok(), "{address}");
        }
        for address in ["0.0.0.0:7400", "[::]:7400", "192.168.0.7:7400", "[fe80::1]:7400"] {
            let said = check_listen(address.parse().unwrap(), &Source::Flag("--http".into()))
                .unwrap_err()
                .to_string();
            for words in [address, "flag --http", "127.0.0.1", "ssh -L", "proxy"] {
                assert!(said.contains(words), "{said}");
            }
        }
    }
}
