//! Says no before a request's body was read.

use std::time::Duration;

use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

use crate::http::problem::Problem;

/// Of whoever is not let in nothing longer is read, and not for longer.
const THROWN_AWAY_BYTES_MAX: usize = 64 << 10;
const THROWN_AWAY_WITHIN: Duration = Duration::from_secs(1);

/// Says no. A body that is short is thrown away first, so that the connection can be used again;
/// behind one that is not read it cannot, and whoever asks is to know.
pub(crate) async fn refuse(problem: Box<Problem>, request: Request) -> Response {
    let mut answer = problem.into_response();
    let is_read = request.body().is_end_stream()
        || (!request.headers().contains_key(header::EXPECT) && is_thrown_away(request).await);
    if !is_read {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

async fn is_thrown_away(request: Request) -> bool {
    let read = axum::body::to_bytes(request.into_body(), THROWN_AWAY_BYTES_MAX);
    matches!(tokio::time::timeout(THROWN_AWAY_WITHIN, read).await, Ok(Ok(_)))
}
