//! The thread that renews: one for the process, with nothing else on it.
//!
//! A renewal that waits behind somebody's blocking call comes too late, and a leader is deposed for
//! no fault of its engine. So candidacies, heartbeats and the connections they go over live on a
//! thread of their own; the work of a leader runs wherever its program runs it. What this thread
//! cannot tell is whether that work still gets anywhere: that is what
//! [`Election::stall`](crate::Election::stall) is for.
//!
//! Where a test moves the clock nothing can be late, and everything stays on the test's own runtime,
//! which it can wait for.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

use crate::clock::Clock;

/// Starts a task on the thread that renews.
pub(crate) fn spawn<F>(clock: &Clock, task: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    match (clock, thread()) {
        (Clock::System, Some(thread)) => thread.spawn(task),
        // Without a thread to be had the caller's runtime must do: renewals may be late there, and
        // trust ends in time all the same.
        (Clock::System, None) | (Clock::Virtual(_), _) => tokio::spawn(task),
    }
}

fn thread() -> Option<&'static Handle> {
    static THREAD: OnceLock<Option<Handle>> = OnceLock::new();
    let started = THREAD.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("bellwether-renew".into());
        thread.spawn(move || runtime.block_on(std::future::pending::<()>())).ok()?;
        Some(handle)
    });
    started.as_ref()
}
