//! Who is at the other end of a connection, as far as the connection itself shows it.

use std::sync::Arc;

use tokio_rustls::rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The names in the certificate that the other side has shown and that was verified: its URIs, as
/// `spiffe://example.org/worker`, and its DNS names, as `worker.example.org`, in lower case. Only a
/// URI has a colon in it. Nobody's common name counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peer {
    names: Arc<[String]>,
}

impl Peer {
    /// Reads the names. One who shows a certificate without any is nobody.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Self::default() };
        let hosts = certificate.valid_dns_names().map(str::to_ascii_lowercase);
        // Not checked by whoever issued it: without a scheme it could pass for a DNS name.
        let uris = certificate.valid_uri_names().filter(|uri| uri.contains(':'));
        Self { names: uris.map(str::to_owned).chain(hosts).collect() }
    }

    /// Empty for who has shown no certificate.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn into_names(self) -> Arc<[String]> {
        self.names
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn names_are_the_alternative_names_and_not_the_common_one() {
        let key = KeyPair::generate().unwrap();
        let mut certificate = CertificateParams::new(["Worker.Example.org".into()]).unwrap();
        certificate.distinguished_name.push(DnType::CommonName, "admin");
        let uri = "spiffe://example.org/Worker";
        certificate.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        certificate.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        let shown = certificate.self_signed(&key).unwrap();
        assert_eq!(Peer::of(shown.der()).names(), [uri, "worker.example.org"]);

        certificate.subject_alt_names.clear();
        let shown = certificate.self_signed(&key).unwrap();
        assert!(Peer::of(shown.der()).names().is_empty(), "a common name is no name");
        assert!(Peer::of(&CertificateDer::from(vec![1, 2, 3])).names().is_empty());
    }
}
