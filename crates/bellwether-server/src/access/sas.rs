//! Shared access signatures, in the form of Azure Service Bus.
//!
//! ```text
//!   SharedAccessSignature sr=<resource>&sig=<signature>&se=<expiry>&skn=<rule>
//!
//!   signature = base64(HMAC-SHA256(key text, sr as it was received + "\n" + se))
//! ```
//!
//! Fields may come in any order. The key is the text itself, not the bytes that it encodes. `se` is
//! in seconds since 1970 and must be there. `sr` is percent-encoded, and signed as it was received,
//! because clients differ in how they encode. Its path narrows what the rule allows: to the name that
//! it is, and what is under that; scheme and host are not looked at.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::secret::{Secret, is_signature, sign};

/// How such a credential begins.
pub(super) const MARK: &str = "SharedAccessSignature ";
/// As Python's `quote_plus`, the strictest of the clients.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// One signature, read but not believed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signature<'a> {
    /// As it was received.
    resource: &'a str,
    expiry: &'a str,
    bytes: Vec<u8>,
    /// Seconds since 1970.
    pub(super) expires_at: u64,
    /// The rule whose key it claims to be made with.
    pub(super) rule: String,
}

impl<'a> Signature<'a> {
    /// Reads what follows [`MARK`].
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (mut resource, mut signature, mut expiry, mut rule) = (None, None, None, None);
        for field in text.trim().split('&') {
            let (name, value) = field.split_once('=')?;
            let place = match name {
                "sr" => &mut resource,
                "sig" => &mut signature,
                "se" => &mut expiry,
                "skn" => &mut rule,
                // What we do not know is not signed either.
                _ => return None,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        let bytes = STANDARD.decode(decoded(signature?)?).ok()?;
        let expires_at = Some(expiry?).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let expires_at = expires_at?.parse().ok()?;
        let (resource, expiry, rule) = (resource?, expiry?, decoded(rule?)?);
        Some(Self { resource, expiry, bytes, expires_at, rule })
    }

    /// Whether it was made with this key. Takes as long for a wrong one.
    pub(super) fn is_of(&self, key: &Secret) -> bool {
        let parts = [self.resource.as_bytes(), b"\n", self.expiry.as_bytes()];
        is_signature(key, &parts, &self.bytes)
    }

    /// The name that it is narrowed to, empty if it is not. What does not read allows nothing.
    pub(super) fn narrowed_to(&self) -> Option<String> {
        let resource = decoded(self.resource)?;
        let path = match resource.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
            None => resource.as_str(),
        };
        let path = percent_decode_str(path).decode_utf8().ok()?;
        Some(path.trim_matches('/').to_owned())
    }
}

fn decoded(text: &str) -> Option<String> {
    // `quote_plus` writes a space as a plus, and a plus as %2B; none of ours has either.
    percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// Makes one.
pub(crate) fn sign_for(rule: &str, key: &Secret, resource: &str, expires_at: u64) -> Secret {
    let resource = utf8_percent_encode(resource, ENCODED).to_string();
    let expiry = expires_at.to_string();
    let signature = sign(key, &[resource.as_bytes(), b"\n", expiry.as_bytes()]);
    let signature = STANDARD.encode(signature);
    let signature = utf8_percent_encode(&signature, ENCODED);
    Secret::of(format!("{MARK}sr={resource}&sig={signature}&se={expiry}&skn={rule}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Signature<'_>> {
        Signature::parse(text.strip_prefix(MARK)?)
    }

    /// Made by Python's `hmac`, `hashlib`, `base64` and `urllib.parse.quote_plus`.
    const PYTHON: &str = "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Forders&sig=\
        8plBj7xXEsbboY3iqQ9F3vHSuqQvmFM4oGRAo4HPBb8%3D&se=4102444800&skn=worker";
    const PYTHONS_KEY: &str = "c29tZSBrZXkgb2YgdGhpcnR5LXR3byBieXRlcywgc28=";

    #[test]
    fn what_is_signed_here_is_believed_here_and_nothing_else_is() {
        let (key, other) = (Secret::of("a key"), Secret::of("another"));
        let signed = sign_for("worker", &key, "sb://host/orders/eu", 4_102_444_800);
        let signed = signed.reveal();
        let read = parse(signed).unwrap();
        assert!(read.is_of(&key) && !read.is_of(&other));
        assert_eq!((read.rule.as_str(), read.expires_at), ("worker", 4_102_444_800));
        assert_eq!(read.narrowed_to(), Some("orders/eu".into()));
        for (before, after) in [("orders", "mail"), ("4102444800", "4102444801"), ("%2Feu", "")] {
            let forged = signed.replace(before, after);
            assert!(!parse(&forged).unwrap().is_of(&key), "{forged}");
        }
        let made =
            sign_for("worker", &Secret::of(PYTHONS_KEY), "sb://localhost/orders", 4_102_444_800);
        assert_eq!(made.reveal(), PYTHON);
    }

    #[test]
    fn what_is_not_whole_is_not_read() {
        let whole = sign_for("worker", &Secret::of("k"), "sb://h/", 1);
        let whole = whole.reveal().strip_prefix(MARK).unwrap();
        assert!(Signature::parse(whole).is_some());
        let fields: Vec<&str> = whole.split('&').collect();
        for left_out in 0..fields.len() {
            let mut rest = fields.clone();
            rest.remove(left_out);
            assert!(Signature::parse(&rest.join("&")).is_none());
        }
        let mut turned = fields.clone();
        turned.reverse();
        assert!(Signature::parse(&turned.join("&")).is_some(), "in any order");
        let twice = format!("{whole}&se=99999999999");
        for bad in ["", "sr", "&&", &twice, "sr=a&sig=%&se=1&skn=b", "sr=a&sig=YQ==&se=-1&skn=b"] {
            assert!(Signature::parse(bad).is_none(), "{bad}");
        }
        let endless = whole.replace("se=1", "se=99999999999999999999999");
        assert!(Signature::parse(&endless).is_none());
    }

    #[test]
    fn the_path_of_the_resource_narrows() {
        let to = |resource: &str| {
            let signed = sign_for("w", &Secret::of("k"), resource, 1);
            parse(signed.reveal()).unwrap().narrowed_to()
        };
        assert_eq!(to("sb://host"), Some(String::new()));
        assert_eq!(to("https://host:5671/"), Some(String::new()));
        assert_eq!(to("amqp://host/orders"), Some("orders".into()));
        assert_eq!(to("sb://host/orders%2Feu/"), Some("orders/eu".into()));
        assert_eq!(to("orders"), Some("orders".into()));
        assert_eq!(to("sb://host/%ff"), None);
    }
}
