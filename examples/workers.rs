//! Competing consumers: ten thousand messages, ten pumps, one poison message and one crash.
//!
//! Every message is handled at least once and completed exactly once; the poison message ends as a
//! dead letter with its reason; what the crashed consumer held is handled by somebody else.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::pump::Retry;
use bellwether::{Bellwether, QueueSettings, Work};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const MESSAGES: usize = 10_000;
const POISON: usize = 1234;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let folder = std::env::temp_dir().join(format!("bellwether-workers-{}", std::process::id()));
    let bw = Bellwether::open(format!("file:{}", folder.display())).await?;
    let settings = QueueSettings { lock_ms: 500, deliveries_max: 3, ..QueueSettings::default() };
    let orders = bw.create_queue("orders", settings).await?;

    // A burst: the queue takes it at once, the consumers work it off at their own pace.
    orders.send_batch((0..MESSAGES).map(|order| order.to_string())).await?;

    // A crash: this consumer takes a message and is never heard of again. Its lock runs out.
    let crashed = orders.receive().one().await?.ok_or("the burst was just sent")?;
    let orphan: usize = crashed.text().ok_or("not a text")?.parse()?;
    let _token = crashed.keep();

    // How often each order was handled.
    let handled = Arc::new(Mutex::new(BTreeMap::<usize, u32>::new()));
    let handler = {
        let handled = Arc::clone(&handled);
        move |work: Work| {
            let handled = Arc::clone(&handled);
            async move {
                let order: usize = work.text().ok_or("not a text")?.parse()?;
                *handled.lock().expect("no handler panics").entry(order).or_default() += 1;
                // Its failure is its own: it comes back later, three times in all.
                if order == POISON {
                    Err("this order cannot be made")?
                }
                Ok::<(), Box<dyn Error + Send + Sync>>(())
            }
        }
    };

    // Ten consumers compete. Each handles ten messages at a time.
    let shutdown = CancellationToken::new();
    let mut pumps = JoinSet::new();
    for _ in 0..10 {
        let retry = Retry { base_ms: 50, ..Retry::default() };
        let pump = orders.pump().concurrency(10).retry(retry);
        pumps.spawn(pump.run(handler.clone(), shutdown.clone()));
    }

    // When nothing is left to do the pumps finish what they hold, and end.
    let left = async || orders.info().await.map(|info| MESSAGES as u64 - info.totals.completed);
    while left().await? > 1 || orders.info().await?.counts.dead_letters == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    shutdown.cancel();
    while let Some(ended) = pumps.join_next().await {
        ended??;
    }

    let info = orders.info().await?;
    let dead = orders.dead_letters().receive().max(10).many().await?;
    let handled = handled.lock().expect("no handler panics").clone();
    let handlings: u32 = handled.values().sum();
    println!("{MESSAGES} sent, {handlings} handled, {} completed", info.totals.completed);
    println!("order {orphan} was held by the consumer that crashed, and handled by another");
    for letter in &dead {
        let reason = letter.received().dead_letter_reason();
        println!("order {:?} is a dead letter: {reason:?}", letter.text());
    }
    assert_eq!(handled.len(), MESSAGES, "every message was handled");
    assert_eq!(handled[&POISON], 3, "the poison message was tried three times");
    assert_eq!(info.totals.completed, MESSAGES as u64 - 1, "all others were completed once");
    assert_eq!(dead.len(), 1, "nothing else is a dead letter");
    assert_eq!(dead[0].text(), Some(POISON.to_string().as_str()));
    assert_eq!(dead[0].received().dead_letter_reason(), Some("MaxDeliveryCountExceeded"));

    bw.close().await;
    Ok(std::fs::remove_dir_all(folder)?)
}
