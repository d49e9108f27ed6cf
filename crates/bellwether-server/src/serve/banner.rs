//! What is said when the server is ready: where everything is, and what to try first.

use std::io::{self, Write};
use std::net::SocketAddr;

use super::site::Site;

/// The first commands to try; `URL` is where the server is.
const FIRST_COMMANDS: [&str; 3] = [
    "curl -X PUT URL/v1/queues/orders",
    "curl -X POST URL/v1/queues/orders/messages -H 'content-type: text/plain' -d 'two coffees'",
    "curl -X POST URL/v1/queues/orders/receive",
];

pub(super) fn write(out: &mut dyn Write, site: &Site, http: SocketAddr) -> io::Result<()> {
    let url = format!("http://{http}");
    writeln!(out, "Bellwether {} is ready.\n", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "  http     {url}  (the API under /v1; /livez /readyz /metrics)")?;
    writeln!(out, "  store    {}", site.place())?;
    if site.config.virtual_clock {
        writeln!(out, "  time     moved by POST {url}/v1/test/clock/advance")?;
        writeln!(out, "  empty it POST {url}/v1/test/reset")?;
    }
    writeln!(out, "\nTry:")?;
    for command in FIRST_COMMANDS {
        writeln!(out, "  {}", command.replace("URL", &url))?;
    }
    writeln!(out, "\nCtrl-C stops it. `bellwether serve --help` names every setting.")
}
