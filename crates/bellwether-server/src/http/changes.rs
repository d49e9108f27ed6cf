//! Server-sent events: what is different, as it is seen.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use bellwether::LeaseName;
use bellwether::core::name::{Part, QueueName};
use bellwether::core::right::{Needs, Of, Realm, Right};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Deserialize;
use tokio::sync::watch;
use utoipa::{IntoParams, ToSchema};

use super::extract::{Query, text_header};
use super::observer::Change;
use super::problem::Told;
use super::state::{Door, State};

/// What one wants to hear of.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only changes of this kind.
    only: Option<ChangeKind>,
    /// Only changes of the lease or queue of this name.
    name: Option<String>,
}

/// What can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChangeKind {
    /// A lease, and so who leads an election.
    Lease,
    /// A queue's settings or counters.
    Queue,
}

impl Wanted {
    /// Refuses whoever may not look at all of it.
    fn check(&self, state: &State) -> Told<()> {
        fn listen(state: &State, of: Of<'_>) -> Told<()> {
            state.check(&Needs::one("changes", Right::Listen, of))
        }
        if self.only != Some(ChangeKind::Lease) {
            let queue = self.name.as_deref().map(QueueName::new).transpose()?;
            let of = queue.as_ref().map(|queue| Of::Queue(queue, Part::Main));
            listen(state, of.unwrap_or(Of::Every(Realm::Queues)))?;
        }
        if self.only != Some(ChangeKind::Queue) {
            let lease = self.name.as_deref().map(LeaseName::new).transpose()?;
            listen(state, lease.as_ref().map_or(Of::Every(Realm::Elections), Of::Lease))?;
        }
        Ok(())
    }

    fn has(&self, change: &Change) -> bool {
        let kind = match self.only {
            None => true,
            Some(ChangeKind::Lease) => change.kind == "lease",
            Some(ChangeKind::Queue) => change.kind == "queue",
        };
        // A queue's name is the same in whatever case.
        kind && self.name.as_ref().is_none_or(|name| match change.kind {
            "queue" => change.name.eq_ignore_ascii_case(name),
            _ => change.name == *name,
        })
    }
}

/// A stream of changes, as server-sent events.
///
/// An event is called `lease` or `queue`; its data is the lease or the queue as it is now, with its
/// name, and `null` if it is gone. It is a hint: what happens between two looks, about a second
/// apart, is one event, and whoever must be sure asks for the thing itself. A stream that is opened
/// again with `Last-Event-ID` goes on after that event; if the server has forgotten it, or was
/// restarted, the first event is called `gap`: read everything anew.
#[utoipa::path(
    get, path = "/v1/changes", tag = "changes", params(Wanted),
    responses((status = 200, description = "Events without end", body = String,
               content_type = "text/event-stream"))
)]
pub(crate) async fn stream_changes(
    Door(state): Door<State>,
    headers: HeaderMap,
    wanted: Query<Wanted>,
) -> Told<Response> {
    wanted.0.check(&state)?;
    let newest = state.observed().subscribe();
    let seen = *newest.borrow();
    let pending = VecDeque::new();
    let mut listener = Listener { state, newest, seen, wanted: wanted.0, pending };
    // The first event says where the stream begins, so that one that breaks off early goes on from
    // there.
    let mut first = Event::default().event("begin").data("{}");
    if let Some(last) = text_header(&headers, "last-event-id")? {
        match listener.number_of(&last) {
            Some(number) => listener.seen = number,
            None => first = Event::default().event("gap").data("{}"),
        }
    }
    listener.pending.push_back(first.id(listener.id(listener.seen)));
    listener.state.observed().nudge();
    let mut response = Sse::new(listener.events()).keep_alive(KeepAlive::default()).into_response();
    let no_buffer = axum::http::HeaderValue::from_static("no");
    response.headers_mut().insert("x-accel-buffering", no_buffer);
    Ok(response)
}

/// One stream.
struct Listener {
    state: State,
    newest: watch::Receiver<u64>,
    seen: u64,
    wanted: Wanted,
    pending: VecDeque<Event>,
}

impl Listener {
    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.state.observed().life())
    }

    /// The number of an event of this life of the server, if it can be gone on from.
    fn number_of(&self, id: &str) -> Option<u64> {
        let (life, number) = id.rsplit_once('-')?;
        let number = number.parse().ok()?;
        let is_known = life == self.state.observed().life() && number <= *self.newest.borrow();
        let (_, gap) = self.state.observed().after(number);
        (is_known && !gap).then_some(number)
    }

    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> {
        unfold(self, |mut listener| async move {
            let event = listener.next().await?;
            Some((Ok(event), listener))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            self.gather();
            if !self.pending.is_empty() {
                continue;
            }
            let stop = self.state.observed().stopped().clone();
            tokio::select! {
                () = stop.cancelled() => return None,
                () = self.state.ended() => return None,
                changed = self.newest.changed() => changed.ok()?,
            }
        }
    }

    fn gather(&mut self) {
        let (changes, gap) = self.state.observed().after(self.seen);
        if gap {
            self.pending.push_back(Event::default().event("gap").data("{}"));
        }
        for change in changes {
            self.seen = change.number;
            if self.wanted.has(&change) {
                let data = serde_json::json!({ "name": change.name, change.kind: change.data });
                let event = Event::default().event(change.kind).data(data.to_string());
                self.pending.push_back(event.id(self.id(change.number)));
            }
        }
    }
}
