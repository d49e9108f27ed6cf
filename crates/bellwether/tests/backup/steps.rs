//! One step after the other, over the wire too.

use bellwether::core::backup::BackupStep;
use bellwether::core::command::{Command, Request};
use bellwether::core::name::RequestNumber;
use bellwether::core::outcome::Outcome;
use bellwether::engine::Reply;
use bellwether::{Bellwether, Error, QueueSettings, Refusal};

use super::folder::Folder;

async fn step(store: &Bellwether, id: u64, step: u32) -> Result<Reply, Error> {
    let (member, number) = (store.slot(), RequestNumber(0));
    let command = Command::Backup { id, step };
    store
        .call(Request { member, number, answered_below: number, command, fence: None }, Vec::new())
        .await
}

async fn filled(folder: &Folder) -> Bellwether {
    let store = folder.open("store").await;
    let queue = store.create_queue("orders", QueueSettings::default()).await.unwrap();
    for _ in 0..15 {
        queue.send_batch((0..200).map(|n| format!("coffee number {n}"))).await.unwrap();
    }
    store
}

#[tokio::test]
async fn the_last_step_may_be_asked_again_and_no_other() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    let mut number = 0;
    loop {
        let brought = step(&store, 1, number).await.unwrap();
        assert_eq!(step(&store, 1, number).await.unwrap(), brought, "step {number} again");
        if matches!(brought.outcome, Outcome::Backup(BackupStep::End { .. })) {
            break;
        }
        number += 1;
    }
    assert!(number > 3, "there are several steps to ask for");
    for wrong in [number + 2, number.wrapping_sub(3)] {
        let refused = step(&store, 1, wrong).await.unwrap_err();
        assert!(refused.to_string().contains("begin a new one"), "{refused}");
    }
    store.close().await;
}

#[tokio::test]
async fn one_at_a_time_and_one_that_is_dropped_makes_room() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    let mut first = store.backup();
    first.next().await.unwrap();
    let refused = store.backup().next().await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::TooMany { max: 1, .. })), "{refused}");
    drop(first);
    let mut second = store.backup();
    while second.next().await.unwrap().is_some() {}
    store.close().await;
}
