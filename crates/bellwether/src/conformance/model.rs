//! Random commands: the engine must answer as the rules do.
//!
//! The rules themselves, without threads, clock or journal, answer beside the engine. That these
//! rules are right is shown where they live: there they are compared with a second, naive
//! implementation.

mod commands;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bellwether_core::chance::Chance;
use bellwether_core::command::{Command, Request};
use bellwether_core::content::Place;
use bellwether_core::error::Refusal;
use bellwether_core::few::Few;
use bellwether_core::name::{MemberId, MemberSlot, RequestNumber, Ticket};
use bellwether_core::note::Claimed;
use bellwether_core::outcome::{MemberInfo, Outcome};
use bytes::Bytes;

use super::Fixture;
use super::support::{at_last, join_command, ms};
use crate::engine::content::Unread;
use crate::engine::shard::{Shard, ShardOptions};
use crate::engine::{Call, Reply};
use crate::error::Error;
use commands::Known;

type Answer = Result<Reply, Error>;
type Waiting = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Random commands, one after the other, are answered as the rules say.
pub async fn one_after_the_other(fixture: &Fixture) {
    World::new(fixture, 1, 0).await.run(600).await;
}

/// The same with commands that wait and are withdrawn.
pub async fn with_waiting(fixture: &Fixture) {
    World::new(fixture, 2, 5_000).await.run(600).await;
}

/// A longer story; `BELLWETHER_SEED` tells another one.
pub async fn a_longer_story(fixture: &Fixture) {
    let seed = std::env::var("BELLWETHER_SEED").ok().and_then(|seed| seed.parse().ok());
    World::new(fixture, seed.unwrap_or(3), 500).await.run(2_000).await;
}

/// An engine and the rules beside it.
struct World<'a> {
    fixture: &'a Fixture,
    seed: u64,
    step: usize,
    chance: Chance,
    /// Commands wait up to so long.
    wait_ms_max: u64,
    rules: Shard<u64>,
    last_ticket: u64,
    /// Calls of the engine that have not been answered, with what was asked.
    asked: BTreeMap<u64, (Waiting, Request)>,
    known: Known,
    /// How many were answered, and how many of these were not refused.
    answered: usize,
    granted: usize,
}

impl<'a> World<'a> {
    async fn new(fixture: &'a Fixture, seed: u64, wait_ms_max: u64) -> Self {
        let options = ShardOptions::default();
        // That a wait was in vain is not remembered: whoever asks again later may be luckier.
        let wait_ms_max = if fixture.loses_answers() { 0 } else { wait_ms_max };
        let mut world = Self {
            fixture,
            seed,
            step: 0,
            chance: Chance::new(seed),
            wait_ms_max,
            rules: Shard::in_memory(fixture.now(), &options),
            last_ticket: 0,
            asked: BTreeMap::new(),
            known: Known::default(),
            answered: 0,
            granted: 0,
        };
        // Those who joined when the store was opened, and go with it.
        let infinite = bellwether_core::limits::LEASE_MS_INFINITE;
        for MemberInfo { id, metadata, .. } in fixture.bellwether().members().await.unwrap() {
            let join = Command::Join { id, metadata, ttl_ms: infinite };
            let call = Call { request: nobodys(join), contents: Few::default() };
            world.last_ticket += 1;
            world.known.first_member += 1;
            world.rules.apply(fixture.now(), Ticket(world.last_ticket), &call, 0);
        }
        assert_eq!(world.rules.take_free().len() as u64, world.last_ticket);
        world.known.first_member += 1;
        for id in [101, 102] {
            let join = join_command(MemberId(id), std::time::Duration::from_secs(10_000_000));
            world.ask(nobodys(join), Vec::new()).await;
        }
        for command in World::create_queues() {
            let member = MemberSlot(world.known.first_member);
            world.ask(Request { member, ..nobodys(command) }, Vec::new()).await;
        }
        world
    }

    async fn run(mut self, steps: usize) {
        for step in 0..steps {
            self.step = step;
            match self.chance.below(10) {
                0 => {
                    let by = [1, 50, 300, 1_000, 2_500][self.chance.below(5) as usize];
                    self.pass(by).await;
                }
                1 if !self.asked.is_empty() => self.withdraw().await,
                _ => {
                    let (request, contents) = self.random_request();
                    self.ask(request, contents).await;
                }
            }
        }
        // Whoever still waits is served or hears that the wait is over.
        self.pass(self.wait_ms_max + 1).await;
        assert!(self.asked.is_empty(), "{}: somebody waits for ever", self.place());
        let (answered, granted) = (self.answered, self.granted);
        assert!(
            granted > answered / 2,
            "{}: a story of refusals, {granted} of {answered}",
            self.place()
        );
        for name in commands::QUEUES {
            let queue = bellwether_core::name::QueueName::new(name).unwrap();
            self.ask(nobodys(Command::DescribeQueue { queue }), Vec::new()).await;
        }
    }

    fn place(&self) -> String {
        format!("seed {}, step {}", self.seed, self.step)
    }

    async fn ask(&mut self, request: Request, contents: Vec<Bytes>) {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let bellwether = self.fixture.bellwether();
        let (asked, along) = (request.clone(), contents.clone());
        let mut waiting: Waiting = Box::pin(async move { bellwether.call(asked, along).await });
        // The first poll hands the call in: the engine gets the calls in this order. The second one
        // keeps the promise of a turn that the first may have given: whoever else is answered by it
        // is waited for before this one is looked at again.
        let early = poll(&mut waiting).or_else(|| poll(&mut waiting));
        let call = Call { request: request.clone(), contents: contents.into() };
        self.rules.apply(self.fixture.now(), Ticket(ticket), &call, ticket);
        if let Some(answer) = early {
            waiting = Box::pin(std::future::ready(answer));
        }
        self.asked.insert(ticket, (waiting, request));
        self.compare().await;
    }

    async fn pass(&mut self, by_ms: u64) {
        self.fixture.advance(ms(by_ms)).await;
        let now = self.fixture.now();
        while self.rules.next_deadline_ms(now) == Some(0) {
            self.rules.tick(now);
        }
        self.compare().await;
    }

    /// Somebody who waits no longer wants to.
    async fn withdraw(&mut self) {
        let nth = self.chance.below(self.asked.len() as u64) as usize;
        let Some(ticket) = self.asked.keys().nth(nth).copied() else { return };
        self.asked.remove(&ticket);
        self.rules.withdraw(Ticket(ticket));
        self.compare().await;
    }

    /// Whoever is answered by the rules is answered alike by the engine, and nobody else is.
    async fn compare(&mut self) {
        let wanted = self.rules.take_free();
        let wanted: Vec<(u64, Answer)> =
            wanted.into_iter().map(|(asker, answer)| (asker, answer.map(Unread::read))).collect();
        for (ticket, wanted) in wanted {
            let Some((waiting, request)) = self.asked.remove(&ticket) else { continue };
            let what = format!("{}: {:?}", self.place(), request.command);
            let found = at_last(&what, waiting).await;
            let (wanted, found) = (plain(wanted), plain(found));
            assert_eq!(found, wanted, "{what}");
            self.answered += 1;
            if let Ok((outcome, _)) = &wanted {
                self.granted += 1;
                self.known.learn(&request, outcome);
            }
        }
        self.fixture.settle().await;
        for (waiting, request) in self.asked.values_mut() {
            let early = poll(waiting);
            let place = format!("seed {}, step {}", self.seed, self.step);
            assert!(early.is_none(), "{place}: {:?} was answered: {early:?}", request.command);
        }
    }
}

fn nobodys(command: Command) -> Request {
    let (number, answered_below) = (RequestNumber(0), RequestNumber(0));
    Request { member: MemberSlot(0), number, answered_below, command, fence: None }
}

fn poll(waiting: &mut Waiting) -> Option<Answer> {
    match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// An answer without where its contents lie, which is the journal's business.
fn plain(answer: Answer) -> Result<(Outcome, Vec<Result<Bytes, String>>), Refusal> {
    let Reply { mut outcome, contents } = match answer {
        Ok(reply) => reply,
        Err(Error::Refused(refusal)) => return Err(refusal),
        Err(other) => panic!("{other}"),
    };
    match &mut outcome {
        Outcome::Received(views) | Outcome::Peeked(views) => {
            for view in views {
                view.places = [Place::default(); 2];
            }
        }
        Outcome::SessionState(_, place) | Outcome::Claimed(Claimed::Done { place, .. }) => {
            *place = Place::default();
        }
        Outcome::Result(Some(info)) => info.place = Place::default(),
        _ => {}
    }
    Ok((outcome, contents.into()))
}
