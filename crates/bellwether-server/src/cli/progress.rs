//! Progress of long work: on a terminal only, and never in the answer.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far it is.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Of so many messages, or of nobody knows how many.
    pub(crate) fn of(messages: Option<u64>, what: &'static str) -> Self {
        Self::of_messages(messages, what, io::stderr().is_terminal())
    }

    fn of_messages(messages: Option<u64>, what: &'static str, is_shown: bool) -> Self {
        let form = match messages {
            Some(_) => "{msg} {wide_bar} {human_pos}/{human_len} {eta}",
            None => "{spinner} {msg} {human_pos}",
        };
        Self::drawn(messages, what, form, is_shown)
    }

    /// Of what is read from the input. Who types it is told how that ends, and not written over.
    pub(crate) fn of_input(what: &'static str, hint: &str) -> Self {
        let is_typed = io::stdin().is_terminal();
        if is_typed {
            eprintln!("bellwether: {hint}; Ctrl-D ends it");
        }
        Self::of_messages(None, what, !is_typed && io::stderr().is_terminal())
    }

    /// Of so many bytes, about.
    pub(crate) fn of_bytes(bytes: u64, what: &'static str) -> Self {
        let form = "{msg} {wide_bar} {bytes}/{total_bytes} {eta}";
        Self::drawn(Some(bytes), what, form, io::stderr().is_terminal())
    }

    fn drawn(whole: Option<u64>, what: &'static str, form: &str, is_shown: bool) -> Self {
        // From the beginning: it draws by itself as soon as it is there.
        let target =
            if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(whole, target);
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
