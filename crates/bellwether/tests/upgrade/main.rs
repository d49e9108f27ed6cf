//! Upgrading (S5): what an earlier version wrote is opened and served by this one, and its clients
//! are answered as they were.
//!
//! Beside this file lie a store of every journal format that is still read, and a conversation in
//! every version of the wire that is still spoken, as the version that brought them wrote them.
//! They are kept for ever. `BELLWETHER_REWRITE_GOLDEN=1` writes the newest store anew, which only a
//! new format may need.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod store;
mod wire;

use std::path::{Path, PathBuf};

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade").join(name)
}
