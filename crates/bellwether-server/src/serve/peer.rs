//! Who is at the other end of a connection, as far as the connection itself shows it.

use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

/// The last second of a certificate, since 1970; `None` for what is no certificate. The library tells
/// it only to those who come too late: so it is asked at the end of time, and looks at nothing else.
pub(super) fn last_second(certificate: &CertificateDer<'_>) -> Option<u64> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let end = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    let usage = KeyUsage::client_auth();
    match certificate.verify_for_usage(&[], &[], &[], end, usage, None, None) {
        Err(webpki::Error::CertExpired { not_after, .. }) => Some(not_after.as_secs()),
        _ => None,
    }
}

/// The names in the certificate that the other side has shown and that was verified: its URIs, as
/// `spiffe://example.org/worker`, and its DNS names, as `worker.example.org`, in lower case. Only a
/// URI has a colon in it. Nobody's common name counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peer {
    names: Arc<[String]>,
    /// The last second in which they count, since 1970.
    last_second: u64,
}

impl Peer {
    /// Reads the names. One who shows a certificate without any is nobody.
    pub(super) fn of(shown: &CertificateDer<'_>) -> Self {
        let read = (EndEntityCert::try_from(shown), last_second(shown));
        let (Ok(certificate), Some(last_second)) = read else { return Self::default() };
        let hosts = certificate.valid_dns_names().map(str::to_ascii_lowercase);
        // Not checked by whoever issued it: without a scheme it could pass for a DNS name.
        let uris = certificate.valid_uri_names().filter(|uri| uri.contains(':'));
        Self { names: uris.map(str::to_owned).chain(hosts).collect(), last_second }
    }

    /// Empty for who has shown no certificate.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn last_second(&self) -> u64 {
        self.last_second
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};

    use super::*;

    #[test]
    fn names_are_the_alternative_names_and_not_the_common_one() {
        let key = KeyPair::generate().unwrap();
        let mut certificate = CertificateParams::new(["Worker.Example.org".into()]).unwrap();
        certificate.distinguished_name.push(DnType::CommonName, "admin");
        let uri = "spiffe://example.org/Worker";
        certificate.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        certificate.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        certificate.not_after = date_time_ymd(2030, 1, 1);
        let shown = certificate.self_signed(&key).unwrap();
        let peer = Peer::of(shown.der());
        assert_eq!(peer.names(), [uri, "worker.example.org"]);
        assert_eq!(peer.last_second(), 1_893_456_000);

        certificate.subject_alt_names.clear();
        let shown = certificate.self_signed(&key).unwrap();
        assert!(Peer::of(shown.der()).names().is_empty(), "a common name is no name");
        assert!(Peer::of(&CertificateDer::from(vec![1, 2, 3])).names().is_empty());
    }
}
