//! Certificates and keys for TLS, as they come in files. With the feature `tls`.
//!
//! [`Open::trust`](crate::Open::trust) and [`Open::identity`](crate::Open::identity) take a [`Pem`].

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What every PEM has in it, and no path.
const BEGIN: &str = "-----BEGIN ";

/// Certificates or a private key, in the form of PEM: the text itself, or the file it is in. A file
/// is read when a connection is made, so one that was renewed is used for the next.
///
/// ```
/// use bellwether::tls::Pem;
///
/// assert!(matches!(Pem::from("/etc/bellwether/ca.pem"), Pem::File(_)));
/// assert!(matches!(Pem::from("-----BEGIN CERTIFICATE-----\n…"), Pem::Text(_)));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// In this file.
    File(PathBuf),
    /// This is it.
    Text(String),
}

/// Why there are no certificates, or no key, in a PEM.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PemFault {
    /// The file cannot be read.
    #[error("cannot read {place}: {why}")]
    Unreadable {
        /// Which.
        place: String,
        /// Why not.
        why: String,
    },
    /// It is no PEM, or it holds something else.
    #[error(
        "there is no {wanted} in {place}; it must be PEM, with a line that begins with \
         -----BEGIN {label}"
    )]
    Missing {
        /// Where.
        place: String,
        /// What was looked for.
        wanted: &'static str,
        /// How it begins.
        label: &'static str,
    },
    /// It is PEM and cannot be read as such.
    #[error("{place} is damaged: {why}")]
    Bad {
        /// Which.
        place: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Pem {
    /// All certificates in it; at least one.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, PemFault> {
        let text = self.read()?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let found = found.map_err(|e| self.bad(&e))?;
        if found.is_empty() {
            return Err(self.missing("certificate", "CERTIFICATE"));
        }
        Ok(found)
    }

    /// The first private key in it.
    pub fn key(&self) -> Result<PrivateKeyDer<'static>, PemFault> {
        PrivateKeyDer::from_pem_slice(&self.read()?).map_err(|e| match e {
            pem::Error::NoItemsFound => self.missing("private key", "PRIVATE KEY"),
            e => self.bad(&e),
        })
    }

    fn read(&self) -> Result<Cow<'_, [u8]>, PemFault> {
        match self {
            Self::Text(text) => Ok(text.as_bytes().into()),
            Self::File(path) => std::fs::read(path)
                .map(Cow::from)
                .map_err(|e| PemFault::Unreadable { place: self.to_string(), why: e.to_string() }),
        }
    }

    fn missing(&self, wanted: &'static str, label: &'static str) -> PemFault {
        PemFault::Missing { place: self.to_string(), wanted, label }
    }

    fn bad(&self, why: &pem::Error) -> PemFault {
        PemFault::Bad { place: self.to_string(), why: why.to_string() }
    }
}

/// Where it is; never what is in it.
impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Text(_) => f.write_str("the PEM that was given as text"),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pem({self})")
    }
}

impl From<String> for Pem {
    fn from(given: String) -> Self {
        if given.contains(BEGIN) { Self::Text(given) } else { Self::File(given.into()) }
    }
}

impl From<&str> for Pem {
    fn from(given: &str) -> Self {
        given.to_owned().into()
    }
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl From<&Path> for Pem {
    fn from(path: &Path) -> Self {
        Self::File(path.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_or_not_whole_is_named() {
        let gone = Pem::from("/no/such/file.pem");
        assert_eq!(
            gone.certificates().unwrap_err().to_string(),
            "cannot read /no/such/file.pem: No such file or directory (os error 2)"
        );
        let key = Pem::from("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
        let said = key.certificates().unwrap_err().to_string();
        assert!(said.starts_with("there is no certificate in the PEM that was given"), "{said}");
        let certificate = Pem::from("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----");
        assert_eq!(certificate.certificates().unwrap().len(), 1);
        let said = certificate.key().unwrap_err().to_string();
        assert!(said.ends_with("begins with -----BEGIN PRIVATE KEY"), "{said}");
        let cut = Pem::from("-----BEGIN CERTIFICATE-----\nAAAA\n").certificates().unwrap_err();
        assert!(matches!(cut, PemFault::Bad { .. }), "{cut}");
        assert!(!format!("{key:?}").contains("AAAA"), "no key in a log");
    }
}
