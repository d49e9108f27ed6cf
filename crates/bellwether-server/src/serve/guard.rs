//! Keeps web pages away from a server on loopback.
//!
//! A page from anywhere runs in a browser on this machine, and can make it ask 127.0.0.1. Two
//! checks stop that:
//!
//! 1. `Host` must be a name of ours. A page whose name its owner lets point to 127.0.0.1 (DNS
//!    rebinding) comes with its own name: 421.
//! 2. `Origin`, which browsers add to what pages send, must be the very host that is asked: 403.
//!    There are no CORS headers, so no other page can read an answer either.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::Response;

use super::connections::Refusals;
use super::refuse::refuse;
use crate::http::problem::{Kind, Problem};

/// What the guard knows.
#[derive(Debug)]
pub(super) struct Guard {
    /// Names of ours beside loopback's, in lower case.
    pub(super) hosts: Vec<String>,
    pub(super) refusals: Arc<Refusals>,
}

pub(super) async fn check(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let host = asked_host(request.uri(), request.headers());
    let Some(host) = host.filter(|host| guard.is_ours(host.host())) else {
        guard.refusals.count_host();
        let detail = "the Host header must be localhost, a loopback address, or a name in the \
                      setting http_hosts";
        return refuse(Problem::new(Kind::NotOurHost, detail), request).await;
    };
    if !is_same_origin(&host, request.headers()) {
        guard.refusals.count_origin();
        let detail = "the request comes from a web page of another origin; only pages of this \
                      server may ask it from a browser";
        return refuse(Problem::new(Kind::OtherOrigin, detail), request).await;
    }
    next.run(request).await
}

/// The host that is asked: of the address line if it names one, else of the one `Host` header.
fn asked_host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let authority = match uri.authority() {
        Some(authority) => authority.clone(),
        None => only(headers, header::HOST)?.parse().ok()?,
    };
    (!authority.as_str().contains('@')).then_some(authority)
}

fn is_same_origin(host: &Authority, headers: &HeaderMap) -> bool {
    if !headers.contains_key(header::ORIGIN) {
        return true;
    }
    let Some(origin) = only(headers, header::ORIGIN) else { return false };
    // A proxy in front may speak TLS; the name and port are what counts.
    let origin = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host.as_str()))
}

/// A header that is there exactly once.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

impl Guard {
    fn is_ours(&self, host: &str) -> bool {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        host.eq_ignore_ascii_case("localhost")
            || bare.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
            || self.hosts.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, text)| (name.clone(), text.parse().unwrap())).collect()
    }

    fn is_host_taken(host: &str) -> bool {
        let guard =
            Guard { hosts: vec!["queue.example".into()], refusals: Arc::new(Refusals::default()) };
        let asked = asked_host(&Uri::from_static("/"), &headers(&[(header::HOST, host)]));
        asked.is_some_and(|host| guard.is_ours(host.host()))
    }

    #[test]
    fn only_names_of_ours_are_hosts() {
        let ours = ["localhost", "LocalHost:7400", "127.0.0.1:9", "[::1]:7400", "queue.example:80"];
        for host in ours {
            assert!(is_host_taken(host), "{host}");
        }
        let others =
            ["evil.example", "evil.example:7400", "localhost.evil.example", "0.0.0.0:7400"];
        for host in others {
            assert!(!is_host_taken(host), "{host}");
        }
        for host in ["127.0.0.1@evil.example", "evil.example@localhost", "", "a b", "1.2.3.4"] {
            assert!(!is_host_taken(host), "{host}");
        }
        let mut both = headers(&[(header::HOST, "localhost")]);
        both.append(header::HOST, "evil.example".parse().unwrap());
        assert!(asked_host(&Uri::from_static("/"), &both).is_none(), "one of the two lies");
    }

    #[test]
    fn a_page_may_only_ask_where_it_came_from() {
        let host: Authority = "localhost:7400".parse().unwrap();
        let from = |origin: &str| is_same_origin(&host, &headers(&[(header::ORIGIN, origin)]));
        assert!(is_same_origin(&host, &HeaderMap::new()), "no browser");
        assert!(from("http://localhost:7400") && from("https://LOCALHOST:7400"));
        for origin in ["null", "http://localhost:3000", "http://localhost", "http://evil.example"] {
            assert!(!from(origin), "{origin}");
        }
    }
}
