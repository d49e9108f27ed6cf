//! What the loop does when the flow says so.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::command::Disposition;
use bellwether_core::flow::{Action, Cause, Event, SessionAction, SessionEvent, Source, Why};
use bellwether_core::name::{LockToken, SessionToken};
use tokio_util::sync::CancellationToken;

use super::ask;
use super::handle::PumpState;
use super::report::PumpError;
use super::rules::Task;
use super::shell::{Heard, Held, Shell};
use super::verdict::Failure;
use super::work;

impl Shell {
    /// Tells the flow what happened, about which delivery and in what words, and does what it says.
    pub(super) fn step(
        &mut self,
        about: Option<LockToken>,
        event: Event,
        mut words: Option<Failure>,
    ) {
        let now = self.queue.inner.clock.boot();
        let tasks = self.rules.step(now, None, event);
        self.perform_all(tasks, about, &mut words);
        about.inspect(|&token| self.forget(token));
    }

    /// The same for what happened to a receive, of a session if there is one.
    pub(super) fn step_in(
        &mut self,
        session: Option<SessionToken>,
        event: Event,
        mut words: Option<Failure>,
    ) {
        let now = self.queue.inner.clock.boot();
        let tasks = self.rules.step(now, session, event);
        self.perform_all(tasks, None, &mut words);
    }

    /// The same for what happened to a session.
    pub(super) fn step_session(&mut self, event: SessionEvent, mut words: Option<Failure>) {
        let now = self.queue.inner.clock.boot();
        let tasks = self.rules.step_session(now, event);
        self.perform_all(tasks, None, &mut words);
    }

    fn perform_all(
        &mut self,
        tasks: Vec<Task>,
        about: Option<LockToken>,
        words: &mut Option<Failure>,
    ) {
        for task in tasks {
            match task {
                Task::Messages(session, Action::Report { source, token, why }) => {
                    let words = words.take_if(|_| token == about);
                    self.report(source, session.as_ref(), token, why, words);
                    token.inspect(|&token| self.forget(token));
                }
                Task::Messages(session, action) => self.perform(session, &action),
                Task::Session(SessionAction::Report { session, source, why }) => {
                    self.report(source, session.as_ref(), None, why, words.take());
                }
                Task::Session(action) => self.perform_session(action),
            }
        }
        let rules = &self.rules;
        self.sessions.retain(|session, _| rules.holds(session));
    }

    fn perform_session(&mut self, action: SessionAction) {
        let queue = self.queue.clone();
        match action {
            SessionAction::Accept { attempt, wait_ms } => {
                let accept = queue.accept_session().wait(Duration::from_millis(wait_ms));
                let withdrawn = CancellationToken::new();
                self.accept = Some(withdrawn.clone());
                self.tasks.spawn(async move {
                    Heard::Accepted(attempt, ask::accept(&queue, accept, withdrawn).await)
                });
            }
            SessionAction::WithdrawAccept { .. } => {
                self.accept.as_ref().inspect(|accept| accept.cancel());
            }
            SessionAction::Renew { session } => {
                self.tasks.spawn(async move {
                    let renewed = ask::renew_hold(&queue, &session).await;
                    Heard::HoldRenewed(session, renewed)
                });
            }
            SessionAction::Close { session } => {
                let held = Arc::clone(&self.sessions[&session]);
                self.tasks.spawn(async move { Heard::Closed(session, held.let_go().await) });
            }
            SessionAction::In { .. } | SessionAction::Report { .. } | SessionAction::Stopped => {
                unreachable!("sorted out before")
            }
        }
    }

    fn perform(&mut self, session: Option<SessionToken>, action: &Action) {
        let queue = self.queue.clone();
        match *action {
            Action::Receive { attempt, max, wait_ms } => {
                let mut receive = queue.receive().max(max).wait(Duration::from_millis(wait_ms));
                if let Some(lock) = self.lock {
                    receive = receive.lock(lock);
                }
                if let Some(session) = &session {
                    receive = receive.session(session.clone());
                }
                let withdrawn = CancellationToken::new();
                self.receives.insert(session.clone(), withdrawn.clone());
                self.tasks.spawn(async move {
                    let received = ask::receive(&queue, receive, withdrawn).await;
                    Heard::Received(session, attempt, received)
                });
            }
            Action::Withdraw { .. } => {
                self.receives.get(&session).inspect(|receive| receive.cancel());
            }
            Action::Handle { token } => {
                let cancellation = CancellationToken::new();
                let running = Held::Running(cancellation.clone());
                let Some(Held::Waiting(delivery)) = self.held.insert(token, running) else {
                    unreachable!("a handler is started once, for a delivery that waits")
                };
                let session = session.map(|session| Arc::clone(&self.sessions[&session]));
                let handling = work::handle(self.handler.clone(), delivery, session, cancellation);
                self.tasks.spawn(async move {
                    let (result, delivery) = handling.await;
                    Heard::Handled(token, result, delivery)
                });
            }
            Action::CancelHandler { token, why } => {
                self.counts.lost += u64::from(why == Cause::LockLost);
                if let Some(Held::Running(cancellation)) = self.held.get(&token) {
                    cancellation.cancel();
                }
            }
            Action::Renew { token } => {
                self.tasks
                    .spawn(async move { Heard::Renewed(token, ask::renew(&queue, token).await) });
            }
            Action::Settle { token, disposition } => self.settle(token, disposition),
            Action::Stopped => self.counts.state = PumpState::Stopped,
            Action::Report { .. } => unreachable!("reported by whoever has the words"),
        }
    }

    fn settle(&mut self, token: LockToken, disposition: Disposition) {
        let content = match self.held.insert(token, Held::Settling(None)) {
            Some(Held::Settling(content)) => {
                self.held.insert(token, Held::Settling(content.clone()));
                content
            }
            // Its token is what is settled from here on.
            Some(Held::Waiting(delivery)) => {
                delivery.keep();
                None
            }
            _ => None,
        };
        if self.due.is_full_for(content.as_ref()) {
            self.send_due();
        }
        self.due.push(token, disposition, content);
    }

    pub(super) fn send_due(&mut self) {
        if self.due.settlements.is_empty() {
            return;
        }
        let (queue, batch) = (self.queue.clone(), std::mem::take(&mut self.due));
        self.tasks.spawn(async move { Heard::Settled(ask::settle(&queue, batch).await) });
    }

    pub(super) fn report(
        &mut self,
        source: Source,
        session: Option<&SessionToken>,
        token: Option<LockToken>,
        why: Why,
        error: Option<Failure>,
    ) {
        let queue = self.queue.path.clone();
        let sequence = token.map(|token| token.sequence);
        let session = session.map(|session| session.session.clone());
        let error = PumpError { source, why, queue, session, sequence, error };
        if !error.tell(self.on_error.as_ref()) {
            self.counts.callback_panics += 1;
        }
    }

    fn forget(&mut self, token: LockToken) {
        if !self.rules.knows(token)
            && let Some(Held::Waiting(delivery)) = self.held.remove(&token)
        {
            // Its lock is lost: it is not ours to give back.
            delivery.keep();
        }
    }

    pub(super) fn publish(&mut self) {
        self.counts.receiving = self.accept.is_some() || !self.receives.is_empty();
        self.counts.sessions = self.sessions.len();
        self.counts.waiting = self.rules.waiting();
        self.counts.running = self.rules.running();
        let begun = self.counts.waiting + self.counts.running;
        self.counts.settling = self.held.len().saturating_sub(begun);
        self.control.counts.send_if_modified(|counts| {
            let changes = *counts != self.counts;
            *counts = self.counts;
            changes
        });
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.counts.state = PumpState::Stopped;
        self.publish();
    }
}
