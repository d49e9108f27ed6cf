//! The calls on blobs that an election makes, and what comes of them.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::{Method, Request, Response};

use super::address::{Address, Pass};
use super::http::{Http, HttpFault};
use super::record::{Record, Seen};
use crate::clock::Clock;
use crate::error::Error;
use bellwether_core::name::LeaseId;

/// Known to the service and to its emulator.
const API_VERSION: &str = "2021-12-02";
/// A call that takes longer is not worth waiting for: it is asked again.
const CALL_MAX: Duration = Duration::from_secs(5);
/// Who listens for hints.
const EARS: &str = "x-ms-meta-ears";

type Headers<'a> = &'a [(&'a str, &'a str)];

/// A container of blobs, one for each election.
#[derive(Debug)]
pub(super) struct Container {
    address: Address,
    http: Http,
    clock: Clock,
}

/// What came of a call that was not done.
#[derive(Debug)]
pub(super) enum BlobFault {
    /// Nothing was asked.
    Unreachable(String),
    /// It may have been done or not.
    Unknown(String),
    /// The service said no.
    Refused { status: u16, code: String },
}

impl BlobFault {
    /// The code, if the service said no with one.
    pub(super) fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            Self::Unreachable(_) | Self::Unknown(_) => "",
        }
    }

    /// There is no such blob, or no container, or soon not any more.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. }) || self.code() == "ContainerBeingDeleted"
    }

    /// Somebody else holds the lease, or nobody: in any case not whoever asked.
    pub(super) fn is_not_ours(&self) -> bool {
        matches!(self, Self::Refused { status: 409 | 412, code } if code.starts_with("Lease"))
    }

    /// Somebody wrote to the blob since it was read.
    pub(super) fn is_changed(&self) -> bool {
        self.code() == "ConditionNotMet"
    }
}

impl Container {
    pub(super) fn new(address: Address, clock: Clock) -> Self {
        let http = Http::new(address.host.clone(), address.port, address.tls);
        Self { address, http, clock }
    }

    pub(super) fn error(&self, fault: BlobFault) -> Error {
        let address = self.address.place();
        match fault {
            BlobFault::Unreachable(why) => Error::Handshake { address, why },
            BlobFault::Unknown(why) => Error::Unknown(format!("{address}: {why}")),
            BlobFault::Refused { status: 401 | 403, code } => {
                let why = format!(
                    "{code}; the key or the signature must allow to read, write and create blobs"
                );
                Error::Denied { address, why }
            }
            BlobFault::Refused { status, code } => {
                Error::Failed(format!("{address} answered {status} {code}"))
            }
        }
    }

    /// The blob as it is; shown a lease id, only if that one holds it.
    pub(super) async fn look(
        &self,
        blob: &str,
        holder: Option<LeaseId>,
    ) -> Result<Seen, BlobFault> {
        let holder = holder.map(guid);
        let shown = holder.as_deref().map(|id| [("x-ms-lease-id", id)]);
        let headers: Headers = shown.as_ref().map_or(&[], |shown| shown);
        Ok(Seen::read(self.call(&Method::HEAD, Some(blob), &[], headers).await?.headers()))
    }

    /// Makes the container. There may be one by now.
    pub(super) async fn create(&self) -> Result<(), BlobFault> {
        made(self.call(&Method::PUT, None, &[("restype", "container")], &[]).await)
    }

    /// Makes an empty blob. There may be one by now, even a leased one.
    pub(super) async fn create_blob(&self, blob: &str) -> Result<(), BlobFault> {
        let headers = [("if-none-match", "*"), ("x-ms-blob-type", "BlockBlob")];
        made(self.call(&Method::PUT, Some(blob), &[], &headers).await)
    }

    /// Writes what is known of the newest term, if the blob is as it was read and `holder` holds it.
    pub(super) async fn write(
        &self,
        blob: &str,
        holder: LeaseId,
        etag: &str,
        record: &Record,
    ) -> Result<(), BlobFault> {
        let (holder, fields) = (guid(holder), record.headers());
        let mut headers = vec![("if-match", etag), ("x-ms-lease-id", &holder)];
        headers.extend(fields.iter().map(|(name, value)| (*name, value.as_str())));
        self.call(&Method::PUT, Some(blob), &[("comp", "metadata")], &headers).await.map(|_| ())
    }

    /// Who listens, and the tag of what says so.
    pub(super) async fn read_ears(&self, blob: &str) -> Result<(String, String), BlobFault> {
        let answer = self.call(&Method::HEAD, Some(blob), &[], &[]).await?;
        let text = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let text = |name| text(name).unwrap_or_default().to_owned();
        Ok((text("etag"), text(EARS)))
    }

    /// Writes down who listens, if what says so is as it was read, or not there.
    pub(super) async fn write_ears(
        &self,
        blob: &str,
        etag: Option<&str>,
        ears: &str,
    ) -> Result<(), BlobFault> {
        let (query, condition): (Headers, Headers) = match &etag {
            Some(etag) => (&[("comp", "metadata")], &[("if-match", etag)]),
            None => (&[], &[("if-none-match", "*"), ("x-ms-blob-type", "BlockBlob")]),
        };
        let headers = [condition, &[(EARS, ears)]].concat();
        self.call(&Method::PUT, Some(blob), query, &headers).await.map(|_| ())
    }

    /// Where the service is.
    pub(super) fn server(&self) -> (&str, u16) {
        (&self.address.host, self.address.port)
    }

    /// How often whoever waits looks.
    pub(super) fn poll(&self) -> Duration {
        self.address.poll
    }

    /// Leases the blob under an id, or the same id again.
    pub(super) async fn acquire(
        &self,
        blob: &str,
        id: LeaseId,
        seconds: u64,
    ) -> Result<(), BlobFault> {
        let (id, seconds) = (guid(id), seconds.to_string());
        let headers = [("x-ms-proposed-lease-id", &*id), ("x-ms-lease-duration", &seconds)];
        self.lease(blob, "acquire", &headers).await.map(|_| ())
    }

    /// Renews the lease. Says the blob's tag, which changes only if somebody writes to it.
    pub(super) async fn renew(&self, blob: &str, id: LeaseId) -> Result<String, BlobFault> {
        let answer = self.lease(blob, "renew", &[("x-ms-lease-id", &guid(id))]).await?;
        Ok(Seen::read(answer.headers()).etag)
    }

    /// Gives it back.
    pub(super) async fn release(&self, blob: &str, id: LeaseId) -> Result<(), BlobFault> {
        self.lease(blob, "release", &[("x-ms-lease-id", &guid(id))]).await.map(|_| ())
    }

    async fn lease(
        &self,
        blob: &str,
        action: &str,
        headers: Headers<'_>,
    ) -> Result<Response<()>, BlobFault> {
        let headers = [&[("x-ms-lease-action", action)], headers].concat();
        self.call(&Method::PUT, Some(blob), &[("comp", "lease")], &headers).await
    }

    async fn call(
        &self,
        method: &Method,
        blob: Option<&str>,
        query: Headers<'_>,
        headers: Headers<'_>,
    ) -> Result<Response<()>, BlobFault> {
        let request = self.request(method, blob, query, headers);
        let request = request.map_err(|e| BlobFault::Unreachable(e.to_string()))?;
        let answer = tokio::time::timeout(CALL_MAX, self.http.ask(&request)).await;
        let late = || BlobFault::Unknown(format!("no answer within {CALL_MAX:?}"));
        let answer = answer.map_err(|_| late())?.map_err(|fault| match fault {
            HttpFault::Unreachable(why) => BlobFault::Unreachable(why),
            HttpFault::Unknown(why) => BlobFault::Unknown(why),
        })?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let code = answer.headers().get("x-ms-error-code").and_then(|code| code.to_str().ok());
        let code = code.unwrap_or_default().to_owned();
        // A server that is busy or broken may have done it.
        if answer.status().is_server_error() || matches!(status, 408 | 429) {
            return Err(BlobFault::Unknown(format!("it answered {status} {code}")));
        }
        Err(BlobFault::Refused { status, code })
    }

    fn request(
        &self,
        method: &Method,
        blob: Option<&str>,
        query: Headers<'_>,
        headers: Headers<'_>,
    ) -> Result<Request<Empty<Bytes>>, hyper::http::Error> {
        let Address { base, container, .. } = &self.address;
        let blob = blob.map(|blob| format!("/{blob}")).unwrap_or_default();
        let path = format!("{base}/{container}{blob}");
        let mut parts: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(self.clock.now().wall.0);
        let date = httpdate::fmt_http_date(now);
        let mut all = [&[("x-ms-date", &*date), ("x-ms-version", API_VERSION)], headers].concat();
        all.sort_unstable();
        let mut request = Request::builder().method(method);
        match &self.address.pass {
            Pass::Sas(sas) => parts.push(sas.clone()),
            Pass::Key(key) => {
                let text = to_sign(&self.address.account, method, &path, query, &all);
                let signature = Address::signature(key, &text);
                let account = &self.address.account;
                let said = format!("SharedKey {account}:{signature}");
                request = request.header("authorization", said);
            }
        }
        let mark = if parts.is_empty() { "" } else { "?" };
        request = request
            .uri(format!("{path}{mark}{}", parts.join("&")))
            .header("host", format!("{}:{}", self.address.host, self.address.port))
            .header("content-length", "0");
        for (name, value) in all {
            request = request.header(name, value);
        }
        request.body(Empty::new())
    }
}

/// The text whose signature lets a request in: `headers` must be sorted.
fn to_sign(
    account: &str,
    method: &Method,
    path: &str,
    query: Headers<'_>,
    headers: Headers<'_>,
) -> String {
    let value = |wanted: &str| {
        headers.iter().find(|(name, _)| *name == wanted).map_or("", |(_, value)| value)
    };
    let (matching, none_match) = (value("if-match"), value("if-none-match"));
    // Encoding, language, length, digest, type, date and the time a copy is from: none of it here.
    let mut text = format!("{method}\n\n\n\n\n\n\n\n{matching}\n{none_match}\n\n\n");
    for (name, value) in headers.iter().filter(|(name, _)| name.starts_with("x-ms-")) {
        text.extend([name, ":", value, "\n"]);
    }
    text.extend(["/", account, path]);
    for (name, value) in query {
        text.extend(["\n", name, ":", value]);
    }
    text
}

fn made(answer: Result<Response<()>, BlobFault>) -> Result<(), BlobFault> {
    match answer {
        // Somebody was faster, and may even have leased it since: so there is one.
        Err(fault) if fault.code().ends_with("AlreadyExists") => Ok(()),
        Ok(_) | Err(BlobFault::Refused { status: 412, .. }) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// An id in the form in which Azure takes them.
fn guid(id: LeaseId) -> String {
    let hex = format!("{:032x}", id.0);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_guid() {
        let id = LeaseId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
        assert_eq!(guid(id), "00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn what_is_definite_and_what_is_not() {
        let refused = |status, code: &str| BlobFault::Refused { status, code: code.into() };
        assert!(refused(409, "LeaseIdMismatchWithLeaseOperation").is_not_ours());
        assert!(refused(412, "LeaseNotPresentWithBlobOperation").is_not_ours());
        assert!(refused(404, "BlobNotFound").is_missing());
        assert!(refused(409, "ContainerBeingDeleted").is_missing());
        assert!(refused(412, "ConditionNotMet").is_changed());
        assert!(!refused(412, "ConditionNotMet").is_not_ours());
        assert!(!refused(403, "AuthenticationFailed").is_not_ours());
        assert!(!BlobFault::Unknown("timeout".into()).is_not_ours());
    }
}
