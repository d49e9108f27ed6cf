//! The log, on stderr. Quiet: start, stop, and what somebody must do something about.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{ConfigFault, LogForm};

const FILTER: &str = "RUST_LOG";

/// Starts logging for the whole process.
pub(crate) fn start(form: LogForm) -> Result<(), ConfigFault> {
    let filter = std::env::var(FILTER).unwrap_or_default();
    let filter = if filter.is_empty() { "info" } else { &filter };
    let filter = EnvFilter::try_new(filter).map_err(|e| ConfigFault::Filter(e.to_string()))?;
    let is_coloured = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_coloured);
    // It is the first and only one of this process; were there another, that one would log.
    let _ = match form {
        LogForm::Text => log.try_init(),
        LogForm::Json => log.json().flatten_event(true).try_init(),
    };
    Ok(())
}
