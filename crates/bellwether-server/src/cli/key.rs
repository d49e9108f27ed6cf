//! `bellwether key`: who may ask a server, and what.

mod create;
mod list;
mod revoke;
mod sign;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::failure::Ended;
use super::screen::Format;
use crate::config::KEYS;

/// Make, list and revoke the credentials that a server asks for.
///
/// They are kept in the file of rules of the server, on whose machine these commands run. A running
/// server sees a change within a second. Whether it asks for credentials is a setting of its own:
/// `bellwether serve --credentials required`.
#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    Create(create::Create),
    List(list::List),
    Revoke(revoke::Revoke),
    Sign(sign::Sign),
}

impl Key {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match self {
            Self::Create(create) => create.run(out),
            Self::List(list) => list.run(out),
            Self::Revoke(revoke) => revoke.run(out),
            Self::Sign(sign) => sign.run(out),
        }
    }
}

/// Which file of rules, and how the answer is written.
#[derive(Clone, Debug, Args)]
struct Kept {
    /// The folder of the server's store.
    #[arg(long, value_name = "DIR", default_value = "./bellwether-data")]
    data: PathBuf,
    /// The file of rules, if the server's setting `keys` puts it elsewhere.
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    keys: Option<PathBuf>,
    /// How the answer is written: a table for people, or JSON, one value a line.
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    output: Format,
}

impl Kept {
    fn path(&self) -> PathBuf {
        self.keys.clone().unwrap_or_else(|| self.data.join(KEYS))
    }
}
