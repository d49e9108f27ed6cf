//! Two million messages pass through while one forgotten message stays.

use bellwether::{Bellwether, QueueSettings};

use super::cycles::{BATCH, cycle_batch};
use super::{Options, address, fresh};
use crate::machine::folder_bytes;
use crate::report::Report;

const MESSAGES: usize = 2_000_000;

pub(super) async fn run(options: &Options, report: &mut Report) {
    let folder = fresh(options, "passage");
    let bw = Bellwether::open(address(&folder)).await.expect("a store");
    let forgotten = bw.create_queue("forgotten", QueueSettings::default()).await.expect("a queue");
    forgotten.send(vec![0x42u8; 1024]).await.expect("sent");
    let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
    let body = bytes::Bytes::from(vec![0x42u8; 1024]);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (bw, queue, body) = (bw.clone(), queue.clone(), body.clone());
            tokio::spawn(async move {
                for _ in 0..MESSAGES / BATCH / 8 {
                    cycle_batch(&bw, &queue, &body).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("passed");
    }
    let megabytes = folder_bytes(&folder) as f64 / 1e6;
    let what = "folder after 2 million x 1 KiB passed, one forgotten";
    let met = megabytes < 200.0;
    report.check(what, format!("{megabytes:.0} MB"), megabytes, "< 200 MB", met);
    bw.close().await;
}
