//! `bellwether serve`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::Failure;
use crate::config::{Config, Flags};
use crate::serve;

const EXAMPLES: &str = "\
Examples:
  bellwether serve                                  a store in ./bellwether-data
  bellwether serve --data /var/lib/bellwether --log json
  bellwether serve --http 127.0.0.1:0 --wire 127.0.0.1:0   free ports; the first lines say which
  bellwether serve --memory --virtual-clock         for tests: time is moved over HTTP
  bellwether serve --print-config > bellwether.toml
  BELLWETHER_DATA=/srv/queues bellwether serve --config bellwether.toml";

const EXIT_CODES: &str = "\
Exit codes:
  0        stopped by SIGTERM or SIGINT: what was in flight is done, the store is closed
  64       the command line was not understood
  69       an address or socket cannot be listened on: another process has it, or this user may not
  74       the store cannot be opened, or it failed: the folder, its disk, or damage
  75       another process has the store open; try again when it has ended
  78       a setting is wrong: a value, a key, a variable, or an address that others can reach
  130,143  a second SIGINT or SIGTERM ended it at once; nothing acknowledged is lost";

/// Start the server: durable queues, leases and elections, over HTTP and the native wire.
///
/// Each setting is looked for as a flag, then as an environment variable, then in the file that
/// `--config` names, and has a default. The first lines on stdout say where everything is; the log
/// goes to stderr, filtered by `RUST_LOG`.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}")
)]
pub(crate) struct Serve {
    /// A TOML file with settings
    #[arg(long, value_name = "FILE", help = "A TOML file with settings [env: BELLWETHER_CONFIG]")]
    config: Option<PathBuf>,
    /// Print the configuration as TOML with where each value comes from, and start nothing
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    flags: Flags,
}

impl Serve {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let config = Config::load(&self.flags, self.config.clone(), std::env::vars_os())?;
        if self.print_config {
            config.print(out)?;
            return Ok(ExitCode::SUCCESS);
        }
        serve::run(config, out)
    }
}
