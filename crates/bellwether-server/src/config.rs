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

use bellwether::wire::accept::Pace;
pub(crate) use fault::ConfigFault;
pub(crate) use flags::Flags;
use layers::Layers;
pub(crate) use layers::Source;
pub(crate) use values::{Credentials, File, Hosts, LogForm, Place, Whole};
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
    /// The folder of the store; created if it is not there. Not together with `memory`.
    data: PathBuf = "./bellwether-data";
    /// Keep everything in memory and nothing in a folder: what was sent is gone when it stops.
    memory: bool = "false";
    /// Time stands still until `POST /v1/test/clock/advance` moves it; only with `memory`.
    virtual_clock: bool = "false";
    /// Where HTTP is listened for.
    http: SocketAddr = "127.0.0.1:7400";
    /// Host names, beside loopback's, under which HTTP may be asked for: those of a proxy in front.
    http_hosts: Hosts = "";
    /// HTTP connections at a time; one more is answered 503 and closed. Together with those of the
    /// wire at most four fifths of the files that the system lets this process open: half of them,
    /// and what the other kind does not want.
    http_connections_max: Whole<1, 1_000_000> = "10000";
    /// An HTTP connection that is kept alive between two requests is closed after so long.
    http_idle_ms_max: Whole<100, 3_600_000> = "75000";
    /// The head of an HTTP request must have come so long after its first byte, that of the first
    /// request so long after the connection was made.
    http_head_ms_max: Whole<100, 3_600_000> = "10000";
    /// The longest head of an HTTP request, its path and all its headers together.
    http_head_bytes_max: Whole<1024, 1_048_576> = "32768";
    /// A request's body must have come so long after its head, however fast it comes.
    http_body_ms_max: Whole<100, 3_600_000> = "300000";
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
    unix_socket: Place = "auto";
    /// Connections of the wire at a time, over TCP and the socket together; one more is told so and
    /// closed. The system's limit is shared with HTTP, as `http_connections_max` says.
    wire_connections_max: Whole<1, 1_000_000> = "10000";
    /// Asks that one connection of the wire may have unanswered at a time.
    wire_asks_max: Whole<1, 1_048_576> = "16384";
    /// Bytes that the unanswered asks of one connection of the wire may have together.
    wire_bytes_max: Whole<16_777_216, 4_294_967_295> = "134217728";
    /// A connection of the wire that is silent for so long is taken for dead.
    wire_silence_ms_max: Whole<1000, 3_600_000> = "30000";
    /// The server's certificate, as PEM, with those between it and its authority behind it. With it
    /// both TCP doors speak TLS and nothing else. Read again when it changes, and on SIGHUP.
    tls_cert: File = "";
    /// The private key of `tls_cert`, as PEM.
    tls_key: File = "";
    /// The authorities of certificates that clients show, as PEM. Who shows one must have it from
    /// them, and is known by its names; who shows none is known by none.
    tls_client_ca: File = "";
    /// A TLS handshake that takes longer ends the connection.
    tls_handshake_ms_max: Whole<100, 60_000> = "5000";
    /// Whoever connects to the wire must have said hello after so long.
    wire_hello_ms_max: Whole<100, 3_600_000> = "5000";
    /// The longest hello on the wire: the only frame of somebody who is not known yet.
    wire_hello_bytes_max: Whole<256, 65_536> = "4096";
    /// Whoever asks on the wire without a pause is waited for awake, for so long at most, by one
    /// connection at a time: it is answered sooner, and a core has no rest meanwhile. 0 is
    /// never, and on one core it never is.
    wire_awake_us_max: Whole<0, 10_000> = "200";
    /// The pace, in bytes a second: of a request's body, of a frame of the wire that has begun, and
    /// of reading answers. Connections that are slower are dropped, and locks that were taken on
    /// them end as they always do. 0 is no limit.
    pace_bytes_per_s_min: Whole<0, 1_048_576> = "1024";
    /// The pace is an average over so long.
    pace_over_ms: Whole<100, 3_600_000> = "10000";
    /// Memory for messages and remembered ids, about 160 bytes a waiting message; senders are
    /// refused beyond. 0 is six tenths of what the control group, or else the machine, lets this
    /// process have.
    memory_bytes_max: Whole<0, 1_099_511_627_776> = "0";
    /// Memory for requests and their bodies until they are answered, of all connections together, HTTP
    /// and the wire; beyond, they are refused. Small ones are always let in. 0 is two tenths of what
    /// the control group, or else the machine, lets this process have.
    asks_bytes_max: Whole<0, 1_099_511_627_776> = "0";
    /// Memory for bodies, beside the journal.
    body_cache_bytes_max: Whole<0, 1_099_511_627_776> = "8388608";
    /// Free space on the disk of the store. With less, senders are refused; receiving and settling go
    /// on in it. 0 is a twentieth of the disk, but at most 1 GiB.
    disk_free_bytes_min: Whole<0, 1_152_921_504_606_846_976> = "0";
    /// Deliveries that one member may have unsettled at a time; it is handed no more. Those who
    /// receive over HTTP and name no member are one.
    unsettled_per_member_max: Whole<1, 4_294_967_295> = "100000";
    /// Sessions that one queue may have at a time.
    sessions_per_queue_max: Whole<1, 4_294_967_295> = "1000000";
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
        config.check_memory()?;
        config.check_tls()?;
        Ok(config)
    }

    /// Whoever names a folder wants to find something in it.
    fn check_memory(&self) -> Result<(), ConfigFault> {
        if !self.memory || *self.source("data") == Source::Default {
            return Ok(());
        }
        Err(ConfigFault::Together {
            found: format!("{}; {}", self.source("memory"), self.source("data")),
            why: "memory keeps nothing in a folder, and data names one: leave memory out to keep \
                  everything there, or leave data out to keep nothing",
        })
    }

    fn check_tls(&self) -> Result<(), ConfigFault> {
        let is_set =
            [&self.tls_cert, &self.tls_key, &self.tls_client_ca].map(|f| f.path().is_some());
        let (name, why) = match is_set {
            [true, false, _] => ("tls_cert", "tls_cert needs its private key: set tls_key, too"),
            [false, true, _] => ("tls_key", "tls_key needs its certificate: set tls_cert, too"),
            [false, false, true] => (
                "tls_client_ca",
                "tls_client_ca is for clients that come over TLS: set tls_cert and tls_key, too",
            ),
            [true, true, _] | [false, false, false] => return Ok(()),
        };
        Err(ConfigFault::Together { found: self.source(name).to_string(), why })
    }

    /// What a file of this text would set.
    #[cfg(feature = "testing")]
    pub(crate) fn of_text(text: &str) -> Result<Self, ConfigFault> {
        Self::read(&Layers::of_text(text)?)
    }

    /// The path of the Unix socket, if there is to be one.
    pub(crate) fn socket_path(&self) -> Option<PathBuf> {
        self.place(&self.unix_socket, SOCKET)
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

    /// Whether other machines can be listened to: they are told apart and cannot be overheard.
    pub(crate) fn is_safe_remotely(&self) -> bool {
        self.tls_cert.path().is_some() && self.credentials == Credentials::Required
    }

    /// Whether other machines are listened to although that is not safe.
    pub(crate) fn is_insecure(&self) -> bool {
        let is_remote = |address: SocketAddr| !address.ip().to_canonical().is_loopback();
        self.insecure_allow_remote
            && !self.is_safe_remotely()
            && (is_remote(self.http) || is_remote(self.wire))
    }

    /// How fast others must send and read.
    pub(crate) fn pace(&self) -> Pace {
        let bytes_per_s_min = self.pace_bytes_per_s_min.get_u32();
        Pace { bytes_per_s_min, over_ms: self.pace_over_ms.get_u32() }
    }

    /// Where a setting's value was found.
    pub(crate) fn source(&self, name: &str) -> &Source {
        let found = self.found.iter().find(|(found, _, _)| *found == name);
        found.map_or(&Source::Default, |(_, _, source)| source)
    }
}
