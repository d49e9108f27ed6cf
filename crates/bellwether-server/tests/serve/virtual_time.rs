//! Time and emptiness at will, for other people's tests.

use bellwether::{Bellwether, Error, QueueSettings, Refusal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::server::{Server, assert_says, status};

fn wall_ms(answer: &str) -> u64 {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    body["wall_ms"].as_u64().unwrap()
}

#[test]
fn time_stands_still_until_it_is_moved() {
    let server = Server::start(&["--memory", "--virtual-clock"]);
    let advance = |ms: &str| server.post("/v1/test/clock/advance", &format!("{{\"ms\":{ms}}}"));
    let before = wall_ms(&advance("0"));
    assert_eq!(wall_ms(&advance("3600000")), before + 3_600_000);
    assert_eq!(wall_ms(&advance("0")), before + 3_600_000);
    assert_eq!(status(&server.post("/v1/test/reset", "")), 204);
    assert_eq!(wall_ms(&advance("1")), before + 3_600_001, "time does not go back");
    for wrong in ["-1", "\"soon\"", "null"] {
        let answer = advance(wrong);
        assert_eq!(status(&answer), 400, "{answer}");
        assert_says(&answer, &["application/problem+json", "ms"]);
    }
    let answer = advance("9999999999999999");
    assert_eq!(status(&answer), 400, "{answer}");
    assert_eq!(status(&server.get("/readyz", "host: localhost\r\n")), 200);
    server.stop();
}

#[test]
fn nobody_moves_the_time_of_a_server_that_is_not_for_tests() {
    let server = Server::start(&["--memory"]);
    for path in ["/v1/test/clock/advance", "/v1/test/reset"] {
        assert_eq!(status(&server.post(path, "{\"ms\":1}")), 404);
    }
    server.stop();
}

/// Sends until it is told to stop. In a store that was emptied there is no such queue; nobody hears
/// anything else.
async fn send_on(bw: Bellwether, stop: CancellationToken) {
    let queue = bw.queue("orders").unwrap();
    while !stop.is_cancelled() {
        match queue.send("two coffees").await {
            Ok(_) | Err(Error::Refused(Refusal::QueueNotFound(_))) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_connected_goes_on_in_the_emptied_store() {
    let server = Server::start(&["--memory", "--virtual-clock"]);
    let address = format!("bellwether://{}", server.wire());
    let (stop, mut senders) = (CancellationToken::new(), JoinSet::new());
    // Several, so that each is another member in the new store than it was in the old one.
    let mut members = Vec::new();
    for _ in 0..4 {
        let bw = Bellwether::open(&address).await.unwrap();
        for _ in 0..8 {
            senders.spawn(send_on(bw.clone(), stop.clone()));
        }
        members.push(bw);
    }
    for _ in 0..5 {
        assert_eq!(status(&server.post("/v1/test/reset", "")), 204);
        let queue = members[0].create_queue("orders", QueueSettings::default()).await.unwrap();
        while queue.info().await.unwrap().counts.ready < 100 {
            assert!(senders.try_join_next().is_none(), "one of them has heard something else");
        }
    }
    stop.cancel();
    senders.join_all().await;
    for bw in members {
        bw.close().await;
    }
    server.stop();
}
