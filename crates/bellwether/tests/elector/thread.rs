//! Real time and real threads: what a blocked program does to its leases.

use std::time::Duration;

use bellwether::{Bellwether, Overrun};

/// The work blocks the only thread of its runtime for several times the ttl: the lease is renewed
/// all the same.
#[test]
fn a_blocked_runtime_does_not_starve_renewals() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bw = Bellwether::open("memory:").await.unwrap();
        let election = bw.election("leader").unwrap().ttl(Duration::from_secs(1));
        let guard = election.contend().await.unwrap();
        std::thread::sleep(Duration::from_secs(3));
        assert!(guard.ensure().is_ok(), "nobody was there to renew but the renewer's thread");
        assert_eq!(election.leader().await.unwrap().map(|leader| leader.term), Some(guard.term()));
    });
}

/// The office is given back even if the runtime that contended for it is gone.
#[test]
fn a_guard_that_outlives_its_runtime_still_gives_the_office_back() {
    let store = tokio::runtime::Runtime::new().unwrap();
    let bw = store.block_on(Bellwether::open("memory:")).unwrap();
    let short = tokio::runtime::Runtime::new().unwrap();
    let election = bw.election("leader").unwrap();
    let guard = short.block_on(election.contend()).unwrap();
    drop(short);
    drop(guard);
    let next = async { tokio::time::timeout(Duration::from_secs(60), election.contend()).await };
    store.block_on(next).expect("in less than a ttl").unwrap();
}

/// Work that neither stops nor awaits takes its process with it, before anybody else leads. The
/// process is this program again, told by a variable which test to be.
#[test]
fn a_process_ends_before_its_lease_does_if_so_configured() {
    const ROLE: &str = "BELLWETHER_TEST_OVERRUN";
    if std::env::var_os(ROLE).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(async {
            let bw = Bellwether::open("memory:").await.unwrap();
            let election = bw.election("leader").unwrap().grace(Duration::from_millis(100));
            let election = election.on_overrun(Overrun::EndProcess);
            let elector = election.lead(|leadership| async move {
                leadership.step_down();
                std::thread::sleep(Duration::from_secs(3_600));
            });
            elector.run(std::future::pending::<()>()).await.unwrap();
        });
    }
    let name = "thread::a_process_ends_before_its_lease_does_if_so_configured";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(ROLE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success() && child.status.code().is_none(), "killed: {said}");
    assert!(said.contains("did not stop in time"), "{said}");
}
