//! Which store a command works on, reached in one place.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bellwether::core::time::WallTime;
use bellwether::journal::JournalFault;
use bellwether::journal::file::has_store;
use bellwether::{Bellwether, Clock, Credential, Elections, Error, Open, Queue, Refusal};
use clap::{Args, Parser};

use super::failure::{Ended, Failure};
use super::screen::{Format, Screen};

/// Where a server is looked for.
pub(crate) const DEFAULT_SERVER: &str = "bellwether://127.0.0.1:7401";
const SERVER_HELP: &str = "The server: bellwether://HOST:PORT, HOST:PORT, bellwethers://HOST:PORT \
    for TLS, or bellwether+unix:PATH; for `lead`, `election who` and `election watch` also an engine \
    that `bellwether engines` lists [env: BELLWETHER_SERVER] [default: bellwether://127.0.0.1:7401]";
const SERVER_VARIABLE: &str = "BELLWETHER_SERVER";
const CREDENTIAL_VARIABLE: &str = "BELLWETHER_CREDENTIAL";
const CREDENTIAL_FILE_VARIABLE: &str = "BELLWETHER_CREDENTIAL_FILE";
const TLS_CA_HELP: &str = "The authorities that a server's certificate may be from, as PEM; those \
    of the system if not given [env: BELLWETHER_TLS_CA]";
const TLS_CERT_HELP: &str = "A certificate to show the server, as PEM \
    [env: BELLWETHER_TLS_CLIENT_CERT]";
const TLS_KEY_HELP: &str = "Its private key, as PEM [env: BELLWETHER_TLS_CLIENT_KEY]";
/// How an address begins that asks for TLS.
const OVER_TLS: &str = "bellwethers://";
/// How long a server is waited for: somebody may sit at the terminal.
const PATIENCE: Duration = Duration::from_secs(3);
/// From here on two names are alike enough to be taken for each other.
const ALIKE: f64 = 0.8;

/// Which store, and how the answer is written.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reach {
    #[arg(long, value_name = "ADDRESS", help = SERVER_HELP)]
    server: Option<String>,
    #[command(flatten)]
    shown: Shown,
    /// The folder of a store that no process has open: works on it directly.
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    data: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help = TLS_CA_HELP, conflicts_with = "data")]
    tls_ca: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help = TLS_CERT_HELP, conflicts_with = "data")]
    tls_cert: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help = TLS_KEY_HELP, conflicts_with = "data")]
    tls_key: Option<PathBuf>,
    /// How the answer is written: a table for people, or JSON, one value a line.
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: Format,
}

/// Flags alone.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Told {
    #[command(flatten)]
    reach: Reach,
}

/// What is shown to a server that asks for credentials.
#[derive(Clone, Debug, Args)]
struct Shown {
    /// A file with the token or shared access signature to show to the server.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "data",
        help = "A file with the token or shared access signature to show to the server \
                [env: BELLWETHER_CREDENTIAL_FILE; BELLWETHER_CREDENTIAL for the credential itself]"
    )]
    credential_file: Option<PathBuf>,
}

impl Shown {
    /// There is no flag for the credential itself: whoever lists processes would see it.
    fn credential(&self) -> Credential {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        match (&self.credential_file, set(CREDENTIAL_VARIABLE), set(CREDENTIAL_FILE_VARIABLE)) {
            (Some(path), _, _) => Credential::file(path),
            (None, Some(text), _) => Credential::new(text),
            (None, None, Some(path)) => Credential::file(path),
            (None, None, None) => Credential::default(),
        }
    }
}

/// Whether a folder without a store becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// No: it is a slip of the pen.
    Refused,
    /// No, but `--create` would make one.
    NeedsCreate,
    /// Yes, it was asked for.
    Created,
}

impl Absent {
    /// For a command that has a `--create`.
    pub(crate) fn unless(create: bool) -> Self {
        if create { Self::Created } else { Self::NeedsCreate }
    }
}

impl Reach {
    /// Opens the store, does the work, and closes the store: what was done is then flushed.
    pub(crate) fn run(
        &self,
        out: &mut dyn Write,
        absent: Absent,
        work: impl AsyncFnOnce(&Bellwether, &mut Screen<'_>) -> Ended,
    ) -> Ended {
        let mut screen = Screen::new(out, self.output);
        runtime()?.block_on(async {
            let store = self.open(absent).await?;
            let ended = match work(&store, &mut screen).await {
                Err(failure) => Err(with_next_step(&store, failure).await),
                ended => ended,
            };
            store.close().await;
            ended
        })
    }

    /// The same for a store that must be there.
    pub(crate) fn look(
        &self,
        out: &mut dyn Write,
        work: impl AsyncFnOnce(&Bellwether, &mut Screen<'_>) -> Ended,
    ) -> Ended {
        self.run(out, Absent::Refused, work)
    }

    /// The folder, if the command works on one directly.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// The address of an engine that people already run and that keeps elections only, if the command
    /// is given one.
    pub(crate) fn engine(&self) -> Option<String> {
        let address = self.named().filter(|_| self.data.is_none())?;
        let direct = Elections::engines().iter().filter(|engine| !engine.feature.is_empty());
        let mut schemes = direct.flat_map(|engine| engine.scheme.split(' '));
        schemes.any(|scheme| address.starts_with(scheme)).then_some(address)
    }

    /// The same, unless it comes with flags that are for something else.
    pub(crate) fn checked_engine(&self) -> Result<Option<String>, Failure> {
        let Some(address) = self.engine() else { return Ok(None) };
        let flags = [&self.tls_ca, &self.tls_cert, &self.tls_key, &self.shown.credential_file];
        if flags.into_iter().any(Option::is_some) {
            return Err(Failure::Usage(format!(
                "--tls-ca, --tls-cert, --tls-key and --credential-file are for a Bellwether server, \
                 and {} is none: what lets us in there stands in its address",
                shown(&address)
            )));
        }
        Ok(Some(address))
    }

    /// The elections of the store, or of an engine that people already run; whoever asks closes them.
    pub(crate) async fn elections(&self) -> Result<Elections, Failure> {
        let Some(address) = self.checked_engine()? else {
            return self.open(Absent::Refused).await.map(Elections::from);
        };
        Elections::open(address).await.map_err(|error| match error {
            Error::Handshake { .. } | Error::Failed(_) | Error::Unknown(_) => {
                Failure::Unreachable(error.to_string())
            }
            error => Failure::Store(error),
        })
    }

    /// The same as [`Reach::look`] for what any of them can do.
    pub(crate) fn look_at_elections(
        &self,
        out: &mut dyn Write,
        work: impl AsyncFnOnce(&Elections, &mut Screen<'_>) -> Ended,
    ) -> Ended {
        let mut screen = Screen::new(out, self.output);
        runtime()?.block_on(async {
            let elections = self.elections().await?;
            let ended = work(&elections, &mut screen).await;
            elections.close().await;
            ended
        })
    }

    /// Opens the store; whoever asks closes it.
    pub(crate) async fn open(&self, absent: Absent) -> Result<Bellwether, Failure> {
        if let Some(dir) = &self.data {
            check_folder(dir, absent)?;
            let opened = Bellwether::open(file_address(dir)?).await;
            return opened.map_err(|error| in_use(dir, error));
        }
        // The end of `lead` is not the end of its command: a guardian needs a moment for that.
        self.open_server(Open::outlived_by_its_work).await
    }

    /// Opens the store of the server, in a way of one's own.
    pub(crate) async fn open_server(&self, with: fn(Open) -> Open) -> Result<Bellwether, Failure> {
        let address = self.server_address()?;
        let open = with(Open::new(address.clone()).patience(PATIENCE));
        let open = self.with_tls(open, &address)?;
        let opened = open.credential(self.shown.credential()).open().await;
        opened.map_err(|error| match error {
            Error::Unreachable { why, .. } => Failure::Unreachable(format!(
                "cannot reach a server at {address}: {why}; start one with `bellwether serve`, \
                 name another with --server or {SERVER_VARIABLE}, or work on a folder with --data"
            )),
            Error::Denied { why, .. } => Failure::NotAllowed(format!(
                "{address} does not let us in: {why}; show another credential with \
                 --credential-file or {CREDENTIAL_VARIABLE}; `bellwether key` on the server's \
                 machine makes them"
            )),
            error => Failure::Store(error),
        })
    }

    /// The same server and credentials, for a process of our own: its environment.
    pub(crate) fn environment(&self) -> Result<Vec<(&'static str, OsString)>, Failure> {
        let mut environment = vec![(SERVER_VARIABLE, self.server_address()?.into())];
        let files = [
            (CREDENTIAL_FILE_VARIABLE, &self.shown.credential_file),
            ("BELLWETHER_TLS_CA", &self.tls_ca),
            ("BELLWETHER_TLS_CLIENT_CERT", &self.tls_cert),
            ("BELLWETHER_TLS_CLIENT_KEY", &self.tls_key),
        ];
        let named = files.into_iter().filter_map(|(name, path)| Some((name, path.clone()?.into())));
        environment.extend(named);
        if self.shown.credential_file.is_some() {
            // The file was meant, and a variable would come first.
            environment.push((CREDENTIAL_VARIABLE, OsString::new()));
        }
        Ok(environment)
    }

    /// The same store or engine, for a process of our own that is told so in words and has our
    /// environment: flags. An engine's address may hold a password, so these are for no command line.
    /// `None` if nobody else can open it, or if that cannot be said.
    pub(crate) fn flags(&self) -> Option<Vec<String>> {
        let address = match self.engine() {
            Some(address) => address,
            None if self.data.is_some() => return None,
            None => self.server_address().ok()?,
        };
        let mut flags = vec![format!("--server={address}")];
        let files = [
            ("--credential-file", &self.shown.credential_file),
            ("--tls-ca", &self.tls_ca),
            ("--tls-cert", &self.tls_cert),
            ("--tls-key", &self.tls_key),
        ];
        for (flag, path) in files {
            if let Some(path) = path {
                flags.push(format!("{flag}={}", path.to_str()?));
            }
        }
        Some(flags)
    }

    /// What [`Reach::flags`] has said.
    pub(crate) fn from_flags(flags: &[String]) -> Option<Self> {
        Told::try_parse_from(flags).ok().map(|told| told.reach)
    }

    /// With whom to trust and what to show, if the address asks for TLS.
    fn with_tls(&self, mut open: Open, address: &str) -> Result<Open, Failure> {
        if !address.starts_with(OVER_TLS) {
            // A variable is for every command; a flag was meant for this one.
            let flags = [&self.tls_ca, &self.tls_cert, &self.tls_key];
            if flags.into_iter().any(Option::is_some) {
                return Err(Failure::Usage(format!(
                    "--tls-ca, --tls-cert and --tls-key are for a server that is reached over TLS, \
                     and {address} is not: write {OVER_TLS}HOST:PORT"
                )));
            }
            return Ok(open);
        }
        if let Some(authorities) = given(self.tls_ca.as_ref(), "BELLWETHER_TLS_CA") {
            open = open.trust(authorities);
        }
        let certificate = given(self.tls_cert.as_ref(), "BELLWETHER_TLS_CLIENT_CERT");
        let key = given(self.tls_key.as_ref(), "BELLWETHER_TLS_CLIENT_KEY");
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(open.identity(certificate, key)),
            (None, None) => Ok(open),
            _ => Err(Failure::Usage(
                "a certificate to show and its private key go together: name both, with --tls-cert \
                 and --tls-key"
                    .into(),
            )),
        }
    }

    fn named(&self) -> Option<String> {
        let variable = || std::env::var(SERVER_VARIABLE).ok().filter(|a| !a.is_empty());
        self.server.clone().or_else(variable)
    }

    fn server_address(&self) -> Result<String, Failure> {
        if let Some(address) = self.engine() {
            return Err(Failure::Usage(format!(
                "--server {}: that keeps elections only, for `lead`, `election who` and `election \
                 watch`; write bellwether://HOST:PORT, or name a folder with --data DIR",
                shown(&address)
            )));
        }
        let address = self.named().unwrap_or_else(|| DEFAULT_SERVER.into());
        if address.starts_with("bellwether") && address.contains(':') {
            return Ok(address);
        }
        // Anything else that has a scheme would open a store in this process instead.
        let is_bare = address.split_once(':').is_none_or(|(_, rest)| {
            rest.chars().all(|c| c.is_ascii_digit()) || address.starts_with('[')
        });
        if is_bare {
            return Ok(format!("bellwether://{address}"));
        }
        Err(Failure::Usage(format!(
            "--server {address}: this is not the address of a server; write bellwether://HOST:PORT, \
             or name a folder with --data DIR"
        )))
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let built = runtime.worker_threads(2).enable_all().build();
    built.map_err(|e| Failure::Internal(format!("cannot start a runtime: {e}")))
}

/// What may be shown of an engine's address: the part before the host may be a password.
fn shown(address: &str) -> String {
    format!("{}…", address.split_inclusive("://").next().unwrap_or_default())
}

/// What was given as a flag, or else in the environment.
fn given(flag: Option<&PathBuf>, variable: &str) -> Option<PathBuf> {
    let named = || std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    flag.cloned().or_else(named)
}

/// The address of a folder. An address that begins with `file://` is read as a URL, so two slashes at
/// the beginning of a path become the one they mean.
fn file_address(dir: &Path) -> Result<String, Failure> {
    let path: PathBuf = dir.components().collect();
    match path.to_str() {
        Some(path) => Ok(format!("file:{path}")),
        None => Err(Failure::Usage(format!("--data {}: the name is not UTF-8", dir.display()))),
    }
}

fn check_folder(dir: &Path, absent: Absent) -> Result<(), Failure> {
    let there = has_store(dir)
        .map_err(|error| Failure::Input { what: format!("the folder {}", dir.display()), error })?;
    match absent {
        _ if there => Ok(()),
        Absent::Created => Ok(()),
        Absent::Refused => Err(Failure::NoStore(dir.display().to_string())),
        Absent::NeedsCreate => Err(Failure::NoStoreYet(dir.display().to_string())),
    }
}

fn in_use(dir: &Path, error: Error) -> Failure {
    match error {
        Error::Fault(JournalFault::InUse { holder, .. }) => Failure::InUse(format!(
            "cannot open the store in {}: another process has it open ({holder}); if that is a \
             server, leave out --data and reach it with --server ADDRESS",
            dir.display()
        )),
        Error::Fault(fault) => Failure::Journal(fault),
        error => Failure::Store(error),
    }
}

/// Says what may have been meant.
async fn with_next_step(store: &Bellwether, failure: Failure) -> Failure {
    let Failure::Store(Error::Refused(Refusal::QueueNotFound(queue))) = &failure else {
        return failure;
    };
    let Ok(queues) = store.queues().await else { return failure };
    let names = queues.iter().map(|info| info.name.as_str());
    let next = did_you_mean(queue.as_str(), names)
        .unwrap_or_else(|| "`bellwether queue list` shows what there is".into());
    Failure::NotThere(format!("there is no queue {queue:?}; {next}"))
}

/// The name that was probably meant.
pub(crate) fn did_you_mean<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let lower = name.to_lowercase();
    let near = names.map(|known| (strsim::jaro_winkler(&lower, &known.to_lowercase()), known));
    let (_, nearest) =
        near.filter(|(near, _)| *near >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("did you mean {nearest:?}?"))
}

/// Whether there is a queue of this name.
pub(crate) async fn has_queue(store: &Bellwether, name: &str) -> Result<bool, Error> {
    match store.queue(name)?.info().await {
        Err(Error::Refused(Refusal::QueueNotFound(_))) => Ok(false),
        found => found.map(|_| true),
    }
}

/// The wall clock.
pub(crate) fn now() -> WallTime {
    Clock::System.now().wall
}

/// The queue, or the half of it that holds its dead letters.
pub(crate) fn half(queue: Queue, dead_letters: bool) -> Queue {
    if dead_letters { queue.dead_letters() } else { queue }
}
