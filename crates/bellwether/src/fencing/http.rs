//! A service behind HTTP that only the latest term may call. With the feature `fencing-http`.
//!
//! ```text
//! PUT /prices/tea HTTP/1.1
//! Fencing-Term: billing/1763440000017
//! ```
//!
//! The header `Fencing-Term` is the election, a slash, and the term in decimal digits. In the
//! election every byte but ASCII letters, digits and `-._~` is percent-encoded (as in a segment of
//! a URL), so there is exactly one slash.
//!
//! | request | answer |
//! |---|---|
//! | the newest term, or a later one | the service's own |
//! | an earlier term | 412 Precondition Failed, and `Fencing-Term` with the newest |
//! | no header | 428 Precondition Required, or let through: [`FencingLayer::missing`] |
//! | two headers, one that cannot be read, or another election's | 400 Bad Request |
//! | the terms cannot be read or written | 503 Service Unavailable |
//!
//! The first request under a later term waits until those under earlier ones have been answered;
//! then none of theirs comes after it. That covers what the service does until its response
//! begins. What it leaves to a task of its own, or writes where several instances of the service
//! write, must be fenced there.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bellwether_core::name::{LeaseName, Term};
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tower_layer::Layer;
use tower_service::Service;

use super::{FenceError, Fenced, TermStore};
use crate::elector::Fence;

/// The header.
pub const FENCING_TERM: HeaderName = HeaderName::from_static("fencing-term");

const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The header's value for a fence; for the side that calls.
///
/// ```
/// # let fence = bellwether::Fence {
/// #     election: bellwether::LeaseName::new("bill ing").unwrap(), term: bellwether::Term(7) };
/// use bellwether::fencing::http::{FENCING_TERM, value};
///
/// let request = http::Request::put("/prices/tea").header(FENCING_TERM, value(&fence)).body("250");
/// assert_eq!(request.unwrap().headers()["fencing-term"], "bill%20ing/7");
/// ```
pub fn value(fence: &Fence) -> HeaderValue {
    let election = utf8_percent_encode(fence.election.as_str(), ESCAPED);
    HeaderValue::try_from(format!("{election}/{}", fence.term)).expect("nothing but ASCII")
}

/// A header that is no fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Fencing-Term is once the election, percent-encoded, a slash, and the term in digits")]
pub struct Unreadable;

/// The fence that a request shows, if it shows one.
pub fn fence(headers: &HeaderMap) -> Result<Option<Fence>, Unreadable> {
    let mut shown = headers.get_all(FENCING_TERM).iter();
    let Some(first) = shown.next() else { return Ok(None) };
    let read = || {
        let (election, term) = first.to_str().ok()?.split_once('/')?;
        let election = percent_decode_str(election).decode_utf8().ok()?;
        let digits = term.bytes().all(|byte| byte.is_ascii_digit());
        let term = digits.then(|| term.parse().ok())??;
        Some(Fence { election: LeaseName::new(&election).ok()?, term: Term(term) })
    };
    match (read(), shown.next()) {
        (Some(fence), None) => Ok(Some(fence)),
        _ => Err(Unreadable),
    }
}

/// What happens to requests that show no fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// They are refused.
    #[default]
    Refuse,
    /// They are let through, unfenced: for what only reads.
    Allow,
}

/// Fences off a service, as a layer of `tower`, so also of axum. One layer and its clones are one
/// fence.
///
/// ```
/// # fn routes() -> Result<axum::Router, Box<dyn std::error::Error>> {
/// use axum::{Router, routing::put};
/// use bellwether::LeaseName;
/// use bellwether::fencing::{FileTerms, http::FencingLayer};
///
/// let fence = FencingLayer::new(LeaseName::new("billing")?, FileTerms::new("billing.fence"));
/// Ok(Router::new().route("/prices/{item}", put(async || "written")).layer(fence))
/// # }
/// # routes().unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct FencingLayer {
    gate: Arc<Gate>,
    missing: Missing,
}

impl FencingLayer {
    /// For the leaders of this election, with this memory of their terms.
    pub fn new(election: LeaseName, terms: impl TermStore) -> Self {
        let gate = Gate { election, newest: Arc::default(), terms: Arc::new(terms) };
        Self { gate: Arc::new(gate), missing: Missing::default() }
    }

    /// What happens to requests that show no fence. They are refused unless this says otherwise.
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }
}

impl<S> Layer<S> for FencingLayer {
    type Service = FencedService<S>;

    fn layer(&self, inner: S) -> FencedService<S> {
        FencedService { inner, layer: self.clone() }
    }
}

/// A service behind a [`FencingLayer`].
#[derive(Clone, Debug)]
pub struct FencedService<S> {
    inner: S,
    layer: FencingLayer,
}

impl<S, B, R> Service<Request<B>> for FencedService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: From<String>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was found ready is the one to call.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        Box::pin(async move {
            match layer.admit(request.headers()).await {
                // Held until the service has answered.
                Ok(_inside) => inner.call(request).await,
                Err(no) => Ok(no.response()),
            }
        })
    }
}

/// Where requests under one term go through together, and a later term waits for them.
struct Gate {
    election: LeaseName,
    /// What `terms` is known to hold; `None` until it was asked.
    newest: Arc<RwLock<Option<Term>>>,
    terms: Arc<dyn TermStore>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("election", &self.election).finish_non_exhaustive()
    }
}

/// While it lives, no later term goes through.
type Inside = OwnedRwLockReadGuard<Option<Term>>;

impl FencingLayer {
    async fn admit(&self, headers: &HeaderMap) -> Result<Option<Inside>, No> {
        match fence(headers)? {
            None if self.missing == Missing::Allow => Ok(None),
            None => Err(No::Missing),
            Some(fence) if fence.election != self.gate.election => {
                Err(No::OtherElection { shown: fence.election, ours: self.gate.election.clone() })
            }
            Some(fence) => self.gate.enter(fence).await.map(Some),
        }
    }
}

impl Gate {
    async fn enter(&self, fence: Fence) -> Result<Inside, No> {
        let inside = Arc::clone(&self.newest).read_owned().await;
        match *inside {
            Some(newest) if newest == fence.term => return Ok(inside),
            Some(newest) if newest > fence.term => return Err(Fenced::new(&fence, newest).into()),
            _ => drop(inside),
        }
        // Waits for all that are inside, and those who come now wait for us.
        let mut alone = Arc::clone(&self.newest).write_owned().await;
        let terms = Arc::clone(&self.terms);
        // A caller that hangs up does not stop it halfway: what is recorded is known here too.
        let asked = tokio::task::spawn_blocking(move || match terms.admit(&fence) {
            Ok(()) => {
                *alone = Some(fence.term);
                Ok(OwnedRwLockWriteGuard::downgrade(alone))
            }
            Err(FenceError::Fenced(fenced)) => {
                *alone = Some(fenced.newest);
                Err(fenced.into())
            }
            Err(FenceError::Fault(why)) => Err(No::Terms(why.to_string())),
        });
        asked.await.unwrap_or_else(|why| Err(No::Terms(why.to_string())))
    }
}

/// Why a request does not get through.
#[derive(Debug, thiserror::Error)]
enum No {
    #[error(transparent)]
    Fenced(#[from] Fenced),
    #[error(
        "this needs the header Fencing-Term: ELECTION/TERM, which says under which term it is asked"
    )]
    Missing,
    #[error("{0}")]
    Unreadable(#[from] Unreadable),
    #[error("this is for the leaders of election {ours:?}, not of {shown:?}")]
    OtherElection { shown: LeaseName, ours: LeaseName },
    #[error("the terms of the fence cannot be kept: {0}; whoever runs this service must act")]
    Terms(String),
}

impl No {
    fn response<R: From<String>>(self) -> Response<R> {
        let mut response = Response::new(R::from(format!("{self}\n")));
        *response.status_mut() = match self {
            Self::Fenced(_) => StatusCode::PRECONDITION_FAILED,
            Self::Missing => StatusCode::PRECONDITION_REQUIRED,
            Self::Unreadable(_) | Self::OtherElection { .. } => StatusCode::BAD_REQUEST,
            Self::Terms(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, text);
        if let Self::Fenced(Fenced { election, newest, .. }) = self {
            response.headers_mut().insert(FENCING_TERM, value(&Fence { election, term: newest }));
        }
        response
    }
}
