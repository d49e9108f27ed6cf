//! One message and its command: what is run, and what its end means.

use std::ffi::OsString;
use std::time::Duration;

use bellwether::Verdict;
use bellwether::pump::{Failure, Work};
use tokio_util::sync::CancellationToken;

use super::child::{Child, End, Streams};
use super::environment;
use super::input::Body;
use super::{Input, Span};

/// The message can never work, says the command.
const DATA_ERROR: i32 = 65;
/// Not now, says the command.
const TRY_AGAIN: i32 = 75;

/// What is done with every message.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) command: Vec<OsString>,
    pub(super) queue: String,
    pub(super) input: Input,
    pub(super) reply: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) retry_after: Option<Duration>,
    /// Between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    /// Somebody will not wait any more.
    pub(super) hurry: CancellationToken,
}

/// Why a command was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// Its lock is lost, or the time to end in peace is over.
    Cancelled,
    TimedOut,
    Hurried,
}

impl Plan {
    pub(super) async fn handle(&self, work: Work) -> Result<Verdict, Failure> {
        let mut environment = environment::of(&self.queue, &work);
        let body = Body::new(self.input, work.body().clone())?;
        environment.extend(body.path().map(|path| ("BELLWETHER_BODY".into(), path)));
        let (mut child, streams) = Child::start(&self.command, environment, &body, self.reply)?;
        let mut streams = tokio::spawn(streams.carry(body.on_input()));
        let (end, told) = self.see_through(&mut child, work.cancellation()).await;
        child.clear_away(self.grace, &self.hurry).await;
        // Nobody of the group is left to write; who has left it is not waited for.
        let written = Streams::rest(&mut streams).await;
        drop(body);
        self.verdict(end, told, written)
    }

    /// Waits for the command's end, and sees to it if it must not go on.
    async fn see_through(
        &self,
        child: &mut Child,
        cancelled: &CancellationToken,
    ) -> (End, Option<Told>) {
        let timeout = async {
            match self.timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let told = tokio::select! {
            biased;
            end = child.end() => return (end, None),
            () = self.hurry.cancelled() => Told::Hurried,
            () = cancelled.cancelled() => Told::Cancelled,
            () = timeout => Told::TimedOut,
        };
        if told != Told::Hurried {
            child.terminate();
            tokio::select! {
                biased;
                end = child.end() => return (end, Some(told)),
                () = self.hurry.cancelled() => {}
                () = tokio::time::sleep(self.grace) => {}
            }
        }
        child.kill();
        (child.end().await, Some(told))
    }

    fn verdict(&self, end: End, told: Option<Told>, written: Streams) -> Result<Verdict, Failure> {
        let Streams { output, is_cut, error_tail } = written;
        let tail = error_tail.trim();
        match (end, told) {
            (End::Code(0), _) if self.reply && is_cut => {
                Err("its reply is longer than a message may be, or has no end".into())
            }
            (End::Code(0), _) if self.reply => Ok(Verdict::reply(output)),
            (End::Code(0), _) => Ok(Verdict::Complete),
            (End::Code(DATA_ERROR), _) => Ok(Verdict::dead_letter("CommandRefused", tail)),
            (End::Code(TRY_AGAIN), _) => Ok(Verdict::Retry(self.retry_after)),
            (_, Some(Told::Cancelled | Told::Hurried)) => Ok(Verdict::Release),
            (_, Some(Told::TimedOut)) => {
                let longest = Span(super::ms(self.timeout.unwrap_or_default()));
                Err(format!("the command took longer than {longest}").into())
            }
            (End::Code(code), None) => Err(with(tail, format!("the command ended with {code}"))),
            (End::Signal(number), None) => {
                Err(with(tail, format!("the command died by signal {number}")))
            }
        }
    }
}

/// With the last it said.
fn with(tail: &str, what: String) -> Failure {
    match tail.lines().next_back() {
        Some(last) => format!("{what}: {last}").into(),
        None => what.into(),
    }
}
