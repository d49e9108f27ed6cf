//! The program `bellwether`.

use std::process::ExitCode;

fn main() -> ExitCode {
    bellwether_server::run()
}
