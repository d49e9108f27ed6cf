//! The file engine, always at a snapshot and with no content in memory: what a long life brings
//! now and then happens here all the time.

use bellwether::conformance::Fixture;
use bellwether::journal::file::FileOptions;

use crate::file::File;

async fn fixture() -> Fixture {
    let options = FileOptions { snapshot_after_bytes: 1, ..FileOptions::default() };
    Fixture::open(File::new(options, 0)).await
}

bellwether::conformance_tests! { fixture: fixture, restart: yes, virtual_clock: yes }
