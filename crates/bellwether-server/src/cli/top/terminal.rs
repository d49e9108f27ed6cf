//! A terminal, taken over and given back as it was.

use std::io::{self, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::sync::Notify;

use super::super::failure::Failure;
use super::super::screen::Screen;
use super::super::stop::Stop;

/// The other screen, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";
/// Where the size of the terminal is not known.
const SIZE_USUAL: (usize, usize) = (24, 80);

/// The terminal while `top` has it. Keys come without Enter and are not shown; however this ends,
/// the settings are put back.
pub(super) struct Terminal {
    saved: Termios,
    stop: Stop,
    keys: Keys,
    given_back: bool,
}

/// Reads keys beside everything else; ends within a tenth of a second.
struct Keys {
    over: Arc<AtomicBool>,
    quit: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Terminal {
    pub(super) fn take(screen: &mut Screen<'_>) -> Result<Self, Failure> {
        let cannot = |e: &dyn std::fmt::Display| {
            Failure::Internal(format!("cannot take over the terminal: {e}; try --once"))
        };
        let stop = Stop::listen()?;
        let saved = tcgetattr(io::stdin()).map_err(|e| cannot(&e))?;
        let mut raw = saved.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A read returns after a tenth of a second without a key.
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 1;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).map_err(|e| cannot(&e))?;
        let terminal = Self { saved, stop, keys: Keys::read(), given_back: false };
        screen.bytes(ENTER.as_bytes())?;
        Ok(terminal)
    }

    /// What draws these lines, cut to the screen.
    pub(super) fn drawing(lines: &[String]) -> String {
        let (rows, columns) = match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_row > 0 => (size.ws_row.into(), size.ws_col.into()),
            _ => SIZE_USUAL,
        };
        let mut drawing = HOME.to_owned();
        for (nth, line) in lines.iter().take(rows).enumerate() {
            if nth > 0 {
                drawing.push_str("\r\n");
            }
            drawing.extend(line.chars().take(columns));
            drawing.push_str(REST_OF_LINE);
        }
        drawing.push_str(REST_OF_SCREEN);
        drawing
    }

    /// Waits; true if it is to end.
    pub(super) async fn wait(&mut self, wait: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(wait) => false,
            () = self.stop.asked() => true,
            () = self.keys.quit.notified() => true,
        }
    }

    /// What gives the screen back, to be written last.
    pub(super) fn give_back(&mut self) -> &'static str {
        self.given_back = true;
        LEAVE
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.keys.end();
        if !self.given_back {
            // Something failed: the shell must not be left on the other screen.
            eprint!("{LEAVE}");
        }
        // There is nobody left to tell.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.saved);
    }
}

impl Keys {
    fn read() -> Self {
        let (over, quit) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let (is_over, quits) = (Arc::clone(&over), Arc::clone(&quit));
        let thread = std::thread::spawn(move || {
            let mut keys = [0; 16];
            while !is_over.load(Ordering::Relaxed) {
                let read = io::stdin().lock().read(&mut keys).unwrap_or(0);
                if keys[..read].iter().any(|key| matches!(key, b'q' | b'Q' | 3)) {
                    quits.notify_one();
                }
            }
        });
        Self { over, quit, thread: Some(thread) }
    }

    fn end(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it has been reported already.
            let _ = thread.join();
        }
    }
}
