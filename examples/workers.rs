//! Competing consumers: ten thousand messages, ten pumps, one poison message and one crash.
//!
//! Every message is handled at least once and completed exactly once; the poison message ends as a
//! dead letter with its reason; what the crashed consumer held is handled by somebody else.
//!
//! `cargo run -p examples --bin workers`
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::pump::{Failure, Retry};
use bellwether::{Bellwether, QueueSettings, Work};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const MESSAGES: u64 = 10_000;
const POISON: u64 = 1234;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("bellwether-workers-{}", std::process::id()));
    let bw = Bellwether::open(format!("file:{}", folder.display())).await?;
    let settings = QueueSettings { lock_ms: 1000, deliveries_max: 3, ..QueueSettings::default() };
    let orders = bw.create_queue("orders", settings).await?;

    // A burst: the queue takes it at once, the consumers work it off at their own pace.
    orders.send_batch((0..MESSAGES).map(|order| order.to_string())).await?;

    // A crash: this consumer takes a message and is never heard of again. Its lock runs out.
    let crashed = orders.receive().one().await?.ok_or("the burst was just sent")?;
    let orphan: u64 = crashed.text().ok_or("not a text")?.parse()?;
    let _token = crashed.keep();

    // What a consumer does with an order; here it only counts how often it saw it.
    let handled = Arc::new(Mutex::new(BTreeMap::<u64, u64>::new()));
    let make = {
        let handled = Arc::clone(&handled);
        move |work: Work| {
            let handled = Arc::clone(&handled);
            async move {
                let order: u64 = work.text().ok_or("not a text")?.parse()?;
                *handled.lock().expect("no handler panics").entry(order).or_default() += 1;
                // Its failure is its own: it comes back later, three times in all.
                if order == POISON {
                    return Err("this order cannot be made".into());
                }
                Ok::<(), Failure>(())
            }
        }
    };

    // Ten consumers compete. Each handles ten messages at a time.
    let (shutdown, mut pumps) = (CancellationToken::new(), JoinSet::new());
    for _ in 0..10 {
        let retry = Retry { base_ms: 50, ..Retry::default() };
        let pump = orders.pump().concurrency(10).retry(retry);
        pumps.spawn(pump.run(make.clone(), shutdown.clone()));
    }

    // When nothing is left to do the pumps finish what they hold, and end.
    while orders.info().await?.totals.completed + orders.info().await?.counts.dead_letters
        < MESSAGES
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    shutdown.cancel();
    while let Some(ended) = pumps.join_next().await {
        ended??;
    }

    let info = orders.info().await?;
    let dead = orders.dead_letters().receive().max(10).many().await?;
    let handled = handled.lock().expect("no handler panics").clone();
    let handlings: u64 = handled.values().sum();
    println!("{MESSAGES} sent, {handlings} handled, {} completed", info.totals.completed);
    println!("order {orphan} was held by the consumer that crashed, and handled by another");
    println!("{} dead letter: order {POISON}", info.counts.dead_letters);
    assert_eq!(handled.len() as u64, MESSAGES, "every message was handled");
    assert_eq!(handled[&POISON], 3, "the poison message was tried three times");
    assert_eq!(info.totals.completed, MESSAGES - 1, "all others were completed once");
    assert_eq!(dead.len(), 1, "nothing else is a dead letter");
    assert_eq!(dead[0].text(), Some(POISON.to_string().as_str()));
    assert_eq!(dead[0].received().dead_letter_reason(), Some("MaxDeliveryCountExceeded"));

    bw.close().await;
    Ok(std::fs::remove_dir_all(folder)?)
}
