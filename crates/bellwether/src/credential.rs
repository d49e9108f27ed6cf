//! What a program shows to a server to be let in.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest credential: it must fit into the first frame of a connection.
pub const CREDENTIAL_BYTES_MAX: usize = 3072;

/// A token or a shared access signature. Never shown by `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credential(Source);

#[derive(Clone, Default, PartialEq, Eq)]
enum Source {
    #[default]
    Without,
    Text(Arc<str>),
    File(PathBuf),
}

impl Credential {
    /// This text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(Source::Text(text.into()))
    }

    /// What stands in a file, read anew for every connection: so it can be replaced while the
    /// program runs.
    pub fn file(path: impl AsRef<Path>) -> Self {
        Self(Source::File(path.as_ref().to_owned()))
    }

    /// Whether the next look may find another one.
    pub(crate) fn may_change(&self) -> bool {
        matches!(self.0, Source::File(_))
    }

    /// The text to show; empty without one.
    pub(crate) fn read(&self) -> Result<String, String> {
        let text = match &self.0 {
            Source::Without => String::new(),
            Source::Text(text) => text.trim().to_owned(),
            Source::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => text.trim().to_owned(),
                Err(e) => {
                    let path = path.display();
                    return Err(format!("its file {path} cannot be read: {e}"));
                }
            },
        };
        if text.len() > CREDENTIAL_BYTES_MAX {
            return Err(format!(
                "it has {} bytes, and none has more than {CREDENTIAL_BYTES_MAX}; is it the right \
                 file?",
                text.len()
            ));
        }
        Ok(text)
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Without => f.write_str("none"),
            Source::Text(_) => f.write_str("<secret>"),
            Source::File(path) => write!(f, "<secret in {}>", path.display()),
        }
    }
}
