//! The engine that keeps nothing.

use bellwether::conformance::{Fixture, Opening, Store};
use bellwether::{Open, VirtualClock};

#[derive(Debug)]
struct Memory(VirtualClock);

impl Store for Memory {
    fn open(&self, memory_bytes_max: Option<u64>) -> Opening<'_> {
        let mut open = Open::new("memory:").clock(self.0.clone());
        if let Some(bytes) = memory_bytes_max {
            open = open.memory_bytes_max(bytes);
        }
        Box::pin(open.open())
    }

    fn kill(&self) {
        unreachable!("nothing outlives the engine that keeps nothing");
    }

    fn clock(&self) -> Option<VirtualClock> {
        Some(self.0.clone())
    }

    fn loses_answers(&self) -> bool {
        false
    }
}

async fn fixture() -> Fixture {
    Fixture::open(Memory(VirtualClock::new())).await
}

bellwether::conformance_tests! { fixture: fixture, restart: no, virtual_clock: yes }
