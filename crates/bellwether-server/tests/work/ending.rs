//! What the end of a command means for its message.

use super::shop::{Shop, is_alive};

#[test]
fn its_exit_code_says_how_the_message_ends() {
    let shop = Shop::open(&[]);
    shop.send(&["0", "65", "75", "7", "signal"]);
    let script = "read code; echo first >&2; echo \"about $code\" >&2; \
        [ $code = signal ] && kill -9 $$; exit $code";
    let (code, _, said) =
        shop.work_off(&["--retry-after", "1h", "--backoff", "2h", "--backoff-max", "2h"], script);
    assert_eq!(code, 0, "{said}");
    let dead = &shop.messages(&["--dead-letters"])[0];
    assert_eq!(
        (&dead["body"], &dead["dead_letter"]["reason"]),
        (&"65".into(), &"CommandRefused".into())
    );
    let described = &dead["dead_letter"]["description"];
    assert_eq!(described, "first\nabout 65", "the end of its error output");
    let back = shop.messages(&[]);
    let bodies: Vec<_> = back.iter().map(|message| message["body"].as_str().unwrap()).collect();
    assert_eq!(bodies, ["75", "7", "signal"]);
    assert!(back.iter().all(|message| message["deliveries"] == 1), "{back:?}");
    assert!(back.iter().all(|message| message["state"] != "ready"), "later: {back:?}");
    assert!(said.contains("the command ended with 7: about 7"), "{said}");
    assert!(said.contains("the command died by signal 9"), "{said}");
}

#[test]
fn who_takes_too_long_is_stopped_with_all_that_came_of_it() {
    let shop = Shop::open(&[]);
    shop.send(&["slow"]);
    let script = "trap '' TERM; sleep 1000 & echo $! > child; echo $$ > main; wait; sleep 1000";
    let flags =
        ["--timeout", "300ms", "--grace", "200ms", "--backoff", "1h", "--backoff-max", "1h"];
    let (code, _, said) = shop.work_off(&flags, script);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("the command took longer than 300ms"), "{said}");
    assert!(!is_alive(&shop.read("main")) && !is_alive(&shop.read("child")));
    assert_eq!(shop.messages(&[])[0]["failures"], 1);
}

#[test]
fn what_it_leaves_behind_in_its_group_is_ended() {
    let shop = Shop::open(&[]);
    shop.send(&["one"]);
    let (code, _, said) = shop.work_off(&[], "sleep 1000 & echo $! > child; exit 0");
    assert_eq!(code, 0, "{said}");
    assert!(!is_alive(&shop.read("child")));
    assert!(shop.messages(&[]).is_empty(), "completed");
}

#[test]
fn a_command_that_cannot_be_run_costs_no_message() {
    let shop = Shop::open(&[]);
    shop.send(&["one"]);
    shop.write("no-program", "x");
    for (command, code) in [("./not-there", 127), ("not-there-either", 127), ("./no-program", 126)]
    {
        let ran = shop.command(&["work", "orders", "--", command]).output().unwrap();
        assert_eq!(ran.status.code(), Some(code), "{ran:?}");
    }
    assert_eq!(shop.messages(&[])[0]["deliveries"], 0);
    let none = shop.command(&["work", "no-such-queue", "--", "true"]).output().unwrap();
    assert_eq!(none.status.code(), Some(66), "{none:?}");
}
