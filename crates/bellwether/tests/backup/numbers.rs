//! What the lost future may have given out is never given out again (E1, E2, L2, L8).

use std::time::Duration;

use bellwether::core::command::{Command, Disposition, Request, Settlement};
use bellwether::core::name::{LockToken, QueueName, QueuePath, RequestNumber};
use bellwether::core::outcome::Outcome;
use bellwether::{Bellwether, LeaseId, QueueSettings, Refusal, Ttl};

use super::folder::Folder;

async fn settle(store: &Bellwether, token: LockToken) -> Vec<(u32, Refusal)> {
    let settlement = Settlement { token, disposition: Disposition::Complete, overlay: None };
    let command = Command::Settle {
        from: QueuePath::main(QueueName::new("orders").unwrap()),
        settlements: vec![settlement].into(),
    };
    let (member, number) = (store.slot(), RequestNumber(0));
    let request = Request { member, number, answered_below: number, command, fence: None };
    match store.call(request, Vec::new()).await.unwrap().outcome {
        Outcome::Settled { refused } => refused,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_token_of_the_lost_future_is_refused() {
    let folder = Folder::new();
    let store = folder.open("store").await;
    let orders = store.create_queue("orders", QueueSettings::default()).await.unwrap();
    let before = orders.send("a coffee").await.unwrap();
    let backup = folder.back_up(&store, "backup").await;
    let lost = orders.receive().one().await.unwrap().unwrap().keep();
    let lost_number = orders.send("a tea").await.unwrap();
    store.close().await;

    let mut seen = vec![lost];
    for name in ["first", "second"] {
        folder.restore(&backup, name);
        let copy = folder.open(name).await;
        let orders = copy.queue("orders").unwrap();
        let token = orders.receive().one().await.unwrap().unwrap().keep();
        assert_eq!(token.sequence, before, "it was there before");
        for old in &seen {
            assert_ne!(token, *old, "every hand-out has a token of its own");
            let refused = settle(&copy, *old).await;
            assert_eq!(refused, [(0, Refusal::LockLost(before))], "{old:?}");
        }
        assert!(orders.send("a juice").await.unwrap() > lost_number, "L8");
        seen.push(token);
        copy.close().await;
    }
}

#[tokio::test]
async fn a_lock_from_before_the_backup_still_stands_as_after_a_restart() {
    let folder = Folder::new();
    let store = folder.open("store").await;
    let orders = store.create_queue("orders", QueueSettings::default()).await.unwrap();
    orders.send("a coffee").await.unwrap();
    let token = orders.receive().one().await.unwrap().unwrap().keep();
    let backup = folder.back_up(&store, "backup").await;
    store.close().await;
    folder.restore(&backup, "restored");
    let copy = folder.open("restored").await;
    assert_eq!(copy.queue("orders").unwrap().info().await.unwrap().counts.locked, 1, "L4");
    assert!(settle(&copy, token).await.is_empty());
    copy.close().await;
}

#[tokio::test]
async fn terms_go_on_above_all_that_were_granted_anywhere() {
    let folder = Folder::new();
    let store = folder.open("store").await;
    let (old, new, held) = ("in the backup", "of the lost future", "held all the time");
    let free = store.lease(old).unwrap();
    let grant = free.acquire(Duration::from_secs(60)).await.unwrap();
    free.release(grant.id).await.unwrap();
    let holder = LeaseId(7);
    store.lease(held).unwrap().acquire_as(holder, Ttl::Infinite).await.unwrap();
    let backup = folder.back_up(&store, "backup").await;
    // A new id is a new term: so many that the clock falls behind.
    let mut highest = grant.term;
    for name in [old, new] {
        let lease = store.lease(name).unwrap();
        let mut id = lease.acquire(Ttl::Infinite).await.unwrap().id;
        for next in 0..100 {
            let changed = lease.change(id, LeaseId(100 + next)).await.unwrap();
            (id, highest) = (LeaseId(100 + next), highest.max(changed.term));
        }
    }
    store.close().await;

    for name in ["first", "second"] {
        let restored = folder.restore(&backup, name);
        let copy = folder.open(name).await;
        assert!(restored.raised.terms_from > highest);
        let mut granted = Vec::new();
        for lease in [old, new] {
            let lease = copy.lease(lease).unwrap();
            granted.push(lease.acquire(Ttl::Infinite).await.unwrap().term);
        }
        // Its holder comes back, and hears of a term that nobody was ever granted.
        granted.push(copy.lease(held).unwrap().renew(holder).await.unwrap().term);
        assert!(granted.iter().all(|term| *term > highest), "E1 {granted:?} {highest}");
        highest = granted.into_iter().max().unwrap();
        copy.close().await;
        // The next restore is another moment: terms have its time in them.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_backup_of_a_restored_store_is_one() {
    let folder = Folder::new();
    let store = folder.open("store").await;
    store.create_queue("orders", QueueSettings::default()).await.unwrap();
    store.queue("orders").unwrap().send("a coffee").await.unwrap();
    let backup = folder.back_up(&store, "backup").await;
    store.close().await;
    let first = folder.restore(&backup, "first");
    let copy = folder.open("first").await;
    let backup = folder.back_up(&copy, "backup of the restored").await;
    copy.close().await;
    let second = folder.restore(&backup, "second");
    assert!(second.raised.terms_from > first.raised.terms_from);
    assert!(second.raised.incarnation > first.raised.incarnation);
    let copy = folder.open("second").await;
    let text = copy.queue("orders").unwrap().receive().one().await.unwrap().unwrap();
    assert_eq!(text.text(), Some("a coffee"));
    text.complete().await.unwrap();
    copy.close().await;
}
