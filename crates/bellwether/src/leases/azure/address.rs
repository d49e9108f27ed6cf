//! Where the blobs are, and what lets us in.
//!
//! ```text
//!   azblob://ACCOUNT/CONTAINER                     key in AZURE_STORAGE_KEY, or
//!                                                  signature in AZURE_STORAGE_SAS_TOKEN
//!   azblob://ACCOUNT/CONTAINER?endpoint=URL        the same, elsewhere: another cloud, a proxy
//!   azblob://ACCOUNT/CONTAINER?poll_ms=N           whoever waits looks so often; with & behind the other
//!   azblob://devstoreaccount1/CONTAINER            the emulator, with the key that everybody knows
//!   https://HOST/CONTAINER?sv=…&sig=…              as the portal hands it out, signature and all
//! ```

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Microsoft's emulators know this account, with this key: no secret.
const EMULATOR: &str = "devstoreaccount1";
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const EMULATOR_ENDPOINT: &str = "http://127.0.0.1:10000/devstoreaccount1";
const PUBLIC_HOST: &str = "blob.core.windows.net";
/// How often whoever waits looks: a read, the cheapest call there is.
const POLL: Duration = Duration::from_secs(1);
const POLL_MS: RangeInclusive<u64> = 100..=3_600_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: bool,
    /// What stands before the container in a path: the account, if the host is not its own.
    pub(super) base: String,
    pub(super) account: String,
    pub(super) container: String,
    pub(super) pass: Pass,
    /// How often whoever waits looks.
    pub(super) poll: Duration,
}

/// What lets us in. Never shown by `Debug`.
pub(super) enum Pass {
    /// The account's key signs every request.
    Key(Vec<u8>),
    /// A signature over what it allows, part of every request's query.
    Sas(String),
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

impl Address {
    /// Reads an address. `env` looks up a variable of the environment.
    pub(super) fn read(
        address: &str,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let read = if let Some(rest) = address.strip_prefix("azblob://") {
            Self::read_short(rest, env)
        } else {
            Self::read_url(address)
        }?;
        check_container(&read.container)?;
        // Whoever reads a signature on its way can use it; a key is never sent.
        if matches!(read.pass, Pass::Sas(_)) && !read.tls && read.host != "127.0.0.1" {
            return Err("a shared access signature must not travel without TLS; use https".into());
        }
        Ok(read)
    }

    fn read_short(rest: &str, env: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (account, container) = path
            .trim_end_matches('/')
            .split_once('/')
            .filter(|(account, _)| !account.is_empty())
            .ok_or("name an account and a container, as in azblob://ACCOUNT/CONTAINER")?;
        let mut endpoint = match account {
            EMULATOR => EMULATOR_ENDPOINT.to_owned(),
            _ => format!("https://{account}.{PUBLIC_HOST}"),
        };
        let mut poll = POLL;
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            match setting.split_once('=') {
                Some(("endpoint", url)) => url.clone_into(&mut endpoint),
                Some(("poll_ms", ms)) => {
                    let ms = ms.parse().ok().filter(|ms| POLL_MS.contains(ms));
                    let wrong = "poll_ms is a number from 100 to 3600000";
                    poll = Duration::from_millis(ms.ok_or(wrong)?);
                }
                _ => return Err("after the ? it takes endpoint=URL and poll_ms=N".into()),
            }
        }
        let set = |name| env(name).filter(|text| !text.is_empty());
        let pass = if let Some(key) = set("AZURE_STORAGE_KEY") {
            Pass::Key(decode_key(&key)?)
        } else if let Some(sas) = set("AZURE_STORAGE_SAS_TOKEN") {
            Pass::Sas(sas.trim_start_matches('?').to_owned())
        } else if account == EMULATOR {
            Pass::Key(decode_key(EMULATOR_KEY)?)
        } else {
            return Err(format!(
                "nothing lets us into the account {account}: set AZURE_STORAGE_KEY or \
                 AZURE_STORAGE_SAS_TOKEN, or give the https address of the container with its \
                 signature"
            ));
        };
        let (tls, host, port, base) = read_endpoint(&endpoint)?;
        let (account, container) = (account.to_owned(), container.to_owned());
        Ok(Self { host, port, tls, base, account, container, pass, poll })
    }

    fn read_url(url: &str) -> Result<Self, String> {
        let (place, sas) = url
            .split_once('?')
            .filter(|(_, query)| query.contains("sig="))
            .ok_or("an https address ends with a shared access signature: ?sv=…&sig=…")?;
        let (tls, host, port, path) = read_endpoint(place)?;
        let (base, container) = path.rsplit_once('/').ok_or("it names no container")?;
        let account = host.split('.').next().unwrap_or_default().to_owned();
        let pass = Pass::Sas(sas.to_owned());
        let (base, container) = (base.to_owned(), container.to_owned());
        Ok(Self { host, port, tls, base, account, container, pass, poll: POLL })
    }

    /// Container and account, for people.
    pub(super) fn place(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}:{}{}/{}", self.host, self.port, self.base, self.container)
    }

    /// The signature of a text under the account's key.
    pub(super) fn signature(key: &[u8], text: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
        mac.update(text.as_bytes());
        STANDARD.encode(mac.finalize().into_bytes())
    }
}

fn decode_key(key: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(key.trim()).map_err(|e| {
        format!("AZURE_STORAGE_KEY is no account key, which is Base64 as the portal shows it: {e}")
    })
}

/// Whether over TLS, host, port, path.
fn read_endpoint(url: &str) -> Result<(bool, String, u16, String), String> {
    let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Err(format!("{url:?} begins with neither https:// nor http://")),
    };
    let (authority, path) = match rest.trim_end_matches('/').split_once('/') {
        Some((authority, path)) => (authority, format!("/{path}")),
        None => (rest.trim_end_matches('/'), String::new()),
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => {
            (host, port.parse().map_err(|_| format!("{port:?} is no port number"))?)
        }
        None => (authority, if tls { 443 } else { 80 }),
    };
    if host.is_empty() {
        return Err(format!("{url:?} names no host"));
    }
    Ok((tls, host.to_owned(), port, path))
}

fn check_container(name: &str) -> Result<(), String> {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (3..=63).contains(&name.len()) && name.chars().all(letters) && !name.starts_with('-') {
        return Ok(());
    }
    Err(format!(
        "{name:?} is no container: they have 3 to 63 lower-case letters, digits and hyphens"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Option<String> {
        (name == "AZURE_STORAGE_KEY").then(|| "c2VjcmV0".to_owned())
    }

    #[test]
    fn an_account_has_a_host_of_its_own_and_the_emulator_has_not() {
        let real = Address::read("azblob://shop/elections", key).unwrap();
        assert_eq!(real.place(), "https://shop.blob.core.windows.net:443/elections");
        assert!(matches!(&real.pass, Pass::Key(key) if key == b"secret"));
        assert!(!format!("{real:?}").contains("115"), "no key in a log: {real:?}");
        let emulated = Address::read("azblob://devstoreaccount1/elections", |_| None).unwrap();
        assert_eq!(emulated.place(), "http://127.0.0.1:10000/devstoreaccount1/elections");
        let elsewhere = "azblob://shop/elections?endpoint=http://10.0.0.7:1000/shop/";
        let elsewhere = Address::read(elsewhere, key).unwrap();
        assert_eq!(elsewhere.place(), "http://10.0.0.7:1000/shop/elections");
    }

    #[test]
    fn an_address_of_the_portal_carries_its_signature() {
        let url = "https://shop.blob.core.windows.net/elections?sv=2021-12-02&sig=abc%3D";
        let read = Address::read(url, |_| None).unwrap();
        assert_eq!(read.place(), "https://shop.blob.core.windows.net:443/elections");
        assert!(matches!(&read.pass, Pass::Sas(sas) if sas == "sv=2021-12-02&sig=abc%3D"));
        let plain = url.replace("https", "http");
        assert!(Address::read(&plain, |_| None).unwrap_err().contains("without TLS"));
    }

    #[test]
    fn what_is_missing_is_named() {
        for (address, said) in [
            ("azblob://shop", "azblob://ACCOUNT/CONTAINER"),
            ("azblob://shop/elections", "AZURE_STORAGE_KEY"),
            ("azblob://devstoreaccount1/Elections", "no container"),
            ("azblob://devstoreaccount1/elections?x=y", "endpoint=URL"),
            ("azblob://devstoreaccount1/elections?poll_ms=0", "from 100"),
            ("https://shop.blob.core.windows.net/elections", "shared access signature"),
        ] {
            let why = Address::read(address, |_| None).unwrap_err();
            assert!(why.contains(said), "{address}: {why}");
        }
    }
}
