//! One flow, the events and actions of its stories in few words.

use bellwether_core::command::Disposition;
use bellwether_core::flow::{
    Action, Arrival, Cause, Event, Flow, FlowConfig, Retry, Source, Verdict, Why,
};
use bellwether_core::name::{DeliveryNumber, Incarnation, LockToken, SequenceNumber};
use bellwether_core::time::BootTime;

pub(crate) const LOCK_MS: u32 = 10_000;

pub(crate) fn token(sequence: u64) -> LockToken {
    LockToken {
        sequence: SequenceNumber(sequence),
        number: DeliveryNumber(1),
        incarnation: Incarnation(1),
    }
}

pub(crate) fn config() -> FlowConfig {
    let retry = Retry { base_ms: 1_000, factor: 2, max_ms: 60_000, jitter_percent: 0 };
    FlowConfig { receive_max: 10, wait_ms: 30_000, retry, ..FlowConfig::default() }
}

pub(crate) fn receive(attempt: u64, max: u32) -> Action {
    Action::Receive { attempt, max, wait_ms: 30_000 }
}
pub(crate) fn handle(sequence: u64) -> Action {
    Action::Handle { token: token(sequence) }
}
pub(crate) fn cancel(sequence: u64, why: Cause) -> Action {
    Action::CancelHandler { token: token(sequence), why }
}
pub(crate) fn renew(sequence: u64) -> Action {
    Action::Renew { token: token(sequence) }
}
pub(crate) fn settle(sequence: u64, disposition: Disposition) -> Action {
    Action::Settle { token: token(sequence), disposition }
}
pub(crate) fn report(source: Source, sequence: u64, why: Why) -> Action {
    Action::Report { source, token: Some(token(sequence)), why }
}
pub(crate) fn done(sequence: u64, verdict: Verdict) -> Event {
    Event::HandlerDone { token: token(sequence), verdict }
}
pub(crate) fn failed(sequence: u64) -> Event {
    Event::HandlerFailed { token: token(sequence) }
}
pub(crate) fn renewed(sequence: u64) -> Event {
    Event::Renewed { token: token(sequence), lock_ms: LOCK_MS }
}
pub(crate) fn settled(sequence: u64) -> Event {
    Event::Settled { token: token(sequence) }
}
pub(crate) fn arrivals(sequences: &[u64], lock_ms: u32) -> Vec<Arrival> {
    let arrival = |&sequence| Arrival { token: token(sequence), lock_ms, deliveries: 1 };
    sequences.iter().map(arrival).collect()
}
pub(crate) fn received(attempt: u64, sequences: &[u64]) -> Event {
    Event::Received { attempt, deliveries: arrivals(sequences, LOCK_MS) }
}

/// A flow and the time on its clock.
pub(crate) struct Story {
    pub(crate) flow: Flow,
}

impl Story {
    /// Started at zero; its first receive is out.
    pub(crate) fn started(config: FlowConfig) -> Self {
        let mut flow = Flow::new(config);
        flow.step(BootTime(0), Event::Start);
        Self { flow }
    }

    #[track_caller]
    pub(crate) fn at(&mut self, ms: u64, event: Event, expected: &[Action]) {
        assert_eq!(self.flow.step(BootTime(ms), event), expected);
    }

    /// Nothing is due before `ms`; then this is.
    #[track_caller]
    pub(crate) fn wakes_at(&mut self, ms: u64, expected: &[Action]) {
        assert_eq!(self.flow.next_wake(), Some(BootTime(ms)));
        self.at(ms, Event::Wake, expected);
    }
}
