//! The loop between [`Flow`] and the store. It moves things and decides nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::command::Settlement;
use bellwether_core::error::Refusal;
use bellwether_core::flow::{self, Arrival, Event, SessionEvent, Source, Why};
use bellwether_core::name::{LockToken, SessionToken};
use bellwether_core::time::BootTime;
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::ask::{Batch, is_end, is_final};
use super::handle::{Control, PumpCounts, PumpState, Wish};
use super::report::OnError;
use super::rules::Rules;
use super::verdict::{Failure, Verdict};
use super::work::Handler;
use crate::clock::Clock;
use crate::delivery::Delivery;
use crate::error::Error;
use crate::queue::Queue;
use crate::session::Session;

pub(super) struct Shell {
    pub(super) queue: Queue,
    pub(super) handler: Handler,
    pub(super) on_error: Option<OnError>,
    pub(super) lock: Option<Duration>,
    pub(super) control: Arc<Control>,
    pub(super) rules: Rules,
    /// Everything that runs beside the loop. The flow has stopped only when all were heard.
    pub(super) tasks: JoinSet<Heard>,
    /// Withdraws the receive in flight, of each session if there are sessions.
    pub(super) receives: BTreeMap<Option<SessionToken>, CancellationToken>,
    /// Withdraws the accept in flight.
    pub(super) accept: Option<CancellationToken>,
    pub(super) sessions: BTreeMap<SessionToken, Arc<Session>>,
    pub(super) held: HashMap<LockToken, Held>,
    pub(super) due: Batch,
    pub(super) counts: PumpCounts,
    pub(super) end: Option<Error>,
}

/// A delivery the flow knows.
pub(super) enum Held {
    Waiting(Delivery),
    Running(CancellationToken),
    /// What its handler changed; kept as long as the settlement may have to be sent again.
    Settling(Option<Bytes>),
}

/// What came back from beside the loop.
pub(super) enum Heard {
    Received(Option<SessionToken>, u64, Result<Vec<Delivery>, Error>),
    Handled(LockToken, Result<Verdict, Failure>, Option<Delivery>),
    Renewed(LockToken, Result<u32, Error>),
    Settled(Vec<(Settlement, Result<(), Error>)>),
    Accepted(u64, Result<Option<Session>, Error>),
    HoldRenewed(SessionToken, Result<u32, Error>),
    Closed(SessionToken, Result<(), Error>),
}

impl Shell {
    pub(super) async fn run(mut self, shutdown: CancellationToken) -> Result<(), Error> {
        let control = Arc::clone(&self.control);
        let clock = self.queue.inner.clock.clone();
        let mut wishes = control.wish.subscribe();
        wishes.mark_changed();
        while self.counts.state != PumpState::Stopped {
            tokio::select! {
                biased;
                () = shutdown.cancelled(), if *wishes.borrow() != Wish::Stop => {
                    control.wish.send_replace(Wish::Stop);
                }
                Ok(()) = wishes.changed() => {
                    let wish = *wishes.borrow_and_update();
                    self.obey(wish);
                }
                Some(heard) = self.tasks.join_next() => self.hear_one(heard),
                () = sleep(&clock, self.rules.next_wake()) => self.step(None, Event::Wake, None),
            }
            // What ended together is settled together.
            while let Some(heard) = self.tasks.try_join_next() {
                self.hear_one(heard);
            }
            self.send_due();
            self.publish();
        }
        self.end.take().map_or(Ok(()), Err)
    }

    fn obey(&mut self, wish: Wish) {
        if self.end.is_some() {
            return;
        }
        // The flow takes of these what fits.
        let (state, events) = match wish {
            Wish::Take => (PumpState::Taking, [Event::Start, Event::Resume]),
            Wish::Pause => (PumpState::Paused, [Event::Pause, Event::Wake]),
            Wish::Stop => (PumpState::Stopping, [Event::Stop, Event::Wake]),
        };
        self.counts.state = state;
        for event in events {
            self.step(None, event, None);
        }
    }

    fn hear_one(&mut self, heard: Result<Heard, tokio::task::JoinError>) {
        match heard {
            Ok(heard) => self.hear(heard),
            // Handlers catch their panics, so this is one of our own.
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Received(session, attempt, Ok(deliveries)) => {
                self.receives.remove(&session);
                let deliveries =
                    deliveries.into_iter().map(|delivery| self.hold(delivery)).collect();
                self.step_in(session, Event::Received { attempt, deliveries }, None);
            }
            Heard::Received(session, attempt, Err(error)) => {
                self.receives.remove(&session);
                let end = is_end(&error).then(|| error.clone());
                let is_lost = matches!(error, Error::Refused(Refusal::SessionLost(_)));
                let failed = Event::ReceiveFailed { attempt };
                match session {
                    Some(session) if is_lost => {
                        let lost = SessionEvent::Lost { session: session.clone() };
                        self.step_session(lost, Some(error.into()));
                        self.step_in(Some(session), failed, None);
                    }
                    session => self.step_in(session, failed, Some(error.into())),
                }
                self.end_with(end);
            }
            Heard::Handled(token, result, delivery) => self.handled(token, result, delivery),
            Heard::Renewed(token, Ok(lock_ms)) => {
                self.counts.renewed += 1;
                self.step(Some(token), Event::Renewed { token, lock_ms }, None);
            }
            Heard::Renewed(token, Err(error)) if is_final(&error) => {
                self.step(Some(token), Event::RenewRefused { token }, Some(error.into()));
            }
            Heard::Renewed(token, Err(error)) => {
                self.step(Some(token), Event::RenewFailed { token }, Some(error.into()));
            }
            Heard::Settled(answers) => {
                for (Settlement { token, disposition, .. }, answer) in answers {
                    let (event, words) = match answer {
                        Ok(()) => {
                            self.counts.settled(disposition);
                            (Event::Settled { token }, None)
                        }
                        Err(error) if is_final(&error) => {
                            (Event::SettleRefused { token }, Some(error.into()))
                        }
                        Err(error) => (Event::SettleFailed { token }, Some(error.into())),
                    };
                    self.step(Some(token), event, words);
                }
            }
            Heard::Accepted(..) | Heard::HoldRenewed(..) | Heard::Closed(..) => {
                self.hear_of_session(heard);
            }
        }
    }

    fn hear_of_session(&mut self, heard: Heard) {
        let mut end = None;
        let (event, words) = match heard {
            Heard::Accepted(attempt, Ok(session)) => {
                self.accept = None;
                let session = session.map(|session| {
                    let lock_ms = session.lock_duration().as_millis() as u32;
                    let token = session.token().clone();
                    self.sessions.insert(token.clone(), Arc::new(session));
                    (token, lock_ms)
                });
                (SessionEvent::Accepted { attempt, session }, None)
            }
            Heard::Accepted(attempt, Err(error)) => {
                self.accept = None;
                end = is_end(&error).then(|| error.clone());
                (SessionEvent::AcceptFailed { attempt }, Some(error))
            }
            Heard::HoldRenewed(session, Ok(lock_ms)) => {
                self.counts.renewed += 1;
                (SessionEvent::Renewed { session, lock_ms }, None)
            }
            Heard::HoldRenewed(session, Err(error)) if is_final(&error) => {
                (SessionEvent::RenewRefused { session }, Some(error))
            }
            Heard::HoldRenewed(session, Err(error)) => {
                (SessionEvent::RenewFailed { session }, Some(error))
            }
            Heard::Closed(session, Err(error)) if !is_final(&error) => {
                (SessionEvent::CloseFailed { session }, Some(error))
            }
            Heard::Closed(session, _) => (SessionEvent::Closed { session }, None),
            _ => unreachable!("heard of messages"),
        };
        self.step_session(event, words.map(Into::into));
        self.end_with(end);
    }

    /// Some errors are the end of the pump. It is not wished for: who starts it again wants it to
    /// take.
    fn end_with(&mut self, error: Option<Error>) {
        if error.is_some() {
            self.obey(Wish::Stop);
            self.end = error;
        }
    }

    fn hold(&mut self, delivery: Delivery) -> Arrival {
        let token = delivery.token();
        let lock_ms = delivery.lock_duration().as_millis() as u32;
        let deliveries = delivery.deliveries();
        self.held.insert(token, Held::Waiting(delivery));
        Arrival { token, lock_ms, deliveries }
    }

    fn handled(
        &mut self,
        token: LockToken,
        result: Result<Verdict, Failure>,
        delivery: Option<Delivery>,
    ) {
        self.counts.handled += 1;
        self.counts.failed += u64::from(result.is_err());
        let Some(delivery) = delivery else { return self.settled_by_handler(token, result) };
        let mut changes = delivery.into_changes();
        let (event, words) = match result {
            Ok(verdict) => {
                let verdict = verdict.into_core(&mut changes);
                (Event::HandlerDone { token, verdict }, None)
            }
            Err(error) => (Event::HandlerFailed { token }, Some(error)),
        };
        let content = (!changes.is_empty()).then(|| changes.encode());
        self.held.insert(token, Held::Settling(content));
        self.step(Some(token), event, words);
    }

    /// The flow has no word for a handler that settled its message and failed: it would settle it
    /// again. So the failure is reported here.
    fn settled_by_handler(&mut self, token: LockToken, result: Result<Verdict, Failure>) {
        if let Err(error) = result {
            self.report(Source::Handler, None, Some(token), Why::Failed, Some(error));
        }
        let verdict = flow::Verdict::SettledByHandler;
        self.step(Some(token), Event::HandlerDone { token, verdict }, None);
    }
}

/// Waits for ever if there is nothing to wait for.
async fn sleep(clock: &Clock, until: Option<BootTime>) {
    match until {
        Some(until) => clock.sleep_until(until).await,
        None => std::future::pending().await,
    }
}
