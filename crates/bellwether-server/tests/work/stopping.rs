//! Who is told to stop, and who loses what it works on.

use rustix::process::Signal;

use super::shop::{Shop, eventually, is_alive};

#[test]
fn told_to_stop_it_takes_no_more_and_lets_what_runs_end() {
    let shop = Shop::open(&[]);
    shop.send(&["one", "two"]);
    let worker = shop.work(&[], "echo $$ > main; while [ ! -e go ]; do sleep 0.05; done");
    eventually("it works", || !shop.read("main").is_empty());
    worker.signal(Signal::TERM);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(is_alive(&shop.read("main")), "what runs may end");
    shop.write("go", "");
    let (code, _, said) = worker.end();
    assert_eq!(code, 0, "{said}");
    let left = shop.messages(&[]);
    assert_eq!(left.len(), 1);
    assert_eq!((&left[0]["body"], &left[0]["deliveries"]), (&"two".into(), &0.into()));
}

#[test]
fn told_twice_it_kills_and_gives_back_uncounted() {
    let shop = Shop::open(&[]);
    shop.send(&["one"]);
    let worker = shop.work(&[], "trap '' TERM; echo $$ > main; while :; do sleep 1; done");
    eventually("it works", || !shop.read("main").is_empty());
    worker.signal(Signal::TERM);
    std::thread::sleep(std::time::Duration::from_millis(300));
    worker.signal(Signal::TERM);
    let (code, _, said) = worker.end();
    assert_eq!(code, 130, "{said}");
    assert!(!is_alive(&shop.read("main")));
    let left = shop.messages(&[]);
    assert_eq!((&left[0]["deliveries"], &left[0]["releases"]), (&0.into(), &1.into()));
}

#[test]
fn when_the_drain_is_over_what_runs_is_told_and_given_back() {
    let shop = Shop::open(&[]);
    shop.send(&["one"]);
    let script =
        "trap 'echo told > told; exit 1' TERM; echo $$ > main; while :; do sleep 0.1; done";
    let worker = shop.work(&["--drain", "200ms"], script);
    eventually("it works", || !shop.read("main").is_empty());
    worker.signal(Signal::TERM);
    let (code, _, said) = worker.end();
    assert_eq!((code, shop.read("told").as_str()), (0, "told\n"), "{said}");
    assert_eq!(shop.messages(&[])[0]["deliveries"], 0);
}

#[test]
fn the_lock_is_kept_for_as_long_as_it_takes() {
    let shop = Shop::open(&["--lock", "500ms"]);
    shop.send(&["slow"]);
    let (code, _, said) = shop.work_off(&[], "echo $$ >> runs; sleep 2");
    assert_eq!(code, 0, "{said}");
    assert_eq!(shop.read("runs").lines().count(), 1, "delivered once");
    assert!(shop.messages(&[]).is_empty());
}

#[test]
fn a_lost_lock_ends_the_command() {
    let shop = Shop::open(&["--lock", "1s"]);
    shop.send(&["slow"]);
    let script = "echo $$ >> runs; [ $BELLWETHER_DELIVERIES = 1 ] || exit 0; \
        [ -e gone ] && exit 0; sleep 1000 & echo $! > child; wait";
    let worker = shop.work(&["--grace", "200ms"], script);
    eventually("it works", || !shop.read("child").is_empty());
    // Nobody can take a lock away but with the whole queue.
    shop.write("gone", "");
    shop.ok(&["queue", "delete", "orders", "--yes"]);
    shop.ok(&["queue", "create", "orders"]);
    eventually("its process group is ended", || !is_alive(&shop.read("child")));
    worker.signal(Signal::TERM);
    let (code, _, said) = worker.end();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("renewing the lock of message 1"), "{said}");
}

#[test]
fn who_is_killed_takes_its_command_along() {
    let shop = Shop::open(&[]);
    shop.send(&["one"]);
    let worker = shop.work(&[], "echo $$ > main; exec sleep 1000");
    eventually("it works", || !shop.read("main").is_empty());
    worker.signal(Signal::KILL);
    eventually("the command is dead", || !is_alive(&shop.read("main")));
}
