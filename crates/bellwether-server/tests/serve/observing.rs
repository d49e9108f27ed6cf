//! Health and metrics.

use bellwether::{Bellwether, QueueSettings};

use crate::server::{Folder, Server, assert_says};

fn body(url: &str) -> String {
    ureq::get(url).call().unwrap().body_mut().read_to_string().unwrap()
}

#[test]
fn alive_and_ready_are_two_questions() {
    let server = Server::start(&["--memory"]);
    assert_eq!(body(&server.url("/livez")), "alive\n");
    assert_eq!(body(&server.url("/readyz")), "ready\n");
    server.stop();
}

#[test]
fn metrics_have_their_names_and_no_label_grows_without_bound() {
    let folder = Folder::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fill = async {
        let bw = Bellwether::open(format!("file:{}", folder.text())).await.unwrap();
        for number in 0..5 {
            let name = format!("queue \"{number}\"");
            let queue = bw.create_queue(&name, QueueSettings::default()).await.unwrap();
            queue.send("one").await.unwrap();
            queue.send("two").await.unwrap();
            let delivery = queue.receive().one().await.unwrap().unwrap();
            delivery.complete().await.unwrap();
            bw.lease(&format!("lease {number}"))
                .unwrap()
                .acquire(std::time::Duration::from_secs(3600))
                .await
                .unwrap();
        }
        bw.close().await;
    };
    runtime.block_on(fill);
    let server = Server::start(&["--data", folder.text(), "--metrics-names-max", "2"]);
    let mut answer = ureq::get(server.url("/metrics")).call().unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let metrics = answer.body_mut().read_to_string().unwrap();
    assert_says(
        &metrics,
        &[
            "bellwether_queues 5\n",
            "bellwether_queue_messages{queue=\"queue \\\"0\\\"\",state=\"active\"} 1\n",
            "bellwether_queue_messages{queue=\"_other\",state=\"active\"} 3\n",
            "bellwether_messages_sent_total{queue=\"queue \\\"1\\\"\"} 2\n",
            "bellwether_messages_completed_total{queue=\"_other\"} 3\n",
            "bellwether_queue_oldest_message_age_seconds{queue=\"_other\"}",
            "bellwether_leases{state=\"leased\"} 5\n",
            "bellwether_election_has_leader{election=\"lease 0\"} 1\n",
            "bellwether_election_changes_total{election=\"_other\"} 0\n",
            "bellwether_commit_duration_seconds_bucket{le=\"+Inf\"}",
            "bellwether_store{state=\"sound\"} 1\n",
        ],
    );
    assert!(!metrics.contains("queue \\\"2\\\""), "it is one of the others");
    assert!(!metrics.contains("election_term{election=\"_other\"}"), "that would mean nothing");
    assert!(metrics.ends_with("# EOF\n"));
    server.stop();
}
