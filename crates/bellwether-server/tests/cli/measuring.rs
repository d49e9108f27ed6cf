//! `bench` measures, and leaves everything as it was.

use std::process::Stdio;

use super::served::{Door, Served};
use super::store::Store;

#[test]
fn a_folder_is_measured_and_nothing_is_left() {
    let store = Store::with("orders");
    store.feed(&["send", "orders"], b"a coffee\n");
    let before = store.json(&["queue", "show", "orders"]);
    let args = ["bench", "--seconds", "1", "--callers", "4", "--batch", "3", "--size", "1KiB"];
    let told = store.json(&args);
    assert_eq!((&told["callers"], &told["batch"]), (&4.into(), &3.into()), "{told}");
    assert_eq!(told["size_bytes"], 1024, "{told}");
    for what in ["flush", "round_trip", "send", "cycle"] {
        let row = &told["measured"][what];
        assert!(row["samples"].as_u64().unwrap() > 0, "{what}: {told}");
        assert!(row["p50_us"].as_u64() <= row["max_us"].as_u64(), "{what}: {told}");
    }
    for what in ["send", "cycle"] {
        let rate = told["measured"][what]["messages_per_second"].as_f64().unwrap();
        assert!(rate > 0.0, "{what}: {told}");
    }
    let queues = store.json(&["queue", "list"]);
    assert_eq!(queues.as_array().unwrap().len(), 1, "{queues}");
    assert_eq!(store.json(&["queue", "show", "orders"]), before);
}

#[test]
fn a_server_too_and_ctrl_c_cleans_up() {
    let served = Served::start(Door::Wire);
    served.ok(&["queue", "create", "orders"]);
    let table = served.ok(&["bench", "--seconds", "1", "--callers", "2"]);
    assert!(table.contains("cycle") && table.contains("2 callers, 1 at a time"), "{table}");
    let mut running = served.command(&["bench", "--seconds", "600"]);
    let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let queues = || served.json(&["queue", "list"]).as_array().unwrap().len();
    while queues() < 2 {
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    assert_eq!(queues(), 1, "its queue is gone");
    served.stop();
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    let store = Store::with("orders");
    store.fails(&["bench", "--size", "2MiB"], 64, "at most 1 MiB");
    store.fails(&["bench", "--callers", "0"], 64, "--callers");
}
