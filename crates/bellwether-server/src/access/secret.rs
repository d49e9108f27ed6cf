//! Secrets: made, kept and compared so that they do not get around.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Bytes of chance in whatever is made here.
const SECRET_BYTES: usize = 32;
/// How a token begins, so that one that gets around is known for what it is.
const TOKEN_MARK: &str = "bw_";

/// A text that is shown to nobody but its owner.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn of(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A new token, for a header or a file.
    pub(crate) fn new_token() -> Result<Self, String> {
        Ok(Self(format!("{TOKEN_MARK}{}", URL_SAFE_NO_PAD.encode(chance()?))))
    }

    /// A new key to sign with, in the form of Azure's.
    pub(crate) fn new_key() -> Result<Self, String> {
        Ok(Self(STANDARD.encode(chance()?)))
    }

    /// The text itself, for whoever owns it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

fn chance() -> Result<[u8; SECRET_BYTES], String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::getrandom(&mut bytes)
        .map_err(|e| format!("the system gives no random bytes: {e}"))?;
    Ok(bytes)
}

/// SHA-256 of a token: all that is kept of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Reads what [`fmt::Display`] writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; 32];
        for (nth, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * nth..2 * nth + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Its first digits, by which people name it.
    pub(crate) fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }
}

/// In constant time.
impl PartialEq for Fingerprint {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// HMAC-SHA256 of `parts`, one after the other.
fn mac(key: &Secret, parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key.0.as_bytes()).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac
}

/// The signature of `parts` under a key.
pub(super) fn sign(key: &Secret, parts: &[&[u8]]) -> [u8; 32] {
    mac(key, parts).finalize().into_bytes().into()
}

/// Whether it is, in constant time.
pub(super) fn is_signature(key: &Secret, parts: &[&[u8]], signature: &[u8]) -> bool {
    mac(key, parts).verify_slice(signature).is_ok()
}
