//! Progress of long work: on a terminal only, and never in the answer.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far it is.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Of so many messages, or of nobody knows how many.
    pub(crate) fn of(messages: Option<u64>, what: &'static str) -> Self {
        let form = match messages {
            Some(_) => "{msg} {wide_bar} {human_pos}/{human_len} {eta}",
            None => "{spinner} {msg} {human_pos}",
        };
        Self::drawn(messages, what, form)
    }

    /// Of what is read from the input. Who types it is told how that ends, and not written over.
    pub(crate) fn of_input(what: &'static str, hint: &str) -> Self {
        let progress = Self::of(None, what);
        if io::stdin().is_terminal() {
            progress.0.set_draw_target(ProgressDrawTarget::hidden());
            eprintln!("bellwether: {hint}; Ctrl-D ends it");
        }
        progress
    }

    /// Of so many bytes, about.
    pub(crate) fn of_bytes(bytes: u64, what: &'static str) -> Self {
        Self::drawn(Some(bytes), what, "{msg} {wide_bar} {bytes}/{total_bytes} {eta}")
    }

    fn drawn(whole: Option<u64>, what: &'static str, form: &str) -> Self {
        let bar = match whole {
            Some(whole) => ProgressBar::new(whole),
            None => ProgressBar::new_spinner(),
        };
        if !io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.inc(more);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
