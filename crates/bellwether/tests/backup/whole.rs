//! Everything a store knows survives.

use std::time::Duration;

use bellwether::core::time::WallTime;
use bellwether::{
    Bellwether, Error, Exported, LeaseRefusal, Message, Queue, QueueSettings, Refusal,
    SequenceNumber, Status, Ttl,
};

use super::folder::Folder;

/// Every message of both halves: its number, and it with its past.
async fn all(queue: &Queue) -> Vec<(SequenceNumber, Exported)> {
    let mut all = Vec::new();
    for half in [queue.clone(), queue.dead_letters()] {
        let page = half.peek(SequenceNumber(0), 1000).await.unwrap();
        all.extend(page.iter().map(|m| (m.sequence(), Exported::of(m).unwrap())));
    }
    all
}

async fn fill(store: &Bellwether) {
    let settings = QueueSettings {
        lock_ms: 123_000,
        duplicate_window_ms: Some(3_600_000),
        ..QueueSettings::default()
    };
    let orders = store.create_queue("orders", settings).await.unwrap();
    let later = WallTime(store.clock().now().wall.0 + 3_600_000);
    orders.send(Message::new("scheduled").scheduled_at(later)).await.unwrap();
    orders.send(Message::new("dead").id("dead").property("colour", "red")).await.unwrap();
    let dead = orders.receive().one().await.unwrap().unwrap();
    dead.dead_letter("broken", "it has no handle").await.unwrap();
    orders.send("set aside").await.unwrap();
    orders.receive().one().await.unwrap().unwrap().defer().await.unwrap();
    orders.send("failed once").await.unwrap();
    let failed = orders.receive().one().await.unwrap().unwrap();
    failed.abandon_after(Duration::from_secs(3600)).await.unwrap();
    orders.send(Message::new("twice").id("once").ttl(Duration::from_secs(3600))).await.unwrap();
    orders.send(Message::new("")).await.unwrap();

    let sessions = QueueSettings { sessions: true, ..QueueSettings::default() };
    let mail = store.create_queue("mail", sessions).await.unwrap();
    mail.send(Message::new("dear Anna").session("anna")).await.unwrap();
    let anna = mail.accept_session().named("anna").await.unwrap();
    anna.set_state(Some("half read".into())).await.unwrap();
    anna.close().await.unwrap();
    let paused = QueueSettings { status: Status::SendDisabled, ..QueueSettings::default() };
    store.create_queue("paused", paused).await.unwrap();
    store.lease("backup").unwrap().metadata("db-1").acquire(Ttl::Infinite).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_schedules_sessions_ids_leases_and_settings_survive() {
    let folder = Folder::new();
    let store = folder.open("store").await;
    fill(&store).await;
    let backup = folder.back_up(&store, "backup").await;
    let restored = folder.restore(&backup, "restored");
    assert_eq!((restored.contents.queues, restored.contents.leases), (3, 1));
    let copy = folder.open("restored").await;

    let (queues, copied) = (store.queues().await.unwrap(), copy.queues().await.unwrap());
    assert_eq!(queues, copied, "settings, counts and totals");
    for info in &queues {
        let name = info.name.as_str();
        let (queue, copied) = (store.queue(name).unwrap(), copy.queue(name).unwrap());
        assert_eq!(all(&queue).await, all(&copied).await, "{name}");
    }
    let (_, state) = copy.queue("mail").unwrap().session("anna").await.unwrap().unwrap();
    assert_eq!(state.as_deref(), Some(b"half read".as_slice()));

    let orders = copy.queue("orders").unwrap();
    let again = orders.send(Message::new("again").id("once")).await.unwrap();
    assert_eq!(again, SequenceNumber(0), "its id was seen before the backup");
    let deferred =
        all(&orders).await.into_iter().find(|(_, m)| m.message.text() == Some("set aside"));
    let deferred = orders.receive_deferred([deferred.unwrap().0]).await.unwrap();
    assert_eq!(deferred[0].text(), Some("set aside"));
    let refused = copy.queue("paused").unwrap().send("x").await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::QueueDisabled { .. })), "{refused}");
    let held = copy.lease("backup").unwrap().acquire(Ttl::Infinite).await.unwrap_err();
    let held = held.refusal().cloned();
    assert!(matches!(held, Some(Refusal::Lease(LeaseRefusal::Held { .. }))), "{held:?}");
    assert_eq!(copy.leases().await.unwrap()[0].metadata, "db-1");
    copy.close().await;

    // And once more after a restart, when it is read from its own journal.
    let copy = folder.open("restored").await;
    assert_eq!(copy.queues().await.unwrap().len(), 3);
    assert_eq!(copy.queue("mail").unwrap().info().await.unwrap().counts.ready, 1);
    copy.close().await;
    store.close().await;
}

#[tokio::test]
async fn an_empty_store_is_backed_up_too() {
    let folder = Folder::new();
    let store = folder.open("store").await;
    let backup = folder.back_up(&store, "backup").await;
    let restored = folder.restore(&backup, "restored");
    assert_eq!((restored.contents.queues, restored.contents.messages), (0, 0));
    let copy = folder.open("restored").await;
    assert!(copy.queues().await.unwrap().is_empty());
    let queue = copy.create_queue("orders", QueueSettings::default()).await.unwrap();
    queue.send("a coffee").await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_store_that_keeps_nothing_refuses() {
    let store = Bellwether::open("memory:").await.unwrap();
    let refused = store.backup().next().await.unwrap_err();
    assert!(refused.to_string().contains("bellwether export"), "{refused}");
}
