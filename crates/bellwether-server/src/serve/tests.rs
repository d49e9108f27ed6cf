//! The site over a real store, without a socket.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use bellwether::wire::accept::Owners;
use bellwether::{Delivery, Queue, QueueSettings};
use tower::ServiceExt as _;

use super::*;
use crate::config::Flags;

async fn site(flags: &[(&'static str, &str)]) -> Arc<Site> {
    let flags = flags.iter().fold(Flags::default(), |flags, (name, text)| flags.with(name, text));
    let config = Config::load(&flags.with("memory", "true"), None, []).unwrap();
    let clock =
        if config.virtual_clock { Clock::Virtual(VirtualClock::new()) } else { Clock::System };
    let store = open(&config, &clock).await.unwrap();
    let connections = Connections::new(&config, config.http, config.wire);
    let site = Arc::new(Site::new(config, clock, connections, None, None, None));
    site.show_opening();
    let (status, why) = ask(&site, "GET", "/readyz", "").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(why.contains("\"retry\":true"), "{why}");
    assert_eq!(ask(&site, "GET", "/livez", "").await.0, StatusCode::OK);
    assert_eq!(ask(&site, "GET", "/v1/queues", "").await.0, StatusCode::SERVICE_UNAVAILABLE);
    site.show(store).await.unwrap();
    site
}

async fn ask(site: &Site, method: &str, path: &str, body: &str) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let request = request.header("content-type", "application/json");
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let answer = site.router().oneshot(request).await.unwrap();
    let status = answer.status();
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn next(queue: &Queue) -> Delivery {
    queue.receive().one().await.unwrap().unwrap()
}

#[tokio::test]
async fn what_happens_in_a_queue_is_in_the_metrics() {
    let site = site(&[]).await;
    let store = site.store().unwrap();
    let queue = store.create_queue("orders", QueueSettings::default()).await.unwrap();
    queue.send_batch(["a", "b", "c"]).await.unwrap();
    next(&queue).await.complete().await.unwrap();
    next(&queue).await.abandon().await.unwrap();
    next(&queue).await.dead_letter("unreadable", "no such order").await.unwrap();
    let _locked = next(&queue).await;
    store.lease("chores").unwrap().acquire(Duration::from_secs(60)).await.unwrap();
    let (status, metrics) = ask(&site, "GET", "/metrics", "").await;
    assert_eq!(status, StatusCode::OK);
    for line in [
        "bellwether_messages_sent_total{queue=\"orders\"} 3",
        "bellwether_messages_delivered_total{queue=\"orders\"} 4",
        "bellwether_messages_completed_total{queue=\"orders\"} 1",
        "bellwether_messages_abandoned_total{queue=\"orders\"} 1",
        "bellwether_messages_dead_lettered_total{queue=\"orders\",reason=\"application\"} 1",
        "bellwether_messages_dead_lettered_total{queue=\"orders\",reason=\"ttl_expired\"} 0",
        "bellwether_queue_messages{queue=\"orders\",state=\"locked\"} 1",
        "bellwether_queue_messages{queue=\"orders\",state=\"dead\"} 1",
        "bellwether_queue_time_to_drain_seconds{queue=\"orders\"} 0.0",
        "bellwether_election_changes_total{election=\"chores\"} 1",
        "bellwether_election_has_leader{election=\"chores\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in {metrics}");
    }
    let handbook = include_str!("../../../../docs/operations.md");
    for family in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = family.split_once(' ').unwrap();
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let row = format!("| `{name}{suffix}` ");
        assert!(handbook.contains(&row), "docs/operations.md lacks {row}");
    }
}

#[tokio::test]
async fn a_server_that_stops_or_has_lost_its_store_is_alive_but_not_ready() {
    let site = site(&[]).await;
    assert_eq!(ask(&site, "GET", "/readyz", "").await.0, StatusCode::OK);
    site.store().unwrap().close().await;
    let (status, why) = ask(&site, "GET", "/readyz", "").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(why.contains("closed"), "{why}");
    site.stopping.cancel();
    let (status, why) = ask(&site, "GET", "/readyz", "").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(why.contains("stopping"), "{why}");
    assert_eq!(ask(&site, "GET", "/livez", "").await.0, StatusCode::OK);
}

#[tokio::test]
async fn where_credentials_are_required_nothing_is_answered_without_a_look_at_them() {
    let store = Bellwether::open("memory:").await.unwrap();
    let owners = Arc::new(Owners::of(&store).await.unwrap());
    let routes = crate::http::router(crate::http::State::new(
        store,
        tokio_util::sync::CancellationToken::new(),
        Some(owners),
    ));
    for path in ["/v1/queues", "/v1/backup", "/v1/elections/chores/history", "/v1/stats"] {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let answer = routes.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[tokio::test]
async fn moving_the_clock_ends_locks_and_a_reset_leaves_nothing() {
    let site = site(&[("virtual_clock", "true")]).await;
    let store = site.store().unwrap();
    let queue = store.create_queue("orders", QueueSettings::default()).await.unwrap();
    queue.send("two coffees").await.unwrap();
    let _crashed = next(&queue).await;
    assert!(queue.receive().one().await.unwrap().is_none(), "it is locked");
    let (status, _) = ask(&site, "POST", "/v1/test/clock/advance", "{\"ms\":60000}").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(next(&queue).await.text(), Some("two coffees"), "the lock ran out");

    assert_eq!(ask(&site, "POST", "/v1/test/reset", "").await.0, StatusCode::NO_CONTENT);
    assert!(site.store().unwrap().queues().await.unwrap().is_empty());
    assert!(matches!(queue.info().await, Err(Error::Closed)), "the old store is closed");
    assert_eq!(ask(&site, "GET", "/readyz", "").await.0, StatusCode::OK);
}
