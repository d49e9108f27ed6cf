//! Claims: work that is done once.

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bellwether::core::command::Command;
use bellwether::core::name::{DeliveryNumber, Incarnation, NoteKey, QueueName};
use bellwether::core::note::{ClaimToken, Claimed};
use bellwether::core::outcome::Outcome;
use bellwether::message::bytes_hash;
use bellwether::queue::ID_HASH_KEY;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::caller::Caller;
use super::extract::{Json, Path, json, json_with};
use super::problem::{Kind, Problem, Told};
use super::state::unexpected;
use crate::time;

fn lock_ms() -> u32 {
    60_000
}

fn keep_ms() -> u64 {
    7 * 24 * 3_600_000
}

/// A wish to be the one who does it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    /// For how long nobody else gets it; a minute if not said.
    #[serde(default = "lock_ms")]
    #[schema(minimum = 100, maximum = 604_800_000)]
    lock_ms: u32,
    /// How long it is remembered; a week if not said. Longer than the longest redelivery.
    #[serde(default = "keep_ms")]
    #[schema(minimum = 1, maximum = 31_622_400_000_u64)]
    keep_ms: u64,
    /// What is to be done. Only a hash of it is kept: the same key with other content is a conflict.
    #[serde(default)]
    content: Option<String>,
}

/// What became of a claim.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "claim")]
pub(crate) enum ShownClaim {
    /// It is the caller's: do it, then `finish` or `give_up` in a transaction.
    Granted {
        /// The proof.
        token: String,
        /// Somebody had it before and did not finish.
        taken_over: bool,
    },
    /// It was done.
    Done {
        #[schema(format = DateTime)]
        done_at: String,
        /// What came of it, if it is text.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// What came of it, if it is not.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(content_encoding = "base64")]
        base64: Option<String>,
    },
}

/// Asks to be the one who does a piece of work: 201 if it is the caller's, 200 with what came of it
/// if it was done, 409 if somebody else is at it or the key was used for other content.
#[utoipa::path(
    post, path = "/v1/claims/{scope}/{key}", tag = "claims",
    params(
        ("scope" = String, Path, description = "Whose work it is", max_length = 260, example = "payments"),
        ("key" = String, Path, description = "Which piece", max_length = 260, example = "order-17"),
    ),
    request_body = Claim,
    responses(
        (status = 201, description = "It is the caller's", body = ShownClaim),
        (status = 200, description = "It was done", body = ShownClaim),
    )
)]
pub(crate) async fn claim(
    caller: Caller,
    Path((scope, key)): Path<(String, String)>,
    Json(ask): Json<Claim>,
) -> Told<Response> {
    let hash = ask.content.map_or(0, |content| bytes_hash(ID_HASH_KEY, content.as_bytes()));
    let (scope, key) = (QueueName::new(&scope)?, NoteKey::new(&key)?);
    let (lock_ms, ttl_ms) = (ask.lock_ms, ask.keep_ms);
    let command = Command::Claim { scope, key: key.clone(), hash, lock_ms, ttl_ms };
    let reply = caller.ask_with(command, Vec::new()).await?;
    let Outcome::Claimed(claimed) = reply.outcome else { unexpected(&reply.outcome) };
    match claimed {
        Claimed::Granted { token, taken_over } => {
            let granted = ShownClaim::Granted { token: token_text(token), taken_over };
            Ok(json_with(StatusCode::CREATED, &granted))
        }
        Claimed::Done { at, .. } => {
            let content = reply.contents.into_iter().next().transpose();
            let content = content.map_err(|why| Problem::new(Kind::Unreadable, why))?;
            let content = content.unwrap_or_default();
            let text = std::str::from_utf8(&content).ok().map(ToOwned::to_owned);
            let base64 = text.is_none().then(|| BASE64.encode(&content));
            Ok(json(&ShownClaim::Done { done_at: time::of_wall(at), text, base64 }))
        }
        Claimed::InProgress { remaining_ms, .. } => {
            let detail = format!("somebody else is at {key:?}, or died a moment ago; ask again");
            Err(Problem::new(Kind::ClaimInProgress, detail).retry_after(remaining_ms))
        }
        Claimed::Conflict => {
            let detail = format!("{key:?} was used for other content; choose keys that are unique");
            Err(Problem::new(Kind::ClaimConflict, detail))
        }
    }
}

fn token_text(token: ClaimToken) -> String {
    format!("{:08x}{:08x}", token.number.0, token.incarnation.0)
}

/// Reads the token of a claim.
pub(crate) fn parse_token(text: &str) -> Told<ClaimToken> {
    let halves = text.split_at_checked(8).filter(|_| text.len() == 16);
    let number = |half: &str| u32::from_str_radix(half, 16).ok();
    let token = halves.and_then(|(a, b)| {
        Some(ClaimToken {
            number: DeliveryNumber(number(a)?),
            incarnation: Incarnation(number(b)?),
        })
    });
    token.ok_or_else(|| Problem::invalid("token", "no claim's token; show the one claiming gave"))
}
