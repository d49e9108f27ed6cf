//! The body, as a command gets it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use bytes::Bytes;

use super::Input;

/// On the command's input, or in a file of its own, which is removed in the end.
#[derive(Debug)]
pub(super) enum Body {
    Input(Bytes),
    File(PathBuf),
}

impl Body {
    pub(super) fn new(way: Input, body: Bytes) -> io::Result<Self> {
        if way == Input::Stdin {
            return Ok(Self::Input(body));
        }
        let mut chance = [0; 16];
        getrandom::getrandom(&mut chance).map_err(|e| io::Error::other(e.to_string()))?;
        let name = format!("bellwether-body-{:032x}", u128::from_ne_bytes(chance));
        let path = std::env::temp_dir().join(name);
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        // For this user alone: nobody else may read what others have sent.
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(named)?;
        let made = Self::File(path.clone());
        (&file).write_all(&body).map_err(named)?;
        Ok(made)
    }

    pub(super) fn path(&self) -> Option<OsString> {
        match self {
            Self::Input(_) => None,
            Self::File(path) => Some(path.clone().into()),
        }
    }

    /// What is written to the command's input.
    pub(super) fn on_input(&self) -> Bytes {
        match self {
            Self::Input(body) => body.clone(),
            Self::File(_) => Bytes::new(),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Self::File(path) = self {
            let _ = fs::remove_file(path);
        }
    }
}
