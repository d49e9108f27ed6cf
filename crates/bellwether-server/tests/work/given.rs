//! What a command is given, and what becomes of what it writes.

use super::shop::Shop;

#[test]
fn it_reads_the_body_and_finds_the_rest_in_its_environment() {
    let shop = Shop::open(&[]);
    let send = ["send", "orders", "two coffees", "--id", "o-17", "--subject", "drinks"];
    shop.ok(&[&send[..], &["--property", "order-no:int=7", "--property", "who=me"]].concat());
    let (code, said, error) = shop.work_off(&[], "cat; echo; env | sort");
    assert_eq!(code, 0, "{error}");
    assert!(said.starts_with("two coffees\n"), "{said}");
    let has = |line: &str| assert!(said.lines().any(|said| said == line), "{line}: {said}");
    has("BELLWETHER_QUEUE=orders");
    has("BELLWETHER_SEQUENCE=1");
    has("BELLWETHER_DELIVERIES=1");
    has("BELLWETHER_MESSAGE_ID=o-17");
    has("BELLWETHER_SUBJECT=drinks");
    has("BELLWETHER_PROPERTY_ORDER_NO=7");
    has("BELLWETHER_PROPERTY_WHO=me");
    assert!(said.contains("BELLWETHER_PROPERTIES={\"order-no\":"), "{said}");
    assert!(said.contains("\nBELLWETHER_DELIVERY=0000000000000001"), "{said}");
}

#[test]
fn the_body_may_be_in_a_file_which_is_removed() {
    let shop = Shop::open(&[]);
    shop.send(&["two coffees"]);
    let script = "cat; cat \"$BELLWETHER_BODY\"; stat -c %a \"$BELLWETHER_BODY\"; \
        echo \"$BELLWETHER_BODY\" > path";
    let (code, said, error) = shop.work_off(&["--input", "file"], script);
    assert_eq!((code, said.as_str()), (0, "two coffees600\n"), "{error}");
    assert!(!std::path::Path::new(shop.read("path").trim()).exists());
}

#[test]
fn what_it_writes_is_the_reply_if_that_is_wanted() {
    let shop = Shop::open(&[]);
    shop.ok(&["queue", "create", "replies"]);
    shop.ok(&["send", "orders", "6 7", "--id", "q1", "--reply-to", "replies"]);
    let script = "read a b; echo $((a * b))";
    let (code, said, error) = shop.work_off(&["--reply"], script);
    assert_eq!((code, said.as_str()), (0, ""), "{error}");
    let reply = shop.ok(&["receive", "replies", "--output", "json"]);
    let reply: serde_json::Value = serde_json::from_str(reply.trim()).unwrap();
    assert_eq!((&reply["body"], &reply["correlation_id"]), (&"42\n".into(), &"q1".into()));
    assert!(shop.messages(&[]).is_empty());
}

#[test]
fn the_messages_of_a_session_are_worked_off_in_their_order() {
    let shop = Shop::open(&["--sessions"]);
    for (session, body) in [("a", "1"), ("b", "1"), ("a", "2"), ("b", "2"), ("a", "3")] {
        shop.ok(&["send", "orders", body, "--session", session]);
    }
    let script = "read n; echo $n >> \"of-$BELLWETHER_SESSION\"";
    let (code, _, error) = shop.work_off(&["--session", "--concurrency", "2"], script);
    assert_eq!(code, 0, "{error}");
    assert_eq!((shop.read("of-a").as_str(), shop.read("of-b").as_str()), ("1\n2\n3\n", "1\n2\n"));
}

#[test]
fn it_works_on_a_folder_too() {
    let shop = Shop::folder();
    shop.ok(&["send", "orders", "one", "--create", "--data", "store"]);
    let (code, said, error) = shop.work_off(&["--data", "store"], "cat");
    assert_eq!((code, said.as_str()), (0, "one"), "{error}");
}
