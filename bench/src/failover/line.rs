//! Processes that contend for the same thing, and what they say.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::boot_ns;
use crate::child::this_program;

/// Nothing that is measured takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a candidate says, and when that was, in nanoseconds since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Leads(u64),
    Left(u64),
    Lost(u64),
}

impl Said {
    /// What a candidate of ours says.
    pub(super) fn ours(line: &str) -> Option<Self> {
        let (what, at) = line.split_once(' ')?;
        let at = at.parse().ok()?;
        match what {
            "leads" => Some(Self::Leads(at)),
            "left" => Some(Self::Left(at)),
            "lost" => Some(Self::Lost(at)),
            _ => None,
        }
    }
}

/// All candidates of one election; killed when dropped.
pub(super) struct Line {
    candidates: BTreeMap<usize, Candidate>,
    /// The next one's number.
    next: usize,
    /// What a line of theirs means.
    meaning: fn(&str) -> Option<Said>,
    speaker: Sender<(usize, Said)>,
    said: Receiver<(usize, Said)>,
}

struct Candidate {
    child: Child,
    ear: ChildStdin,
}

impl Candidate {
    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.candidates.values_mut().for_each(Candidate::end);
    }
}

impl Line {
    pub(super) fn new(meaning: fn(&str) -> Option<Said>) -> Self {
        let (speaker, said) = channel();
        Self { candidates: BTreeMap::new(), next: 0, meaning, speaker, said }
    }

    /// Adds one of ours.
    pub(super) fn add_ours(&mut self, address: &str, election: &str, ttl: Duration) -> usize {
        self.add_stalling(address, election, ttl, Duration::ZERO)
    }

    /// The same, with a limit to how long its work may show no progress.
    pub(super) fn add_stalling(
        &mut self,
        address: &str,
        election: &str,
        ttl: Duration,
        stall: Duration,
    ) -> usize {
        let ms = |time: Duration| time.as_millis().to_string();
        self.add(&mut this_program(&["candidate", address, election, &ms(ttl), &ms(stall)]))
    }

    /// Adds whatever this command starts; its number.
    pub(super) fn add(&mut self, command: &mut Command) -> usize {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap_or_else(|e| {
                panic!("{}: {e}", command.get_program().display());
            });
        let (number, speaker, meaning) = (self.next, self.speaker.clone(), self.meaning);
        let mouth = BufReader::new(child.stdout.take().expect("its words"));
        std::thread::spawn(move || {
            let said = mouth.lines().map_while(Result::ok).filter_map(|line| meaning(&line));
            said.for_each(|said| speaker.send((number, said)).unwrap_or_default());
        });
        let ear = child.stdin.take().expect("its ear");
        self.candidates.insert(number, Candidate { child, ear });
        self.next += 1;
        number
    }

    /// Says something to one of them.
    pub(super) fn tell(&mut self, number: usize, word: &str) {
        let ear = &mut self.candidates.get_mut(&number).expect("a candidate").ear;
        ear.write_all(format!("{word}\n").as_bytes()).expect("it listens");
    }

    /// Sends a signal; the moment just before.
    pub(super) fn signal(&mut self, number: usize, signal: Signal) -> u64 {
        let pid = Pid::from_child(&self.candidates[&number].child);
        let before = boot_ns();
        kill_process(pid, signal).expect("it runs");
        before
    }

    /// It is over with this one.
    pub(super) fn remove(&mut self, number: usize) {
        self.candidates.remove(&number).expect("a candidate").end();
    }

    /// Until somebody leads: who, and since when.
    pub(super) fn leads(&mut self) -> (usize, u64) {
        loop {
            if let (number, Said::Leads(at)) = self.next() {
                return (number, at);
            }
        }
    }

    /// Until one has left and another leads: from when to when, and who it is.
    pub(super) fn passes(&mut self) -> (Duration, usize) {
        let (mut left, mut leads) = (None, None);
        loop {
            match self.next() {
                (_, Said::Left(at)) => left = Some(at),
                (number, Said::Leads(at)) => leads = Some((number, at)),
                (_, Said::Lost(_)) => {}
            }
            if let (Some(left), Some((number, at))) = (left, leads) {
                return (super::between(left, at), number);
            }
        }
    }

    fn next(&mut self) -> (usize, Said) {
        let said = self.said.recv_timeout(PATIENCE);
        said.unwrap_or_else(|_| panic!("nobody said anything for {PATIENCE:?}"))
    }

    /// Everything that is said in this time.
    pub(super) fn listen(&mut self, time: Duration) -> Vec<(usize, Said)> {
        let (until, mut heard) = (Instant::now() + time, Vec::new());
        loop {
            match self.said.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(said) => heard.push(said),
                Err(RecvTimeoutError::Timeout) => return heard,
                Err(RecvTimeoutError::Disconnected) => unreachable!("we speak ourselves"),
            }
        }
    }
}
