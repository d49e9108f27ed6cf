//! What is said when the server is ready: where everything is, and what to try first.

use std::io::{self, Write};
use std::path::Path;

use super::site::Site;
use crate::cli::DEFAULT_SERVER;

/// The first commands to try; `SERVER` says where the server is, if it is not where commands look.
const FIRST_COMMANDS: [&str; 3] = [
    "bellwether queue create ordersSERVER",
    "bellwether send orders 'two coffees'SERVER",
    "bellwether receive orders --completeSERVER",
];

pub(super) fn write(
    out: &mut dyn Write,
    site: &Site,
    socket: Option<&Path>,
    root: Option<&Path>,
) -> io::Result<()> {
    // With TLS both schemes have one letter more.
    let s = if site.config.tls_cert.path().is_some() { "s" } else { "" };
    let url = format!("http{s}://{}", site.connections.http.address());
    let wire = format!("bellwether{s}://{}", site.connections.wire.address());
    writeln!(out, "Bellwether {} is ready.\n", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "  http     {url}")?;
    writeln!(out, "           /v1 is the API, /v1/docs its page; /livez /readyz /metrics")?;
    writeln!(out, "  wire     {wire}")?;
    let socket = socket.map(|path| {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        format!("bellwether+unix:{}", path.display())
    });
    if let Some(socket) = &socket {
        writeln!(out, "  socket   {socket}")?;
    }
    writeln!(out, "  store    {}", site.place())?;
    if let Some(access) = &site.access {
        writeln!(out, "  rules    {}", access.path().display())?;
    }
    if let Some(token) = root {
        writeln!(
            out,
            "  token    {}: may do everything; only this user can read it",
            token.display()
        )?;
    }
    if site.config.virtual_clock {
        writeln!(out, "  time     moved by POST {url}/v1/test/clock/advance")?;
        writeln!(out, "  empty it POST {url}/v1/test/reset")?;
    }
    writeln!(out, "\nTry:")?;
    let asks_more = site.access.is_some() || site.config.tls_cert.path().is_some();
    // The socket asks for nothing, so the commands work as they stand.
    let server = socket.filter(|_| asks_more).unwrap_or(wire);
    let server =
        if server == DEFAULT_SERVER { String::new() } else { format!(" --server {server}") };
    for command in FIRST_COMMANDS {
        writeln!(out, "  {}", command.replace("SERVER", &server))?;
    }
    writeln!(out, "\nCtrl-C stops it. `bellwether serve --help` names every setting.")
}
