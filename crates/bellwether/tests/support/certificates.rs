//! An authority for tests, and certificates from it.

#![allow(dead_code, reason = "no test needs all of it")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bellwether::clock::Clock;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType, date_time_ymd,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

/// No two have the same name.
static AUTHORITIES: AtomicU32 = AtomicU32::new(1);

/// See the module.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub(crate) pem: String,
}

/// A certificate and its key.
pub(crate) struct Identity {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        let number = AUTHORITIES.fetch_add(1, Ordering::Relaxed);
        params.distinguished_name.push(DnType::CommonName, format!("Authority {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = pem("CERTIFICATE", params.self_signed(&key).unwrap().der());
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// For hosts, and for URIs: those with a colon.
    pub(crate) fn issue(&self, names: &[&str]) -> Identity {
        self.sign(&params(names))
    }

    pub(crate) fn issue_expired(&self, names: &[&str]) -> Identity {
        let mut params = params(names);
        params.not_after = date_time_ymd(2020, 1, 1);
        self.sign(&params)
    }

    /// One that has so long to live.
    pub(crate) fn issue_for(&self, time: Duration, names: &[&str]) -> Identity {
        let mut params = params(names);
        params.not_after =
            (UNIX_EPOCH + Duration::from_millis(Clock::System.now().wall.0) + time).into();
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            cert: pem("CERTIFICATE", cert.der()),
            key: pem("PRIVATE KEY", key.serialized_der()),
        }
    }
}

impl Identity {
    /// A server's side of the handshake.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let read = |pem: &str| bellwether::tls::Pem::from(pem);
        let config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                read(&self.cert).certificates().unwrap(),
                read(&self.key).key().unwrap(),
            );
        TlsAcceptor::from(std::sync::Arc::new(config.unwrap()))
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let is_uri = |name: &&&str| name.contains(':');
    let hosts = names.iter().filter(|name| !is_uri(name)).map(|host| (*host).to_owned());
    let mut params = CertificateParams::new(hosts.collect::<Vec<_>>()).unwrap();
    let uris = names.iter().filter(is_uri).map(|uri| SanType::URI((*uri).try_into().unwrap()));
    params.subject_alt_names.extend(uris);
    params
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
