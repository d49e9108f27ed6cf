//! On a terminal: colour, questions, and the live view.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use super::store::Store;

/// A program with a terminal of its own, and the other end of that terminal.
struct OnTerminal {
    child: Child,
    end: File,
    /// Held open: a terminal that nobody has open forgets how it was set.
    terminal: File,
    seen: String,
}

impl OnTerminal {
    fn run(mut command: Command) -> Self {
        let end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&end).unwrap();
        unlockpt(&end).unwrap();
        let name = ptsname(&end, Vec::new()).unwrap();
        let terminal = open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let terminal = File::from(terminal);
        let stdio = || Stdio::from(terminal.try_clone().unwrap());
        command.stdin(stdio()).stdout(stdio()).stderr(stdio()).env("TERM", "xterm");
        let child = command.spawn().unwrap();
        Self { child, end: File::from(end), terminal, seen: String::new() }
    }

    /// Reads until this is shown.
    fn shows(&mut self, text: &str) {
        let mut bytes = [0; 4096];
        while !self.seen.contains(text) {
            let read = self.end.read(&mut bytes).unwrap();
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }

    fn types(&mut self, keys: &str) {
        self.end.write_all(keys.as_bytes()).unwrap();
    }

    /// How it ended, and whether a line is read and echoed as before.
    fn ended(&mut self) -> (Option<i32>, bool) {
        let code = self.child.wait().unwrap().code();
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        (code, modes.contains(LocalModes::ECHO | LocalModes::ICANON))
    }
}

#[test]
fn a_heading_is_bold_on_a_terminal_unless_colour_is_unwanted() {
    let store = Store::with("orders");
    let mut plain = OnTerminal::run(store.command(&["queue", "list"]));
    plain.shows("orders");
    assert!(plain.seen.starts_with("\x1b[1mNAME"), "{:?}", plain.seen);
    assert_eq!(plain.ended().0, Some(0));
    let mut command = store.command(&["queue", "list"]);
    command.env("NO_COLOR", "1");
    let mut unwanted = OnTerminal::run(command);
    unwanted.shows("orders");
    assert!(unwanted.seen.starts_with("NAME"), "{:?}", unwanted.seen);
    assert_eq!(unwanted.ended().0, Some(0));
}

#[test]
fn a_question_is_answered_on_a_terminal() {
    let store = Store::with("orders");
    let mut no = OnTerminal::run(store.command(&["queue", "delete", "orders"]));
    no.shows("Delete queue \"orders\" with 0 messages and 0 dead letters? [y/N] ");
    no.types("\n");
    assert_eq!(no.ended().0, Some(1), "silence is no");
    let mut yes = OnTerminal::run(store.command(&["queue", "delete", "orders"]));
    yes.shows("[y/N] ");
    yes.types("y\n");
    yes.shows("queue \"orders\" is deleted");
    assert_eq!(yes.ended().0, Some(0));
    assert_eq!(store.json(&["queue", "list"]), serde_json::json!([]));
}

#[test]
fn who_types_messages_is_told_how_that_ends_and_is_not_written_over() {
    let store = Store::with("orders");
    let mut typing = OnTerminal::run(store.command(&["send", "orders"]));
    typing.shows("every line is sent as a message; Ctrl-D ends it");
    typing.types("two coffees\n\x04");
    typing.shows("sent message 1 to \"orders\"");
    assert!(!typing.seen.contains('\x1b'), "{:?}", typing.seen);
    assert_eq!(typing.ended().0, Some(0));
}

#[test]
fn a_backup_is_not_shown() {
    let store = Store::with("orders");
    let mut shown = OnTerminal::run(store.command(&["backup", "-"]));
    shown.shows("a backup is not for a terminal to show; name a file, or use a pipe");
    assert_eq!(shown.ended().0, Some(64));
}

#[test]
fn the_live_view_ends_with_q_and_with_ctrl_c_and_gives_the_terminal_back() {
    let store = Store::with("orders");
    for by_key in [true, false] {
        let mut top = OnTerminal::run(store.command(&["top", "--every", "100ms"]));
        top.shows("orders");
        assert!(top.seen.starts_with("\x1b[?1049h\x1b[?25l\x1b[H"), "{:?}", top.seen);
        if by_key {
            top.types("q");
        } else {
            // What the terminal makes of Ctrl-C.
            kill_process(Pid::from_child(&top.child), Signal::INT).unwrap();
        }
        top.shows("\x1b[?25h\x1b[?1049l");
        assert_eq!(top.ended(), (Some(0), true), "{by_key}");
    }
}
