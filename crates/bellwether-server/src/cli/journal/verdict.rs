//! A verdict in words, and as an exit code.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use bellwether::journal::file::{CutTail, State, Verdict};

use super::Failure;

const TORN: u8 = 1;
const DAMAGED: u8 = 2;

/// One line: what was found.
pub(super) fn headline(verdict: &Verdict) -> String {
    match &verdict.state {
        State::Empty => "empty: there is no journal".into(),
        State::Clean => "clean: every byte that counts checks".into(),
        State::Torn { .. } => {
            "torn tail: what was never durable is incomplete; opening cuts it off and keeps a copy"
                .into()
        }
        State::Damaged { fault } => format!("damaged: {fault}"),
    }
}

/// The exit code of a verdict.
pub(super) fn code(dir: &Path, verdict: &Verdict) -> Result<ExitCode, Failure> {
    match verdict.state {
        State::Empty => Err(Failure::NoStore(dir.display().to_string())),
        State::Clean => Ok(ExitCode::SUCCESS),
        State::Torn { .. } => Ok(ExitCode::from(TORN)),
        State::Damaged { .. } => Ok(ExitCode::from(DAMAGED)),
    }
}

/// Writes the whole verdict; `changes` were decoded on the way.
pub(super) fn write(
    out: &mut dyn Write,
    dir: &Path,
    verdict: &Verdict,
    changes: u64,
) -> Result<ExitCode, Failure> {
    let code = code(dir, verdict)?;
    writeln!(out, "{}", headline(verdict))?;
    if let State::Torn { cut } = &verdict.state {
        for CutTail { unit, offset, bytes, .. } in cut {
            writeln!(out, "  to be cut    {unit:016x}.log from byte {offset}, {bytes} bytes")?;
        }
    }
    writeln!(out, "  folder       {}", dir.display())?;
    writeln!(out, "  format       {}", verdict.format)?;
    writeln!(out, "  incarnation  {} (how often it was opened)", verdict.incarnation)?;
    match verdict.snapshot {
        Some(number) => writeln!(
            out,
            "  snapshot     {number:016x}.snapshot, {} blocks, {} bytes",
            verdict.snapshot_blocks, verdict.snapshot_bytes
        )?,
        None => writeln!(out, "  snapshot     none")?,
    }
    writeln!(out, "  units        {}, {} bytes on disk", verdict.units, verdict.unit_bytes)?;
    // A walk that ended at damage does not know how much there would have been.
    if !matches!(verdict.state, State::Damaged { .. }) {
        writeln!(out, "  to replay    {} frames, {} bytes", verdict.frames, verdict.frame_bytes)?;
        writeln!(out, "  next frame   {}", verdict.next_frame)?;
    }
    writeln!(out, "  changes      {changes} decoded, snapshot included")?;
    writeln!(out, "  blank units  {}", verdict.blanks)?;
    for name in &verdict.cut_files {
        writeln!(out, "  cut earlier  {name}")?;
    }
    Ok(code)
}
