//! Problem details (RFC 9457) for what the server itself says no to.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

/// An answer that says what is wrong and who must act.
pub(crate) fn problem(status: StatusCode, title: &str, detail: &str) -> Response {
    let body = Json(serde_json::json!({
        "type": "about:blank",
        "title": title,
        "status": status.as_u16(),
        "detail": detail,
    }));
    let mut response = (status, body).into_response();
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
