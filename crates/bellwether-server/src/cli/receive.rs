//! `bellwether receive`.
//!
//! A message is written out first and settled then: what is not on its way to the reader is given
//! back uncounted.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use bellwether::{Bellwether, Delivery, Queue, SequenceNumber, Session};
use clap::Args;
use serde_json::Value;

use super::failure::{Ended, Failure, NOTHING};
use super::fence::UnderFence;
use super::form::message as form;
use super::human::parse_duration;
use super::reach::{Reach, half};
use super::screen::Screen;
use super::stop::Stop;
use super::table;

const EXAMPLES: &str = "\
Examples:
  bellwether receive orders
  bellwether receive orders --count 10 --wait 30s --output json
  bellwether receive orders --number 17
  bellwether receive orders --dead-letter --reason Invalid --description 'no address'
  bellwether receive orders --follow | while read -r order; do echo \"$order\"; done";

/// One call takes at most so many, so that one receiver does not lock what others could have.
const TAKE_MAX: u32 = 32;
/// One wait of a receiver that waits for ever; it is repeated.
const FOLLOW_WAIT: Duration = Duration::from_secs(60);

/// Receive messages, write them out, and settle them: by default they are completed.
///
/// The bodies are written, one a line; --verbose writes everything, --output json too. Ends with 1
/// if no message came.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Receive {
    /// Where from.
    queue: String,
    /// At most so many [default: 1; with --follow, as many as come].
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Wait so long for the next message.
    #[arg(long, short, value_name = "DURATION", value_parser = parse_duration,
          default_value = "0s")]
    wait: Duration,
    /// Go on until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    /// From this session; else, in a session queue, from the next free one.
    #[arg(long, conflicts_with = "dead_letters")]
    session: Option<String>,
    /// From the queue's dead letters.
    #[arg(long)]
    dead_letters: bool,
    /// This deferred message, by its number; all that are named, or none. May be repeated.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["count", "wait", "follow"])]
    number: Vec<u64>,
    #[command(flatten)]
    settle: Settle,
    /// Write everything about each message, not only its body.
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

/// How each delivery ends.
#[derive(Clone, Debug, Args)]
#[group(multiple = true)]
#[expect(clippy::struct_excessive_bools, reason = "clap's way to say one of these")]
struct Settle {
    /// The work is done: they go. This is the default.
    #[arg(long, conflicts_with_all = ["abandon", "release", "defer", "dead_letter"])]
    complete: bool,
    /// The work failed: they come back, and the delivery counts.
    #[arg(long, conflicts_with_all = ["release", "defer", "dead_letter", "follow"])]
    abandon: bool,
    /// Nothing was done: they come back, and the delivery does not count.
    #[arg(long, conflicts_with_all = ["defer", "dead_letter", "follow"])]
    release: bool,
    /// Set them aside: they are only received by their number.
    #[arg(long, conflicts_with = "dead_letter")]
    defer: bool,
    /// They can never work: they become dead letters.
    #[arg(long)]
    dead_letter: bool,
    /// Why they become dead letters, in a word or two.
    #[arg(long, requires = "dead_letter", default_value = "Operator")]
    reason: String,
    /// Why they become dead letters, in a sentence.
    #[arg(long, requires = "dead_letter", default_value = "")]
    description: String,
}

impl Settle {
    /// Whether they would come back at once, and be received again.
    fn comes_back(&self) -> bool {
        self.abandon || self.release
    }

    async fn settle(&self, delivery: Delivery) -> Result<(), bellwether::Error> {
        if self.abandon {
            delivery.abandon().await
        } else if self.release {
            delivery.release().await
        } else if self.defer {
            delivery.defer().await.map(drop)
        } else if self.dead_letter {
            delivery.dead_letter(self.reason.as_str(), self.description.as_str()).await
        } else {
            delivery.complete().await
        }
    }
}

impl Receive {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let store = &self.fence.of(store);
            let mut receiving = Receiving {
                args: self,
                received: 0,
                held: Vec::new(),
                stop: Stop::listen()?,
                stopped: false,
            };
            let ended = receiving.receive(store, screen).await;
            let settled = receiving.give_back(ended.is_ok()).await;
            ended?;
            settled?;
            if receiving.received == 0 && !self.follow {
                eprintln!("bellwether: no message came");
                return Ok(ExitCode::from(NOTHING));
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

struct Receiving<'a> {
    args: &'a Receive,
    received: u64,
    /// Those that come back when all have been received, not before.
    held: Vec<Delivery>,
    stop: Stop,
    stopped: bool,
}

impl Receiving<'_> {
    async fn receive(
        &mut self,
        store: &Bellwether,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        let queue = half(store.queue(&self.args.queue)?, self.args.dead_letters);
        let sessions = queue.info().await?.settings.sessions && !self.args.dead_letters;
        if !self.args.number.is_empty() {
            return self.deferred(&queue, sessions, screen).await;
        }
        if sessions {
            return self.sessions_of(&queue, screen).await;
        }
        if self.args.session.is_some() {
            return Err(bellwether::Refusal::SessionNotSupported(queue.name().clone()).into());
        }
        while let Some(max) = self.wanted() {
            let receive = queue.receive().max(max).wait(self.wait());
            let deliveries = tokio::select! {
                deliveries = receive.many() => deliveries?,
                () = self.stop.asked() => return Ok(()),
            };
            if deliveries.is_empty() && !self.args.follow {
                return Ok(());
            }
            self.take(deliveries, screen).await?;
        }
        Ok(())
    }

    /// What was set aside is asked for by its number.
    async fn deferred(
        &mut self,
        queue: &Queue,
        sessions: bool,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        let numbers = self.args.number.iter().copied().map(SequenceNumber);
        if !sessions {
            let deliveries = queue.receive_deferred(numbers).await?;
            return self.take(deliveries, screen).await;
        }
        let Some(name) = &self.args.session else {
            return Err(bellwether::Refusal::SessionRequired(queue.name().clone()).into());
        };
        let session = queue.accept_session().named(name).await?;
        let deliveries = session.receive_deferred(numbers).await?;
        let taken = self.take(deliveries, screen).await;
        self.give_back(taken.is_ok()).await?;
        session.close().await?;
        taken
    }

    async fn sessions_of(&mut self, queue: &Queue, screen: &mut Screen<'_>) -> Result<(), Failure> {
        while self.wanted().is_some() {
            let accept = queue.accept_session().wait(self.wait());
            let session = tokio::select! {
                session = accept_one(accept, self.args.session.as_deref()) => session?,
                () = self.stop.asked() => return Ok(()),
            };
            let Some(session) = session else {
                if self.args.follow {
                    continue;
                }
                return Ok(());
            };
            let emptied = self.empty(&session, screen).await;
            self.give_back(emptied.is_ok()).await?;
            session.close().await?;
            // The one that was named has nothing more, and there is no other.
            if !emptied? || (self.args.session.is_some() && !self.args.follow) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Receives what a session has; false if this was stopped.
    async fn empty(&mut self, session: &Session, screen: &mut Screen<'_>) -> Result<bool, Failure> {
        // The next free session has something; the one that was named may have nothing yet.
        let wait = match (&self.args.session, self.args.follow) {
            (None, _) => Duration::ZERO,
            (Some(_), true) => Duration::MAX,
            (Some(_), false) => self.args.wait,
        };
        while let Some(max) = self.wanted() {
            let deliveries = tokio::select! {
                deliveries = next_of(session, max, wait) => deliveries?,
                () = self.stop.asked() => {
                    self.stopped = true;
                    return Ok(false);
                }
            };
            if deliveries.is_empty() {
                break;
            }
            self.take(deliveries, screen).await?;
        }
        Ok(true)
    }

    /// How many more are wanted in the next call; none when it is over.
    fn wanted(&self) -> Option<u32> {
        let usual = if self.args.follow { u64::MAX } else { 1 };
        let left = self.args.count.unwrap_or(usual).saturating_sub(self.received);
        let max = u32::try_from(left).unwrap_or(u32::MAX).min(TAKE_MAX);
        (max > 0 && !self.stopped).then_some(max)
    }

    fn wait(&self) -> Duration {
        if self.args.follow { FOLLOW_WAIT } else { self.args.wait }
    }

    async fn take(
        &mut self,
        deliveries: Vec<Delivery>,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        let mut deliveries = deliveries.into_iter();
        for delivery in deliveries.by_ref() {
            let written = write(screen, &delivery, self.args.verbose).and_then(|()| screen.flush());
            if let Err(error) = written {
                // Nobody reads any more: this one and those behind it were not handled.
                delivery.release().await?;
                for delivery in deliveries {
                    delivery.release().await?;
                }
                return Err(error.into());
            }
            self.received += 1;
            if self.args.settle.comes_back() {
                self.held.push(delivery);
            } else {
                self.args.settle.settle(delivery).await?;
            }
        }
        Ok(())
    }

    /// Settles what was held to the end; uncounted if the end came too early.
    async fn give_back(&mut self, well: bool) -> Result<(), Failure> {
        for delivery in self.held.drain(..) {
            if well {
                self.args.settle.settle(delivery).await?;
            } else {
                delivery.release().await?;
            }
        }
        Ok(())
    }
}

/// The next messages of a session. The hold is renewed while nothing comes.
async fn next_of(
    session: &Session,
    max: u32,
    wait: Duration,
) -> Result<Vec<Delivery>, bellwether::Error> {
    let mut left = wait;
    loop {
        let step = left.min(session.lock_duration() / 3);
        let deliveries = session.receive().max(max).wait(step).many().await?;
        left = left.saturating_sub(step);
        if !deliveries.is_empty() || left.is_zero() {
            return Ok(deliveries);
        }
        session.renew().await?;
    }
}

async fn accept_one(
    accept: bellwether::session::AcceptSession,
    session: Option<&str>,
) -> Result<Option<Session>, bellwether::Error> {
    match session {
        Some(session) => accept.named(session).await.map(Some),
        None => accept.next().await,
    }
}

fn write(screen: &mut Screen<'_>, delivery: &Delivery, verbose: bool) -> io::Result<()> {
    if screen.is_json() {
        let mut value = form::to_json(delivery.received());
        if let Value::Object(object) = &mut value {
            let token = format!("{:032x}", delivery.token().to_u128());
            object.insert("lock_token".into(), token.into());
        }
        return screen.json(&value);
    }
    if verbose {
        for line in form::lines(delivery.received()) {
            screen.line(&line)?;
        }
        return screen.line("");
    }
    // On a terminal a body is shown, not obeyed; to anything else it goes byte for byte.
    if io::stdout().is_terminal() {
        return screen.line(&table::plain(&String::from_utf8_lossy(delivery.body())));
    }
    screen.bytes(delivery.body())?;
    screen.bytes(b"\n")
}
