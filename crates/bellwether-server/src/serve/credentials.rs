//! Asks for credentials at the HTTP door.
//!
//! | path | needs |
//! |---|---|
//! | `/livez`, `/readyz`, the description and its page, the list of problems | nothing: they tell nothing of what is in the store |
//! | `/metrics` | Listen on everything: it has names in it |
//! | `/v1/test/…` | Manage on everything |
//! | all others | what the command needs that they become |

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use bellwether::core::right::{Needs, Of, Realm, Right};
use bellwether::wire::Why;
use bellwether::wire::accept::{Pass, Turned};

use super::refuse::refuse;
use crate::access::{Access, Origin};
use crate::http::Principal;
use crate::http::problem::{Kind, Problem, Told};

const OPEN: [&str; 8] = [
    "/",
    "/livez",
    "/readyz",
    "/v1/openapi.json",
    "/v1/docs",
    "/v1/docs/page.js",
    "/v1/docs/page.css",
    "/v1/problems",
];
const OPEN_UNDER: &str = "/v1/problems/";

pub(super) async fn check(
    State(access): State<Arc<Access>>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if OPEN.contains(&path) || path.starts_with(OPEN_UNDER) {
        return next.run(request).await;
    }
    let pass = match admit(&access, &request) {
        Ok(pass) => pass,
        Err(turned) => {
            tokio::time::sleep(turned.after).await;
            return refuse(problem(turned), request).await;
        }
    };
    if let Err(problem) = check_path(&pass, path) {
        access.count_forbidden();
        return refuse(problem, request).await;
    }
    request.extensions_mut().insert(Principal(pass.principal.to_string()));
    request.extensions_mut().insert(pass);
    next.run(request).await
}

fn admit(access: &Arc<Access>, request: &Request) -> Result<Arc<Pass>, Turned> {
    let unknown = || Origin::at(Ipv4Addr::LOCALHOST.into());
    let origin = request.extensions().get::<Origin>().cloned().unwrap_or_else(unknown);
    access.admit(shown(request.headers()), &origin)
}

fn problem(turned: Turned) -> Box<Problem> {
    match turned.why {
        Why::Limit => Problem::new(Kind::TooManyConnections, turned.text).retry_after(1000),
        _ => Problem::new(Kind::CredentialRequired, turned.text),
    }
}

/// The credential: a token after `Bearer`, or the whole of a shared access signature. What is said
/// twice, or in another way, is nobody's.
fn shown(headers: &HeaderMap) -> &str {
    const NOBODYS: &str = "?";
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return "" };
    let (Ok(text), None) = (value.to_str(), values.next()) else { return NOBODYS };
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        Some(("SharedAccessSignature", _)) => text,
        _ => NOBODYS,
    }
}

fn check_path(pass: &Pass, path: &str) -> Told<()> {
    let right = match path {
        "/metrics" => Right::Listen,
        path if path.starts_with("/v1/test/") => Right::Manage,
        _ => return Ok(()),
    };
    for realm in [Realm::Queues, Realm::Elections] {
        pass.grants.check(&Needs::one("operate", right, Of::Every(realm)))?;
    }
    Ok(())
}
