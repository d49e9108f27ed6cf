//! Who asks, and under which number.

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderName, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bellwether::core::command::Command;
use bellwether::core::name::{MemberSlot, RequestNumber};
use bellwether::engine::Reply;
use bellwether::{Error, MemberId, Refusal};
use bytes::Bytes;

use super::extract::{read_body, text_header};
use super::id;
use super::keys::{Keyed, hash};
use super::problem::{Problem, Told};
use super::state::{Door, State, request};
use super::trace::Trace;

const KEY_HEADER: &str = "idempotency-key";
const KEY_BYTES_MAX: usize = 255;
const MEMBER_HEADER: &str = "bellwether-member";

/// Who was let in, as whoever lets in has noted it on the request. Keys of one principal are not
/// those of another.
#[derive(Clone, Debug)]
pub(crate) struct Principal(pub(crate) String);

/// Who asks for a change.
#[derive(Debug)]
pub(crate) struct Caller {
    state: State,
    /// The member it named, or the door's own.
    member: MemberSlot,
    named: bool,
    keyed: Option<Keyed>,
    trace: Trace,
}

impl Caller {
    /// The member for what a member holds: locks and leases.
    pub(crate) fn member(&self) -> MemberSlot {
        self.member
    }

    /// Whether the caller named a member of its own.
    pub(crate) fn is_named(&self) -> bool {
        self.named
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    pub(crate) fn is_keyed(&self) -> bool {
        self.keyed.is_some()
    }

    /// A number for something new; the same again for the same key.
    pub(crate) fn new_id(&self) -> u128 {
        match self.keyed {
            Some(keyed) => hash(&[b"new id", &keyed.key.to_le_bytes()]),
            None => id::random(),
        }
    }

    /// Asks for a change; under a key, once.
    pub(crate) async fn ask(&self, command: Command) -> Told<Reply> {
        self.ask_with(command, Vec::new()).await
    }

    pub(crate) async fn ask_with(&self, command: Command, contents: Vec<Bytes>) -> Told<Reply> {
        let Some(keyed) = self.keyed else {
            return self.state.ask_as(self.member, command, contents).await;
        };
        let (keys, number) = (self.state.keys(), RequestNumber(1));
        let member = keys.member(&self.state.own(), keyed).await?;
        let asked = request(member, number, command);
        match self.state.call(asked.clone(), contents.clone()).await {
            // The key was not used for so long that its outcome is forgotten.
            Err(Error::Refused(Refusal::MemberGone)) => {
                keys.forget(keyed);
                let member = keys.member(&self.state.own(), keyed).await?;
                let asked = request(member, number, asked.command);
                Ok(self.state.call(asked, contents).await?)
            }
            answer => Ok(answer?),
        }
    }

    /// Asks for what stands by its own id however often it is asked for.
    pub(crate) async fn ask_for_good(&self, command: Command) -> Told<Reply> {
        let request = request(self.member, RequestNumber(0), command);
        Ok(self.state.call_for_good(request).await?)
    }
}

impl FromRequestParts<State> for Caller {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Told<Self> {
        let Door(state) = Door::from_request_parts(parts, state).await?;
        let keyed = parts.extensions.get::<Keyed>().copied();
        let named = match text_header(&parts.headers, MEMBER_HEADER)? {
            Some(text) => {
                let id = id::parse(&text).ok_or_else(|| {
                    Problem::invalid("Bellwether-Member", "a member's id is 32 hexadecimal digits")
                })?;
                Some(state.slot_of(MemberId(id)).await?)
            }
            None => None,
        };
        let member = named.unwrap_or_else(|| state.bellwether().slot());
        let trace = Trace::of(parts);
        Ok(Self { state, member, named: named.is_some(), keyed, trace })
    }
}

/// Takes the fingerprint of a request that carries a key, before anybody reads its body.
pub(crate) async fn read_key(request: Request, next: Next) -> Response {
    match keyed(request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

async fn keyed(request: Request) -> Told<Request> {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if reads || !request.headers().contains_key(KEY_HEADER) {
        return Ok(request);
    }
    let (mut parts, body) = request.into_parts();
    let key = parts.headers.get(KEY_HEADER).map_or(&b""[..], |key| key.as_bytes()).to_vec();
    let is_visible = key.iter().all(u8::is_ascii_graphic);
    if key.is_empty() || key.len() > KEY_BYTES_MAX || !is_visible {
        let why = format!("a key has 1 to {KEY_BYTES_MAX} visible ASCII characters");
        return Err(Problem::invalid("Idempotency-Key", why));
    }
    let body = read_body(body).await?;
    let principal = parts.extensions.get::<Principal>().map_or("", |principal| &principal.0);
    let keyed = Keyed {
        key: hash(&[b"key", principal.as_bytes(), &key]),
        fingerprint: fingerprint(&parts, &body),
    };
    parts.extensions.insert(keyed);
    Ok(Request::from_parts(parts, Body::from(body)))
}

/// What makes a request another one: what is asked, not how it came here.
fn fingerprint(parts: &Parts, body: &[u8]) -> u128 {
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    let mut listed = vec![parts.method.as_str().as_bytes(), target.as_bytes(), body];
    let counts = |name: &HeaderName| {
        let name = name.as_str();
        name == "content-type" || name.starts_with("bellwether-") || name.starts_with("ce-")
    };
    let mut headers: Vec<_> = parts.headers.iter().filter(|(name, _)| counts(name)).collect();
    headers.sort_by_key(|(name, _)| name.as_str());
    for (name, value) in headers {
        listed.extend([name.as_str().as_bytes(), value.as_bytes()]);
    }
    hash(&listed)
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use std::time::Duration;

    use bellwether::core::name::QueueName;
    use bellwether::core::outcome::Outcome;
    use bellwether::core::settings::QueueSettings;
    use bellwether::{Bellwether, VirtualClock};

    use super::*;

    async fn create(caller: &Caller) -> bool {
        let queue = QueueName::new("orders").unwrap();
        let settings = Box::new(QueueSettings::default());
        let reply = caller.ask(Command::CreateQueue { queue, settings }).await.unwrap();
        matches!(reply.outcome, Outcome::QueueCreated { existed: false })
    }

    /// The outcome of a key is told again for ten minutes at least, and some time later the key is
    /// as new; in between it is never refused for having been used.
    #[tokio::test]
    async fn a_key_is_forgotten_long_after_its_last_use_and_can_be_used_again() {
        let clock = VirtualClock::new();
        let bellwether = Bellwether::open_with_clock("memory:", clock.clone()).await.unwrap();
        let state = State::new(bellwether.clone(), CancellationToken::new(), None);
        let keyed = Some(Keyed { key: 7, fingerprint: 8 });
        let member = bellwether.slot();
        let of =
            |state, keyed| Caller { state, member, named: false, keyed, trace: Trace::Unknown };
        let caller = of(state.clone(), keyed);
        assert!(create(&caller).await, "it was not there");
        let minute = Duration::from_secs(60);
        for _ in 0..3 {
            clock.advance(9 * minute);
            assert!(create(&caller).await, "told again: it was not there");
        }
        clock.advance(11 * minute);
        assert!(create(&caller).await, "its member is gone, and still remembered");
        clock.advance(60 * minute);
        assert!(!create(&caller).await, "forgotten: now it is there");
        // A life of the server that knows nothing of the key finds what it stands for.
        let state = State::new(bellwether, CancellationToken::new(), None);
        let other = Some(Keyed { key: 7, fingerprint: 9 });
        let reused = of(state.clone(), other);
        let queue = QueueName::new("other").unwrap();
        assert!(reused.ask(Command::DeleteQueue { queue }).await.is_err());
        assert!(!create(&of(state, keyed)).await);
    }
}
