//! From the settings to those who are known.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bellwether::core::right::Grants;

use super::rule::Rule;
use super::secret::{Fingerprint, Secret};
use super::{Access, file};
use crate::cli::Failure;
use crate::config::{Config, Credentials};

/// The rule of whoever starts a server for the first time.
const ROOT: &str = "root";
/// Where its token is put, beside the file of rules.
const ROOT_TOKEN: &str = "root.token";

/// Who is known, and where the first token was put if this is the first start.
pub(crate) struct Opened {
    pub(crate) access: Arc<Access>,
    pub(crate) first_token: Option<PathBuf>,
}

/// Reads who is known, if credentials are asked for. With none known there is nobody to make the
/// first one: so a token that may do everything is put into a file that only this user can read.
pub(crate) fn open(config: &Config) -> Result<Option<Opened>, Failure> {
    let failed = Failure::Access;
    let path = config.keys_path();
    if config.credentials == Credentials::Without {
        warn_of_unused(path.as_deref());
        return Ok(None);
    }
    let path = path.ok_or_else(|| {
        failed(
            "credentials are required, and a store in memory has no folder for them: name the file \
             of rules with --keys FILE"
                .into(),
        )
    })?;
    let first_token = if path.exists() { None } else { make_root(&path).map_err(failed)? };
    let per_rule_max = config.connections_per_rule_max.get();
    let access = Access::open(path, config.audit_path(), per_rule_max).map_err(failed)?;
    Ok(Some(Opened { access, first_token }))
}

/// Whoever made rules believes that they count.
fn warn_of_unused(path: Option<&Path>) {
    if let Some(path) = path.filter(|path| path.exists()) {
        tracing::warn!(
            path = %path.display(),
            "there are rules, but credentials are not asked for: start with --credentials required"
        );
    }
}

fn make_root(path: &Path) -> Result<Option<PathBuf>, String> {
    if let Some(folder) = path.parent() {
        // If that fails, writing says why.
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    }
    file::change(path, |rules| {
        if !rules.0.is_empty() {
            // Another one was faster.
            return Ok(None);
        }
        let token = Secret::new_token()?;
        let place = path.with_file_name(ROOT_TOKEN);
        // First the token: one that nobody knows yet does no harm, a rule without one would.
        file::replace(&place, format!("{}\n", token.reveal()).as_bytes())
            .map_err(|e| format!("the first token cannot be put into {}: {e}", place.display()))?;
        let mut root = Rule::new(ROOT, Grants::all());
        root.tokens.push(Fingerprint::of(token.reveal()));
        rules.0.push(root);
        Ok(Some(place))
    })
}
