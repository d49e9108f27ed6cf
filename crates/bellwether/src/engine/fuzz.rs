//! What an engine's own readers must keep, whatever bytes they are given.

use bellwether_core::ledger::Ledger;
use bellwether_core::time::{BootTime, Now, WallTime};

use super::remote::address::Address;
use super::shard::replay::Replayer;
use crate::journal::{FrameNumber, Prepared, Replay as _};

/// The address of a server.
pub fn address(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(Ok(address)) = Address::read(text) {
        let again = Address::read(&address.to_string());
        assert_eq!(again, Some(Ok(address)), "{text}");
    }
}

/// Changes, as a frame and as a block of a snapshot, into an empty store. They may make no sense
/// together; reading them is refused or does no harm.
pub fn replay(bytes: &[u8]) {
    let now = Now { boot: BootTime(1000), wall: WallTime(1_000_000) };
    let mut replayer = Replayer::new(Ledger::new(1 << 30), now);
    let _ = replayer.snapshot(bytes);
    let at = Prepared { number: FrameNumber(1), unit: 1, payload_offset: 4096 + 32 };
    let _ = replayer.frame(at, bytes);
}
