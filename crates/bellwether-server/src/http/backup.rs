//! A backup of the whole store, as it is taken.

use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use futures_util::stream::{once, unfold};

use super::problem::Told;
use super::state::{Door, State};

/// A backup of the whole store, while it goes on, for `bellwether restore`.
///
/// Everything acknowledged before it was asked for is in it. It is a backup only if it came whole:
/// one that breaks off is refused by `bellwether restore`, and by `bellwether restore --check`. One
/// backup of a store is taken at a time.
#[utoipa::path(
    get, path = "/v1/backup", tag = "backup",
    responses((status = 200, description = "The backup", body = Vec<u8>,
               content_type = "application/octet-stream"))
)]
pub(crate) async fn take_backup(Door(state): Door<State>) -> Told<Response> {
    // Before the answer begins: from then on there is no way to say what went wrong but to break off.
    let (first, backup) = state.begin_backup().await?;
    let rest = unfold(Some((backup, state)), |taking| async move {
        let (mut backup, state) = taking?;
        let next = tokio::select! {
            () = state.observed().stopped().cancelled() => Err(bellwether::Error::Closed),
            () = state.ended() => Err(bellwether::Error::Closed),
            next = backup.next() => next,
        };
        match next {
            Ok(None) => None,
            Ok(Some(bytes)) => Some((Ok(bytes), Some((backup, state)))),
            Err(error) => Some((Err(error), None)),
        }
    });
    let headers = [
        (CONTENT_TYPE, "application/octet-stream"),
        (CONTENT_DISPOSITION, "attachment; filename=\"store.backup\""),
    ];
    let bytes = once(async move { Ok(first) }).chain(rest);
    Ok((headers, Body::from_stream(bytes)).into_response())
}
