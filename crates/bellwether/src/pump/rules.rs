//! The rules a pump follows: of a queue as it is, or of its sessions.

use bellwether_core::flow::{Action, Event, Flow, SessionAction, SessionEvent, SessionFlow};
use bellwether_core::name::{LockToken, SessionToken};
use bellwether_core::time::BootTime;

/// One of the two, with the difference taken out where there is none.
#[derive(Debug)]
pub(super) enum Rules {
    Queue(Flow),
    Sessions(SessionFlow),
}

/// One thing to do.
#[derive(Debug)]
pub(super) enum Task {
    /// About messages: of a session, if there is one.
    Messages(Option<SessionToken>, Action),
    /// About a session; never one of the others.
    Session(SessionAction),
}

impl Rules {
    /// `session` is needed for what names neither a delivery nor a session.
    pub(super) fn step(
        &mut self,
        now: BootTime,
        session: Option<SessionToken>,
        event: Event,
    ) -> Vec<Task> {
        let flow = match self {
            Self::Queue(flow) => {
                let actions = flow.step(now, event).into_iter();
                return actions.map(|action| Task::Messages(None, action)).collect();
            }
            Self::Sessions(flow) => flow,
        };
        let event = match event {
            Event::Start => SessionEvent::Start,
            Event::Pause => SessionEvent::Pause,
            Event::Resume => SessionEvent::Resume,
            Event::Stop => SessionEvent::Stop,
            Event::Wake => SessionEvent::Wake,
            event => {
                let known = || flow.session_of(token_of(&event)?).cloned();
                let Some(session) = session.or_else(known) else { return Vec::new() };
                SessionEvent::In { session, event }
            }
        };
        self.step_session(now, event)
    }

    pub(super) fn step_session(&mut self, now: BootTime, event: SessionEvent) -> Vec<Task> {
        let Self::Sessions(flow) = self else {
            unreachable!("a pump without sessions asks for none")
        };
        let task = |action| match action {
            SessionAction::In { session, action } => Task::Messages(Some(session), action),
            SessionAction::Stopped => Task::Messages(None, Action::Stopped),
            action => Task::Session(action),
        };
        flow.step(now, event).into_iter().map(task).collect()
    }

    pub(super) fn next_wake(&self) -> Option<BootTime> {
        match self {
            Self::Queue(flow) => flow.next_wake(),
            Self::Sessions(flow) => flow.next_wake(),
        }
    }

    pub(super) fn running(&self) -> usize {
        match self {
            Self::Queue(flow) => flow.running(),
            Self::Sessions(flow) => flow.running(),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        match self {
            Self::Queue(flow) => flow.waiting(),
            Self::Sessions(flow) => flow.waiting(),
        }
    }

    pub(super) fn knows(&self, token: LockToken) -> bool {
        match self {
            Self::Queue(flow) => flow.knows(token),
            Self::Sessions(flow) => flow.session_of(token).is_some(),
        }
    }

    pub(super) fn holds(&self, session: &SessionToken) -> bool {
        matches!(self, Self::Sessions(flow) if flow.holds(session))
    }
}

fn token_of(event: &Event) -> Option<LockToken> {
    match *event {
        Event::HandlerDone { token, .. }
        | Event::HandlerFailed { token }
        | Event::Renewed { token, .. }
        | Event::RenewRefused { token }
        | Event::RenewFailed { token }
        | Event::Settled { token }
        | Event::SettleRefused { token }
        | Event::SettleFailed { token } => Some(token),
        _ => None,
    }
}
