//! The settings of `bellwether serve`: one table, from which the flags, the environment variables,
//! the keys of the file, `--print-config` and the help all come.
//!
//! ```text
//!   flag --http-body-bytes-max   ┐ first
//!   BELLWETHER_HTTP_BODY_BYTES_MAX │
//!   http_body_bytes_max in FILE  │
//!   the default                  ┘ last
//! ```
//!
//! A value is read by one function of its kind wherever it was found, so the three ways cannot
//! differ in what they allow.

mod fault;
mod flags;
mod layers;
mod print;
mod values;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;

pub(crate) use fault::ConfigFault;
pub(crate) use flags::Flags;
use layers::Layers;
pub(crate) use layers::Source;
pub(crate) use values::{Credentials, Hosts, LogForm, Place, Socket, Whole};
use values::{Form, Value};

/// The socket's name in the folder of the store.
const SOCKET: &str = "bellwether.sock";
/// The names of the rules and of the audit log there.
pub(crate) const KEYS: &str = "keys.json";
const AUDIT: &str = "audit.log";

/// One line of the table, without its type.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    /// Its key in the file.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) help: &'static str,
    default: &'static str,
    form: Form,
    allowed: fn() -> String,
}

impl Setting {
    /// Its flag, dashes included.
    fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// Its environment variable.
    fn variable(&self) -> String {
        format!("{}{}", layers::PREFIX, self.name.to_uppercase())
    }
}

/// Makes the table, and the type of what was read by it.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ty = $default:literal;)+) => {
        /// Every setting there is.
        pub(crate) const SETTINGS: &[Setting] = &[$(Setting {
            name: stringify!($name),
            help: concat!($($doc),+),
            default: $default,
            form: <$kind as Value>::FORM,
            allowed: <$kind as Value>::allowed,
        }),+];

        /// The configuration that counts.
        #[derive(Clone, Debug)]
        pub(crate) struct Config {
            $($(#[doc = $doc])+ pub(crate) $name: $kind,)+
            /// Where each value was found, in the order of the table.
            found: Vec<(&'static str, String, Source)>,
        }

        impl Config {
            fn read(layers: &Layers) -> Result<Self, ConfigFault> {
                let mut found = Vec::new();
                let mut table = SETTINGS.iter();
                Ok(Self {
                    // Table and fields come from the same lines, in the same order.
                    $($name: layers.read(table.next(), &mut found)?,)+
                    found,
                })
            }
        }
    };
}

settings! {
    /// The folder of the store; created if it is not there.
    data: PathBuf = "./bellwether-data";
    /// Keep everything in memory and nothing in a folder: what was sent is gone when it stops.
    memory: bool = "false";
    /// Time stands still until `POST /v1/test/clock/advance` moves it; only with `memory`.
    virtual_clock: bool = "false";
    /// Where HTTP is listened for.
    http: SocketAddr = "127.0.0.1:7400";
    /// Host names, beside loopback's, under which HTTP may be asked for: those of a proxy in front.
    http_hosts: Hosts = "";
    /// HTTP connections at a time; one more is answered 503 and closed. At most two fifths of the
    /// files that the system lets this process open.
    http_connections_max: Whole<1, 1_000_000> = "10000";
    /// An HTTP connection on which no complete request head has come for so long is closed, also
    /// one that is kept alive between two requests.
    http_head_ms_max: Whole<100, 3_600_000> = "30000";
    /// The longest head of an HTTP request, its path and all its headers together.
    http_head_bytes_max: Whole<1024, 1_048_576> = "32768";
    /// A request's body must have come so long after its head.
    http_body_ms_max: Whole<100, 3_600_000> = "30000";
    /// The longest body of an HTTP request.
    http_body_bytes_max: Whole<1024, 1_073_741_824> = "25165824";
    /// Whether whoever asks must show a credential, on loopback too: `none` or `required`. The Unix
    /// socket, which only this user can open, never asks for one.
    credentials: Credentials = "none";
    /// The file of rules, which `bellwether key` writes: `auto` is `keys.json` in the folder of the
    /// store.
    keys: Place = "auto";
    /// Where it is recorded who managed what, one line of JSON each, if credentials are required:
    /// `auto` is `audit.log` in the folder of the store, and none with `memory`.
    audit: Place = "auto";
    /// Listen on addresses that other machines can reach although they need no credentials there, or
    /// can be listened to on the way. Warned of every hour.
    insecure_allow_remote: bool = "false";
    /// Connections from one address at a time, HTTP and the wire together; loopback has no limit.
    connections_per_address_max: Whole<1, 1_000_000> = "256";
    /// Connections of the wire and requests over HTTP of one rule at a time.
    connections_per_rule_max: Whole<1, 1_000_000> = "1000";
    /// Where the native wire is listened for: that of the command line and of the Rust library.
    wire: SocketAddr = "127.0.0.1:7401";
    /// The Unix socket on which the native wire is listened for, too: `auto` is `bellwether.sock` in
    /// the folder of the store, and none with `memory`. Only this user may open it.
    unix_socket: Socket = "auto";
    /// Connections of the wire at a time, both kinds together; one more is told so and closed. At
    /// most two fifths of the files that the system lets this process open.
    wire_connections_max: Whole<1, 1_000_000> = "10000";
    /// Asks that one connection of the wire may have unanswered at a time.
    wire_asks_max: Whole<1, 1_048_576> = "16384";
    /// Bytes that the unanswered asks of one connection of the wire may have together.
    wire_bytes_max: Whole<16_777_216, 4_294_967_295> = "134217728";
    /// A connection of the wire that is silent for so long is taken for dead.
    wire_silence_ms_max: Whole<1000, 3_600_000> = "30000";
    /// Memory for messages, ids and sessions, about 160 bytes a waiting message; senders are
    /// refused beyond.
    memory_bytes_max: Whole<1_048_576, 1_099_511_627_776> = "4294967296";
    /// Memory for bodies, beside the journal.
    body_cache_bytes_max: Whole<0, 1_099_511_627_776> = "8388608";
    /// After SIGTERM or SIGINT, how long requests in flight may take before they are cut off.
    stop_ms_max: Whole<0, 3_600_000> = "10000";
    /// Queues, and elections, that have a label of their own in `/metrics`: the oldest queues, the
    /// first elections by name. The rest share the label `_other`.
    metrics_names_max: Whole<0, 10_000> = "100";
    /// The form of the log on stderr.
    log: LogForm = "text";
}

impl Config {
    /// Reads the three layers. `file` is what `--config` says; `variables` is the environment.
    pub(crate) fn load(
        flags: &Flags,
        file: Option<PathBuf>,
        variables: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    ) -> Result<Self, ConfigFault> {
        let config = Self::read(&Layers::new(flags, file, variables)?)?;
        if config.virtual_clock && !config.memory {
            return Err(ConfigFault::Together {
                found: config.source("virtual_clock").to_string(),
                why: "virtual_clock moves time by hand and is only for a store in memory: \
                      add --memory, or leave --virtual-clock out",
            });
        }
        Ok(config)
    }

    /// The path of the Unix socket, if there is to be one.
    pub(crate) fn socket_path(&self) -> Option<PathBuf> {
        match &self.unix_socket {
            Socket::Auto if self.memory => None,
            Socket::Auto => Some(self.data.join(SOCKET)),
            Socket::Without => None,
            Socket::At(path) => Some(path.clone()),
        }
    }

    /// The file of rules, if there can be one.
    pub(crate) fn keys_path(&self) -> Option<PathBuf> {
        self.place(&self.keys, KEYS)
    }

    /// The audit log, if there is to be one.
    pub(crate) fn audit_path(&self) -> Option<PathBuf> {
        self.place(&self.audit, AUDIT)
    }

    fn place(&self, place: &Place, name: &str) -> Option<PathBuf> {
        match place {
            Place::Auto => (!self.memory).then(|| self.data.join(name)),
            Place::Without => None,
            Place::At(path) => Some(path.clone()),
        }
    }

    /// Whether other machines are listened to although that is not safe.
    pub(crate) fn is_insecure(&self) -> bool {
        let is_remote = |address: SocketAddr| !address.ip().to_canonical().is_loopback();
        self.insecure_allow_remote && (is_remote(self.http) || is_remote(self.wire))
    }

    /// Where a setting's value was found.
    pub(crate) fn source(&self, name: &str) -> &Source {
        let found = self.found.iter().find(|(found, _, _)| *found == name);
        found.map_or(&Source::Default, |(_, _, source)| source)
    }
}
