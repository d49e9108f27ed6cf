//! TLS to a server, and what is said when that fails.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, Error as TlsError, RootCertStore,
};

use crate::tls::{Pem, PemFault};
use crate::wire::ALPN;

/// What a server is trusted by, and what it is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsOptions {
    /// The authorities that are trusted, instead of those that the system trusts.
    pub(crate) trust: Option<Pem>,
    /// Our own certificate, with those between it and its authority, and its key.
    pub(crate) identity: Option<(Pem, Pem)>,
}

impl TlsOptions {
    pub(crate) fn is_set(&self) -> bool {
        self.trust.is_some() || self.identity.is_some()
    }

    /// Shakes hands with the server of this name, `host:port`.
    pub(super) async fn shake(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<Box<TlsStream<TcpStream>>> {
        let name = ServerName::try_from(without_port(host).to_owned()).map_err(|_| {
            io::Error::other(Unready(format!("{host:?} is no name that a certificate could have")))
        })?;
        let options = self.clone();
        // Files are read, and those of a system are many.
        let config = tokio::task::spawn_blocking(move || options.config()).await;
        let config = config.map_err(io::Error::other)?.map_err(io::Error::other)?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.map(Box::new)
    }

    fn config(&self) -> Result<ClientConfig, Unready> {
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots()?);
        let mut config =
            match &self.identity {
                Some((chain, key)) => config
                    .with_client_auth_cert(chain.certificates()?, key.key()?)
                    .map_err(|e| Unready(format!("{chain} with {key} is no identity: {e}")))?,
                None => config.with_no_client_auth(),
            };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, Unready> {
        let mut roots = RootCertStore::empty();
        if let Some(trust) = &self.trust {
            for certificate in trust.certificates()? {
                roots.add(certificate).map_err(|e| Unready(format!("{trust} is no CA: {e}")))?;
            }
            return Ok(roots);
        }
        let system = rustls_native_certs::load_native_certs();
        // Among the many of a system there may be one that is not understood.
        let (added, _) = roots.add_parsable_certificates(system.certs);
        if added == 0 {
            return Err(Unready(
                "this machine has no certificates of authorities; install its package for them \
                 (ca-certificates), or name a file (Open::trust, --tls-ca)"
                    .into(),
            ));
        }
        Ok(roots)
    }
}

/// The name in `host:port`, without the brackets of an IPv6 address.
fn without_port(host: &str) -> &str {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
}

/// What we were given does not do. Whoever opened the store must act.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unready(String);

impl From<PemFault> for Unready {
    fn from(fault: PemFault) -> Self {
        Self(fault.to_string())
    }
}

impl From<TlsError> for Unready {
    fn from(error: TlsError) -> Self {
        Self(error.to_string())
    }
}

/// What is wrong, and who must act; `None` if another try may do better by itself.
pub(super) fn why(error: &io::Error) -> Option<String> {
    let inner = error.get_ref()?;
    if inner.is::<Unready>() {
        return Some(inner.to_string());
    }
    inner.downcast_ref::<TlsError>().map(why_not)
}

fn why_not(error: &TlsError) -> String {
    use AlertDescription as Alert;
    match error {
        TlsError::InvalidCertificate(wrong) => why_not_certificate(wrong),
        TlsError::InvalidMessage(_) => "it does not speak TLS; reach it as bellwether://, or let \
            its operator set tls_cert and tls_key"
            .into(),
        TlsError::NoApplicationProtocol | TlsError::AlertReceived(Alert::NoApplicationProtocol) => {
            "it speaks TLS, but not Bellwether's wire; is this the right port?".into()
        }
        TlsError::AlertReceived(Alert::CertificateExpired) => {
            "our certificate has expired by the server's clock; renew it".into()
        }
        TlsError::AlertReceived(Alert::CertificateRequired) => {
            "it asks for a certificate of ours; give one (Open::identity, --tls-cert and --tls-key)"
                .into()
        }
        TlsError::AlertReceived(
            alert @ (Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateUnknown
            | Alert::CertificateRevoked
            | Alert::DecryptError
            | Alert::AccessDenied),
        ) => format!(
            "it does not accept our certificate ({alert:?}); show one for clients that was issued \
             by an authority in its tls_client_ca"
        ),
        TlsError::PeerIncompatible(_)
        | TlsError::AlertReceived(Alert::ProtocolVersion | Alert::HandshakeFailure) => format!(
            "there is no version or cipher of TLS that both sides know ({error}); it is 1.2 or 1.3 \
             here, upgrade the older side"
        ),
        error => error.to_string(),
    }
}

fn why_not_certificate(wrong: &CertificateError) -> String {
    match wrong {
        // A wrong signature: an authority of the same name, with another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate was issued by no authority that we \
            trust; name the right one (Open::trust, --tls-ca), or let its operator use a \
            certificate of one that this machine trusts"
                .into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "its certificate is not for this name; reach it under a name that is in it, or let \
                 its operator get one for this name ({wrong})"
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("its certificate has expired; its operator must renew it ({wrong})")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => format!(
            "its certificate is not valid yet; set this machine's clock, or let its operator \
             replace it ({wrong})"
        ),
        // An authority that vouches for itself as a server: what `openssl req -x509` makes.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is that of an authority, not of a server; its operator must issue one \
             for the server with it (CA:FALSE)"
                .into()
        }
        other => format!("its certificate cannot be accepted: {other}; its operator must act"),
    }
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn the_name_is_what_stands_before_the_port() {
        for (host, name) in
            [("a.example:1", "a.example"), ("[::1]:1", "::1"), ("1.2.3.4:5", "1.2.3.4")]
        {
            assert_eq!(without_port(host), name);
        }
    }
}
