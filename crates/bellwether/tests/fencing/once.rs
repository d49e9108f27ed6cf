//! Effects in PostgreSQL that happen once, however often their message is delivered.

use std::sync::Arc;
use std::time::Duration;

use bellwether::once::postgres::{Marked, forget, install, mark, record};
use bellwether::{Bellwether, Message, QueueSettings};
use tokio_postgres::Client;

use crate::servers::Postgres;

const SCOPE: &str = "payments";

async fn account(server: &Postgres) -> Client {
    let client = server.connect().await;
    install(&client).await.unwrap();
    let account = "CREATE TABLE account (cents bigint NOT NULL); INSERT INTO account VALUES (0)";
    client.batch_execute(account).await.unwrap();
    client
}

async fn cents(client: &Client) -> i64 {
    client.query_one("SELECT cents FROM account", &[]).await.unwrap().get(0)
}

/// Where the consumer dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dies {
    AfterTheMark,
    AfterTheEffect,
    AfterTheCommit,
    Never,
}

/// One delivery of the message `key`; whether the work was this one's to do.
async fn pay(server: &Postgres, key: &str, dies: Dies) -> Option<Marked> {
    // A connection of its own: whoever dies takes it along.
    let mut client = server.connect().await;
    let transaction = client.transaction().await.unwrap();
    let marked = mark(&transaction, SCOPE, key, Some(b"250 cents")).await.unwrap();
    if marked != Marked::First {
        return Some(marked);
    }
    if dies == Dies::AfterTheMark {
        return None;
    }
    transaction.execute("UPDATE account SET cents = cents + 250", &[]).await.unwrap();
    if dies == Dies::AfterTheEffect {
        return None;
    }
    record(&transaction, SCOPE, key, b"receipt 7").await.unwrap();
    transaction.commit().await.unwrap();
    (dies == Dies::Never).then_some(marked)
}

fn before() -> Marked {
    Marked::Before { outcome: Some(b"receipt 7".to_vec()) }
}

/// D22: many consumers with the same message at once have one effect, and the others its outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_with_the_same_message_have_one_effect() {
    let server = Arc::new(Postgres::start().await);
    let client = account(&server).await;
    let paying: Vec<_> = (0..12)
        .map(|_| {
            let server = Arc::clone(&server);
            tokio::spawn(async move { pay(&server, "order-17", Dies::Never).await.unwrap() })
        })
        .collect();
    let mut first = 0;
    for one in paying {
        match one.await.unwrap() {
            Marked::First => first += 1,
            marked => assert_eq!(marked, before()),
        }
    }
    assert_eq!((first, cents(&client).await), (1, 250));
}

/// D22: a consumer may die in each gap, and the database too: the effect happens once.
#[tokio::test]
async fn a_crash_in_any_gap_leaves_one_effect() {
    let mut server = Postgres::start().await;
    account(&server).await;
    let bw = Bellwether::open("memory:").await.unwrap();
    let orders = bw.create_queue("orders", QueueSettings::default()).await.unwrap();
    let deaths = [Dies::AfterTheMark, Dies::AfterTheEffect, Dies::AfterTheCommit];
    for (nth, dies) in (1_i64..).zip(deaths) {
        let id = format!("order-{nth}");
        orders.send(Message::new("250 cents").id(&id)).await.unwrap();
        let order = orders.receive().one().await.unwrap().unwrap();
        assert_eq!(pay(&server, order.id.as_deref().unwrap(), dies).await, None);
        drop(order);
        if dies == Dies::AfterTheCommit {
            server.restart().await;
        }
        // Delivered again.
        let order = orders.receive().one().await.unwrap().unwrap();
        assert_eq!(order.deliveries(), 2);
        let wanted = if dies == Dies::AfterTheCommit { before() } else { Marked::First };
        assert_eq!(pay(&server, &id, Dies::Never).await, Some(wanted), "{dies:?}");
        order.complete().await.unwrap();
        let paid = cents(&server.connect().await).await;
        assert_eq!(paid, 250 * nth, "{dies:?}");
    }
}

/// D22: other content under the same key is no duplicate; markers are forgotten in time.
#[tokio::test]
async fn other_content_is_a_conflict_and_markers_are_forgotten() {
    let server = Postgres::start().await;
    let mut client = account(&server).await;
    assert_eq!(pay(&server, "order-17", Dies::Never).await, Some(Marked::First));
    let transaction = client.transaction().await.unwrap();
    let other = mark(&transaction, SCOPE, "order-17", Some(b"999 cents")).await.unwrap();
    assert_eq!(other, Marked::Conflict);
    let unsaid = mark(&transaction, SCOPE, "order-17", None).await.unwrap();
    assert_eq!(unsaid, before(), "who does not say cannot differ");
    let elsewhere = mark(&transaction, "mails", "order-17", None).await.unwrap();
    assert_eq!(elsewhere, Marked::First, "independent consumers are apart");
    transaction.commit().await.unwrap();
    assert_eq!(forget(&client, SCOPE, Duration::from_secs(3600)).await.unwrap(), 0);
    assert_eq!(forget(&client, SCOPE, Duration::ZERO).await.unwrap(), 1);
    assert_eq!(pay(&server, "order-17", Dies::Never).await, Some(Marked::First));
    assert_eq!(cents(&client).await, 500);
}
