//! Problem details (RFC 9457): how this door says no.
//!
//! Every answer that is not what was asked for has this form, whoever said no: the rules (a
//! refusal), the machinery (a fault), nobody knows (an unknown outcome), or the door itself, which
//! could not read the request. `type` is what programs compare; `detail` says who must act.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bellwether::{Error, LeaseRefusal, Refusal};
use serde::Serialize;
use utoipa::ToSchema;

/// The media type of a problem.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";
/// Where the kinds of problem live: a `type` is this and the kind's name.
pub(crate) const TYPES: &str = "/v1/problems/";

/// What may be shown, for whoever showed nothing or something wrong.
const SCHEMES: &str = "Bearer realm=\"bellwether\", SharedAccessSignature realm=\"bellwether\"";

macro_rules! kinds {
    ($($kind:ident $name:literal $status:literal $title:literal)+) => {
        /// What kinds of problem there are. Names are for ever.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $(#[doc = $title] $kind,)+ }

        impl Kind {
            /// All of them, as documented.
            pub(crate) const ALL: &[Self] = &[$(Self::$kind),+];

            /// Name, status and title.
            pub(crate) const fn facts(self) -> (&'static str, u16, &'static str) {
                match self { $(Self::$kind => ($name, $status, $title),)+ }
            }
        }
    };
}

kinds! {
    BadRequest "bad-request" 400 "The request could not be read"
    InvalidName "invalid-name" 400 "A name that cannot be one"
    InvalidValue "invalid-value" 400 "A value that cannot be set"
    NeedsTls "needs-tls" 400 "This door speaks TLS"
    CredentialRequired "credential-required" 401 "A credential is missing, unknown or over"
    Forbidden "forbidden" 403 "The credential does not allow it"
    OtherOrigin "other-origin" 403 "A page of another origin may not ask"
    NoSuchPath "no-such-path" 404 "There is nothing under this path"
    QueueNotFound "queue-not-found" 404 "There is no queue of that name"
    MessageNotFound "message-not-found" 404 "There is no such message where it was looked for"
    JobNotFound "job-not-found" 404 "There is no job of that name"
    ScheduleNotFound "schedule-not-found" 404 "There is no schedule of that name"
    LeaseNotFound "lease-not-found" 404 "Nobody ever asked for this lease"
    MethodNotAllowed "method-not-allowed" 405 "The path does not take this method"
    BodyLate "body-late" 408 "The body came too slowly"
    QueueDisabled "queue-disabled" 409 "The queue's status forbids it"
    SessionRequired "session-required" 409 "The queue wants a session"
    SessionNotSupported "session-not-supported" 409 "The queue has no sessions"
    SessionLocked "session-locked" 409 "Another receiver holds the session"
    JobEnded "job-ended" 409 "The job has ended"
    JobOpen "job-open" 409 "The job has not ended"
    LeaseHeld "lease-held" 409 "Another holder has the lease"
    LeaseBreaking "lease-breaking" 409 "The lease is being broken"
    LeaseBroken "lease-broken" 409 "The lease was broken"
    LeaseIdMismatch "lease-id-mismatch" 409 "The id shown is not the lease's"
    LeaseNotPresent "lease-not-present" 409 "There is no lease to act on"
    NotGranted "not-granted" 409 "The lease was not granted within the wait"
    LeasePaused "lease-paused" 409 "The lease is paused and granted to nobody"
    NotInLine "not-in-line" 409 "The named member does not wait for the lease"
    OtherSlots "other-slots" 409 "The lease is held with another number of slots"
    LockLost "lock-lost" 410 "The message is no longer locked under this token"
    SessionLost "session-lost" 410 "The session is no longer held under this token"
    MemberGone "member-gone" 410 "The member's presence has ended"
    TermOver "term-over" 410 "The term is over"
    Fenced "fenced" 412 "The term shown is not held"
    TooLarge "too-large" 413 "More bytes than allowed"
    UnsupportedMediaType "unsupported-media-type" 415 "The body is of a kind that is not taken here"
    NotOurHost "not-our-host" 421 "Not a host of this server"
    TooMany "too-many" 422 "More than allowed in one go, or altogether"
    KeyReused "idempotency-key-reused" 422 "The key belongs to another request"
    QueueFull "queue-full" 429 "The queue has reached its size"
    TooManyKeys "too-many-keys" 429 "Too many idempotency keys are being remembered"
    Fault "fault" 500 "The machinery failed"
    Unreadable "unreadable" 500 "What was stored cannot be read"
    Busy "busy" 503 "The store has reached its memory budget"
    Closed "closed" 503 "The store is closed"
    NotLeader "not-leader" 503 "Whoever was asked about does not lead"
    NotReady "not-ready" 503 "The server cannot do that now"
    TooManyConnections "too-many-connections" 503 "There are too many connections"
    OutcomeUnknown "outcome-unknown" 504 "It is not known whether the request took effect"
    DiskFull "disk-full" 507 "The disk is full"
}

/// One problem, as it is told.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// What kind it is: a path that stays the same for ever.
    #[serde(rename = "type")]
    #[schema(example = "/v1/problems/lock-lost")]
    kind: String,
    /// The kind in words.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What happened, to what, and who must act.
    detail: String,
    /// Whether the same request may succeed later without anybody changing it.
    retry: bool,
    /// When to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// Which value is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    setting: Option<String>,
    /// The limit that was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// The queue it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    /// The message it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<String>,
    /// The session it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The job it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    /// The schedule it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
    /// The lease it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<String>,
    /// The term it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    term: Option<String>,
    /// The newest term that was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    newest_term: Option<String>,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Box<Self> {
        let (name, status, title) = kind.facts();
        Box::new(Self {
            kind: format!("{TYPES}{name}"),
            title,
            status,
            detail: detail.into(),
            retry: false,
            retry_after_ms: None,
            setting: None,
            limit: None,
            queue: None,
            sequence: None,
            session: None,
            job: None,
            schedule: None,
            lease: None,
            term: None,
            newest_term: None,
        })
    }

    /// A value of the request that cannot be taken.
    pub(crate) fn invalid(setting: &str, why: impl std::fmt::Display) -> Box<Self> {
        let mut problem = Self::new(Kind::InvalidValue, format!("{setting}: {why}"));
        problem.setting = Some(setting.to_owned());
        problem
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Box<Self> {
        Self::new(Kind::BadRequest, detail)
    }

    pub(crate) fn retry_after(mut self: Box<Self>, ms: u64) -> Box<Self> {
        self.retry = true;
        self.retry_after_ms = Some(ms);
        self
    }

    /// A problem holds texts and numbers only: it can always be written.
    pub(crate) fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The name of its kind.
    pub(crate) fn kind_name(&self) -> &str {
        self.kind.strip_prefix(TYPES).unwrap_or(&self.kind)
    }

    pub(crate) fn is(&self, kind: Kind) -> bool {
        self.kind_name() == kind.facts().0
    }

    pub(crate) fn limit(mut self: Box<Self>, limit: u64) -> Box<Self> {
        self.limit = Some(limit);
        self
    }
}

/// How a handler ends.
pub(crate) type Told<T> = Result<T, Box<Problem>>;

impl IntoResponse for Box<Problem> {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response =
            (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], self.json()).into_response();
        if let Some(ms) = self.retry_after_ms {
            let seconds = HeaderValue::from(ms.div_ceil(1000));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if status == StatusCode::UNAUTHORIZED {
            let schemes = HeaderValue::from_static(SCHEMES);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, schemes);
        }
        response
    }
}

impl From<Error> for Box<Problem> {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Refused(refusal) => return refusal.into(),
            Error::Unknown(_) => Kind::OutcomeUnknown,
            Error::Closed
            | Error::Unreachable { .. }
            | Error::Handshake { .. }
            | Error::Denied { .. } => Kind::Closed,
            Error::Unreadable { .. } => Kind::Unreadable,
            Error::Fault(_) | Error::Failed(_) | Error::Address { .. } => Kind::Fault,
        };
        let mut problem = Problem::new(kind, error.to_string());
        // Whoever asks again under the same key hears what became of it.
        problem.retry = kind == Kind::OutcomeUnknown;
        problem
    }
}

impl From<Refusal> for Box<Problem> {
    fn from(refusal: Refusal) -> Self {
        (&refusal).into()
    }
}

impl From<&Refusal> for Box<Problem> {
    fn from(refusal: &Refusal) -> Self {
        let mut problem = Problem::new(kind_of(refusal), refusal.to_string());
        problem.retry = refusal.retry();
        match refusal {
            Refusal::QueueNotFound(queue)
            | Refusal::SessionRequired(queue)
            | Refusal::SessionNotSupported(queue)
            | Refusal::QueueDisabled { queue, .. } => problem.queue = Some(queue.to_string()),
            Refusal::QueueFull { queue, size_bytes_max } => {
                problem.queue = Some(queue.to_string());
                problem.setting = Some("size_bytes_max".into());
                problem.limit = Some(*size_bytes_max);
            }
            Refusal::Busy { retry_after_ms } => problem.retry_after_ms = Some(*retry_after_ms),
            Refusal::InvalidName { what, .. } | Refusal::InvalidValue { what, .. } => {
                problem.setting = Some((*what).to_owned());
            }
            Refusal::TooLarge { bytes_max: max, .. } | Refusal::TooMany { max, .. } => {
                problem.limit = Some(*max);
            }
            Refusal::SessionLocked(session) | Refusal::SessionLost(session) => {
                problem.session = Some(session.to_string());
            }
            Refusal::LockLost(sequence) | Refusal::MessageNotFound(sequence) => {
                problem.sequence = Some(sequence.to_string());
            }
            Refusal::Lease(refusal) => name_lease(&mut problem, refusal),
            Refusal::Fenced { election, term, newest } => {
                problem.lease = Some(election.to_string());
                problem.term = Some(term.to_string());
                problem.newest_term = newest.map(|newest| newest.to_string());
            }
            Refusal::JobNotFound(job) | Refusal::JobEnded(job) | Refusal::JobOpen(job) => {
                problem.job = Some(job.to_string());
            }
            Refusal::ScheduleNotFound(schedule) => problem.schedule = Some(schedule.to_string()),
            Refusal::DiskFull | Refusal::MemberGone | Refusal::Forbidden { .. } => {}
        }
        problem
    }
}

fn name_lease(problem: &mut Problem, refusal: &LeaseRefusal) {
    let (lease, term) = match refusal {
        LeaseRefusal::Held { lease, term } | LeaseRefusal::TermOver { lease, term } => {
            (lease, Some(term))
        }
        LeaseRefusal::Breaking(lease)
        | LeaseRefusal::Broken(lease)
        | LeaseRefusal::BreakingCannotChange(lease)
        | LeaseRefusal::IdMismatch(lease)
        | LeaseRefusal::NotPresent(lease)
        | LeaseRefusal::NotGranted(lease)
        | LeaseRefusal::Paused(lease)
        | LeaseRefusal::NotInLine { lease, .. }
        | LeaseRefusal::OtherSlots { lease, .. } => (lease, None),
    };
    problem.lease = Some(lease.to_string());
    problem.term = term.map(ToString::to_string);
}

fn kind_of(refusal: &Refusal) -> Kind {
    match refusal {
        Refusal::QueueNotFound(_) => Kind::QueueNotFound,
        Refusal::QueueDisabled { .. } => Kind::QueueDisabled,
        Refusal::QueueFull { .. } => Kind::QueueFull,
        Refusal::Busy { .. } => Kind::Busy,
        Refusal::DiskFull => Kind::DiskFull,
        Refusal::InvalidName { .. } => Kind::InvalidName,
        Refusal::InvalidValue { .. } => Kind::InvalidValue,
        Refusal::TooLarge { .. } => Kind::TooLarge,
        Refusal::TooMany { .. } => Kind::TooMany,
        Refusal::SessionRequired(_) => Kind::SessionRequired,
        Refusal::SessionNotSupported(_) => Kind::SessionNotSupported,
        Refusal::SessionLocked(_) => Kind::SessionLocked,
        Refusal::SessionLost(_) => Kind::SessionLost,
        Refusal::LockLost(_) => Kind::LockLost,
        Refusal::MessageNotFound(_) => Kind::MessageNotFound,
        Refusal::MemberGone => Kind::MemberGone,
        Refusal::Forbidden { .. } => Kind::Forbidden,
        Refusal::Fenced { .. } => Kind::Fenced,
        Refusal::JobNotFound(_) => Kind::JobNotFound,
        Refusal::JobEnded(_) => Kind::JobEnded,
        Refusal::JobOpen(_) => Kind::JobOpen,
        Refusal::ScheduleNotFound(_) => Kind::ScheduleNotFound,
        Refusal::Lease(refusal) => match refusal {
            LeaseRefusal::Held { .. } => Kind::LeaseHeld,
            LeaseRefusal::Breaking(_) | LeaseRefusal::BreakingCannotChange(_) => {
                Kind::LeaseBreaking
            }
            LeaseRefusal::Broken(_) => Kind::LeaseBroken,
            LeaseRefusal::IdMismatch(_) => Kind::LeaseIdMismatch,
            LeaseRefusal::NotPresent(_) => Kind::LeaseNotPresent,
            LeaseRefusal::TermOver { .. } => Kind::TermOver,
            LeaseRefusal::NotGranted(_) => Kind::NotGranted,
            LeaseRefusal::Paused(_) => Kind::LeasePaused,
            LeaseRefusal::NotInLine { .. } => Kind::NotInLine,
            LeaseRefusal::OtherSlots { .. } => Kind::OtherSlots,
        },
    }
}

#[cfg(test)]
mod tests {
    use bellwether::core::name::SequenceNumber;

    use super::*;

    fn told(error: Error) -> (String, u16, bool) {
        let problem: Box<Problem> = error.into();
        (problem.kind.clone(), problem.status, problem.retry)
    }

    #[test]
    fn yes_no_and_nobody_knows_are_kept_apart() {
        let refused = told(Refusal::LockLost(SequenceNumber(7)).into());
        assert_eq!(refused, ("/v1/problems/lock-lost".into(), 410, false));
        let unknown = told(Error::Unknown("the flush failed".into()));
        assert_eq!(unknown, ("/v1/problems/outcome-unknown".into(), 504, true));
        let failed = told(Error::Failed("it broke".into()));
        assert_eq!(failed, ("/v1/problems/fault".into(), 500, false));
        assert_eq!(told(Error::Closed), ("/v1/problems/closed".into(), 503, false));
        assert_eq!(told(Refusal::DiskFull.into()), ("/v1/problems/disk-full".into(), 507, true));
    }

    #[test]
    fn who_should_wait_is_told_how_long() {
        let busy: Box<Problem> = Refusal::Busy { retry_after_ms: 1500 }.into();
        let response = busy.into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "2", "whole seconds, rounded up");
        assert_eq!(response.headers()[header::CONTENT_TYPE], MEDIA_TYPE);
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> =
            Kind::ALL.iter().map(|kind| kind.facts().0).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
