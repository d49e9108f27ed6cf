//! Why a configuration was not taken.

use super::SETTINGS;
use crate::cli::did_you_mean;

/// See the module. Every text names the setting, where it was found, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigFault {
    /// That is not a value of this setting.
    Value { name: &'static str, text: String, found: String, allowed: String },
    /// The file has a key that is no setting.
    Key { key: String, found: String },
    /// A variable with our prefix is no setting.
    Variable(String),
    /// A variable's value, or its name, is not text.
    NotText(String),
    /// The file cannot be read.
    Unreadable { path: String, why: String },
    /// The file is not TOML.
    NotToml { found: String, why: String },
    /// The file that a setting names does not do.
    File { name: &'static str, found: String, why: String },
    /// Two settings that do not go together.
    Together { found: String, why: &'static str },
    /// The log's filter makes no sense.
    Filter(String),
}

impl std::fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value { name, text, found, allowed } => {
                write!(f, "the setting {name} cannot be {text:?} ({found}); it is {allowed}")
            }
            Self::Key { key, found } => {
                let names = SETTINGS.iter().map(|setting| setting.name.to_owned());
                write!(f, "there is no setting {key:?} ({found}); {}", nearest(key, names))
            }
            Self::Variable(name) => {
                let names = SETTINGS.iter().map(super::Setting::variable);
                write!(
                    f,
                    "the environment variable {name} is no setting of this program; unset it; {}",
                    nearest(name, names)
                )
            }
            Self::NotText(name) => {
                write!(f, "the environment variable {name} is not text; it must be UTF-8")
            }
            Self::Unreadable { path, why } => {
                write!(
                    f,
                    "cannot read the configuration file {path}: {why}; --config or \
                     BELLWETHER_CONFIG names it"
                )
            }
            Self::NotToml { found, why } => write!(f, "{found} is not TOML: {why}"),
            Self::File { name, found, why } => write!(f, "the setting {name} ({found}): {why}"),
            Self::Together { found, why } => write!(f, "{why} ({found})"),
            Self::Filter(why) => {
                write!(
                    f,
                    "the environment variable RUST_LOG is no filter: {why}; it is a level, as \
                     debug, or levels by target, as warn,bellwether=debug"
                )
            }
        }
    }
}

/// The one that was probably meant, or where all of them stand.
fn nearest(name: &str, names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    did_you_mean(name, names.iter().map(String::as_str))
        .unwrap_or_else(|| "`bellwether serve --help` names all that there are".into())
}
