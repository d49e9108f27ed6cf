//! Reading requests: what cannot be read is a problem in its own form.

use std::error::Error;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};

use super::limits::BodyFault;
use super::problem::{Kind, Problem, Told};

/// A JSON body. No body at all is an empty object.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Box<Problem>;

    async fn from_request(request: Request, _: &S) -> Told<Self> {
        let (parts, body) = request.into_parts();
        let body = read_body(body).await?;
        if body.is_empty() {
            return parse_object(b"{}").map(Self);
        }
        match media_type(&parts.headers) {
            Some(media_type) if !is_json(&media_type) => {
                let detail = format!("this path takes application/json, not {media_type:?}");
                Err(Problem::new(Kind::UnsupportedMediaType, detail))
            }
            _ => parse_object(&body).map(Self),
        }
    }
}

/// The query of a path.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Told<Self> {
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(why) => Err(Problem::bad_request(format!("the query: {}", why.body_text()))),
        }
    }
}

/// The names in a path.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Told<Self> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(path)) => Ok(Self(path)),
            Err(why) => Err(Problem::bad_request(format!("the path: {}", why.body_text()))),
        }
    }
}

/// A body of whatever kind; how long it may be was settled before it came here.
pub(crate) async fn read_body(body: Body) -> Told<Bytes> {
    axum::body::to_bytes(body, usize::MAX).await.map_err(|error| {
        let mut causes = std::iter::successors(error.source(), |&cause| cause.source());
        match causes.find_map(|cause| cause.downcast_ref::<BodyFault>()) {
            Some(fault) => (*fault).into(),
            None => Problem::bad_request(format!("the body broke off: {error}")),
        }
    })
}

/// What has named fields is an object; serde would take a list of them, too.
pub(crate) fn parse_object<T: DeserializeOwned>(body: &[u8]) -> Told<T> {
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::bad_request("the body: an object is wanted, not a list"));
    }
    parse_json(body)
}

pub(crate) fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Told<T> {
    serde_json::from_slice(body).map_err(|e| Problem::bad_request(format!("the body: {e}")))
}

/// The media type of a body, without its parameters, in lower case.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

pub(crate) fn is_json(media_type: &str) -> bool {
    media_type == "application/json"
}

/// Whether a body of this media type is JSON.
pub(crate) fn holds_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
        || media_type.to_ascii_lowercase().ends_with("+json")
}

/// A header as text: printable ASCII as it is, anything else percent-encoded, as in a path.
pub(crate) fn text_header(headers: &HeaderMap, name: &str) -> Told<Option<String>> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().map_err(|_| {
        Problem::invalid(name, "a header has printable ASCII only; percent-encode the rest")
    })?;
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    match decoded {
        Ok(text) => Ok(Some(text.into_owned())),
        Err(_) => Err(Problem::invalid(name, "what is percent-encoded is no UTF-8")),
    }
}

/// A field that may be left out, be null, or have a value: three different things in a change.
#[expect(clippy::option_option, reason = "outer: whether to change; inner: the setting itself")]
pub(crate) fn maybe<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// A field that may be left out but not be null, unless null is a value.
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// An answer in JSON.
pub(crate) fn json(body: &impl serde::Serialize) -> axum::response::Response {
    json_with(axum::http::StatusCode::OK, body)
}

/// An answer in JSON, with a status of its own.
pub(crate) fn json_with(
    status: axum::http::StatusCode,
    body: &impl serde::Serialize,
) -> axum::response::Response {
    use axum::response::IntoResponse as _;
    match serde_json::to_vec(body) {
        Ok(bytes) => (status, [(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        Err(e) => {
            Problem::new(Kind::Fault, format!("the answer cannot be written: {e}")).into_response()
        }
    }
}
