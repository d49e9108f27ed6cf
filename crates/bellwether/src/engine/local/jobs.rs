//! A hand for long work beside the writer.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use super::shared::Shared;
use crate::journal::{Job, JournalFault};

/// What a job has brought.
pub(super) type JobResult = Box<dyn std::any::Any + Send>;

/// See the module.
pub(super) struct Jobs {
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Jobs {
    pub(super) fn start(shared: Arc<Shared>) -> Self {
        let (queue, jobs) = mpsc::channel::<Box<dyn Job>>();
        let stopped = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&stopped);
        let thread = std::thread::Builder::new()
            .name("bellwether-jobs".into())
            .spawn(move || {
                for job in jobs {
                    if of_thread.load(Ordering::Acquire) {
                        return;
                    }
                    match std::panic::catch_unwind(AssertUnwindSafe(|| job.run())) {
                        Ok(result) => shared.keeper.job_done(result),
                        Err(_) => return break_off(&shared),
                    }
                }
            })
            .expect("a thread for long work");
        Self { queue: Some(queue), stopped, thread: Some(thread) }
    }

    pub(super) fn give(&self, job: Box<dyn Job>) {
        if let Some(queue) = &self.queue {
            // If the thread has broken off, so has the engine.
            let _ = queue.send(job);
        }
    }

    /// Waits for the work under way and does no more. What is left undone is as after a crash.
    pub(super) fn stop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A job that panicked has nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// A panic in long work is a broken invariant, as one of the rules is.
fn break_off(shared: &Shared) {
    shared.take_turn(|shard| {
        shard.fail(JournalFault::Broken {
            what: "long work".into(),
            cause: "an invariant was broken; see the panic message".into(),
        });
    });
}
