//! Ten connections at work, each with one caller: those whose calls must not get slower.

use std::time::{Duration, Instant};

use bellwether::{Bellwether, Queue};

use super::BODY_BYTES;
use crate::server::Server;

pub(super) const CONNECTIONS: usize = 10;
const ROUND: Duration = Duration::from_secs(3);
/// A message is there for each receive; longer waits are faults.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Active {
    connections: Vec<(Bellwether, Queue)>,
}

impl Active {
    pub(super) async fn connect(server: &Server) -> Self {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(server.queue().await);
        }
        Self { connections }
    }

    /// Everybody does full cycles for a while; how long each send took.
    pub(super) async fn sends(&self) -> Vec<Duration> {
        let until = Instant::now() + ROUND;
        let callers =
            self.connections.iter().map(|(_, queue)| tokio::spawn(caller(queue.clone(), until)));
        let callers: Vec<_> = callers.collect();
        let mut times = Vec::new();
        for caller in callers {
            times.extend(caller.await.expect("a caller"));
        }
        times
    }

    pub(super) async fn close(self) {
        for (bw, _) in self.connections {
            bw.close().await;
        }
    }
}

async fn caller(queue: Queue, until: Instant) -> Vec<Duration> {
    let mut times = Vec::new();
    while Instant::now() < until {
        let start = Instant::now();
        queue.send(vec![0x42u8; BODY_BYTES]).await.expect("sent");
        times.push(start.elapsed());
        let delivery = queue.receive().wait(PATIENCE).one().await.expect("received");
        delivery.expect("there is one for each sender").complete().await.expect("completed");
    }
    times
}
