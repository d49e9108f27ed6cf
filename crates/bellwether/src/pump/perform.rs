//! What the loop does when the flow says so.

use std::time::Duration;

use bellwether_core::command::Disposition;
use bellwether_core::flow::{Action, Cause, Event, Source, Why};
use bellwether_core::name::LockToken;
use tokio_util::sync::CancellationToken;

use super::ask;
use super::handle::PumpState;
use super::report::PumpError;
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
        for action in self.flow.step(now, event) {
            match action {
                Action::Report { source, token, why } => {
                    let words = words.take_if(|_| token == about);
                    self.report(source, token, why, words);
                    token.inspect(|&token| self.forget(token));
                }
                action => self.perform(&action),
            }
        }
        about.inspect(|&token| self.forget(token));
    }

    fn perform(&mut self, action: &Action) {
        let queue = self.queue.clone();
        match *action {
            Action::Receive { attempt, max, wait_ms } => {
                let mut receive = queue.receive().max(max).wait(Duration::from_millis(wait_ms));
                if let Some(lock) = self.lock {
                    receive = receive.lock(lock);
                }
                let withdrawn = CancellationToken::new();
                self.receive = Some(withdrawn.clone());
                self.tasks.spawn(async move {
                    Heard::Received(attempt, ask::receive(&queue, receive, withdrawn).await)
                });
            }
            Action::Withdraw { .. } => {
                self.receive.as_ref().inspect(|receive| receive.cancel());
            }
            Action::Handle { token } => {
                let cancellation = CancellationToken::new();
                let running = Held::Running(cancellation.clone());
                let Some(Held::Waiting(delivery)) = self.held.insert(token, running) else {
                    unreachable!("a handler is started once, for a delivery that waits")
                };
                let handling = work::handle(self.handler.clone(), delivery, cancellation);
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
        &self,
        source: Source,
        token: Option<LockToken>,
        why: Why,
        error: Option<Failure>,
    ) {
        let queue = self.queue.path.clone();
        let sequence = token.map(|token| token.sequence);
        PumpError { source, why, queue, sequence, error }.tell(self.on_error.as_ref());
    }

    fn forget(&mut self, token: LockToken) {
        if !self.flow.knows(token)
            && let Some(Held::Waiting(delivery)) = self.held.remove(&token)
        {
            // Its lock is lost: it is not ours to give back.
            delivery.keep();
        }
    }

    pub(super) fn publish(&mut self) {
        self.counts.receiving = self.receive.is_some();
        self.counts.waiting = self.flow.waiting();
        self.counts.running = self.flow.running();
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
