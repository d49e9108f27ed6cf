//! The program `bellwether`: parse, call one function, map its end to an exit code.
//!
//! It is a library only so that what reads other people's bytes can be tried from outside, and that
//! tests judge what they have seen as `bellwether election chaos` does.

mod access;
mod cli;
mod config;
#[doc(hidden)]
pub mod drill;
mod ending;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzz;
mod http;
mod observe;
mod property;
mod scale;
mod serve;
mod time;
mod unfinished;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Ended, Failure, Inner};

/// The whole program.
pub fn run() -> ExitCode {
    if Inner::is_meant() {
        return match Inner::try_parse() {
            Ok(inner) => code_of(inner.run()),
            Err(told) => told_by_parser(&told),
        };
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => return told_by_parser(&told),
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    code_of(cli.run(&mut out).and_then(|code| out.flush().map(|()| code).map_err(Failure::from)))
}

fn code_of(ended: Ended) -> ExitCode {
    match ended {
        Ok(code) => code,
        // Whoever reads us has read enough: `bellwether journal dump … | head`.
        Err(Failure::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("bellwether: {failure}");
            failure.code()
        }
    }
}

/// Help and version are answers; everything else the parser says is a usage error. The parser's own
/// code for that is 2, which here means damage.
fn told_by_parser(told: &clap::Error) -> ExitCode {
    let shown = told.print();
    match (told.use_stderr(), shown) {
        (false, Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::from(cli::USAGE),
    }
}
