//! The program `bellwether`.

use std::process::ExitCode;

/// A server makes and frees a few small things for every call, often on two threads; a sixth of its
/// time went there with the system's own allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    bellwether_server::run()
}
