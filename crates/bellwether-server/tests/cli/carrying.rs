//! Out of one store and into another: nothing is lost on the way.

use std::time::Duration;

use bellwether::core::name::QueueName;
use bellwether::core::time::WallTime;
use bellwether::message::{BodyKind, Value};
use bellwether::{
    Bellwether, Durability, Exported, Key, Message, Order, OrderPatch, Overflow, Queue,
    QueueSettings, Rate, SequenceNumber, SettingsPatch, Status, VirtualClock,
};
use bytes::Bytes;
use serde_json::Value as Json;

use super::store::Store;

const DECADES: Duration = Duration::from_secs(80 * 365 * 24 * 3600);

fn everything() -> Message {
    let values = [
        Value::Null,
        Value::Bool(false),
        Value::Ubyte(u8::MAX),
        Value::Byte(i8::MIN),
        Value::Ushort(u16::MAX),
        Value::Short(i16::MIN),
        Value::Uint(u32::MAX),
        Value::Int(i32::MIN),
        Value::Ulong(u64::MAX),
        Value::Long(i64::MIN),
        Value::Float(f32::NAN),
        Value::Double(-0.0),
        Value::Char('\u{1f980}'),
        Value::Timestamp(-1),
        Value::Uuid([0xab; 16]),
        Value::Binary(Bytes::from_static(b"\x00\xff")),
        Value::String("12".into()),
        Value::Symbol("x".into()),
    ];
    let mut message = Message::new("body \u{1f980} \x07")
        .id("id")
        .subject("subject")
        .correlation_id("correlation")
        .to("to")
        .reply_to("reply")
        .reply_to_session("reply session")
        .content_type("text/plain")
        .ttl(DECADES);
    for (nth, value) in values.into_iter().enumerate() {
        message = message.property(format!("property {nth}"), value);
    }
    message
}

async fn next(queue: &Queue) -> bellwether::Delivery {
    // A relaxed queue answers before it shows what was sent.
    queue.receive().wait(DECADES / 100_000).one().await.unwrap().unwrap()
}

/// Every state and every kind of body and of death, in the year 2020.
async fn fill(bw: &Bellwether, clock: &VirtualClock) {
    let settings = QueueSettings {
        lock_ms: 30_000,
        deliveries_max: 1,
        ttl_ms: Some(DECADES.as_millis() as u64),
        dead_letter_expired: true,
        duplicate_window_ms: Some(60_000),
        order: Order {
            ageing_ms: None,
            key_rate: Some(Rate { messages: 1000, per_ms: 10 }),
            key_weights: vec![(Key::new("gold").unwrap(), 4)],
            messages_max: Some(10_000),
            overflow: Overflow::DropOldest,
            ..Order::default()
        },
        size_bytes_max: 1 << 30,
        message_bytes_max: 1 << 20,
        durability: Durability::Relaxed,
        ..QueueSettings::default()
    };
    let queue = bw.create_queue("kinds", settings).await.unwrap();
    queue.send(Message::new("expires").ttl(Duration::from_secs(60))).await.unwrap();
    clock.advance(Duration::from_secs(120));
    queue.send("crashes").await.unwrap();
    next(&queue).await.keep();
    clock.advance(Duration::from_secs(60));
    while queue.info().await.unwrap().counts.dead_letters < 2 {
        tokio::task::yield_now().await;
    }
    queue.send("dies").await.unwrap();
    let mut dies = next(&queue).await;
    dies.set_property("tries", 1);
    dies.dead_letter("Bad", "no address").await.unwrap();
    queue.send("aside").await.unwrap();
    next(&queue).await.defer().await.unwrap();
    queue
        .update(SettingsPatch { deliveries_max: Some(9), ..SettingsPatch::default() })
        .await
        .unwrap();
    queue.send("again").await.unwrap();
    next(&queue).await.abandon_after(DECADES).await.unwrap();
    let later = Message::new("later").priority(2).key("tenant-4");
    queue.send(later.scheduled_at(WallTime(4_102_444_800_000))).await.unwrap();
    queue.send(everything()).await.unwrap();
    for (kind, body) in [(BodyKind::Value, "\u{0040}"), (BodyKind::Sequence, "\u{0045}")] {
        queue.send(Message::new(body).body_kind(kind)).await.unwrap();
    }
    queue.send(&b"\xff\x00"[..]).await.unwrap();
    queue.send("held").await.unwrap();
    let status = Some(Status::SendDisabled);
    queue.update(SettingsPatch { status, ..SettingsPatch::default() }).await.unwrap();

    let sessions = QueueSettings { sessions: true, ..QueueSettings::default() };
    let mail = bw.create_queue("mail", sessions).await.unwrap();
    mail.send(Message::new("one").session("a")).await.unwrap();
    let session = mail.accept_session().named("a").await.unwrap();
    session.set_state(Some(Bytes::from_static(b"half\xff"))).await.unwrap();
    session.close().await.unwrap();
    let forwards = bw.create_queue("a-forwards", QueueSettings::default()).await.unwrap();
    forwards.send(Message::new("waits").scheduled_at(WallTime(4_102_444_800_000))).await.unwrap();
    let to = |name: &str| Some(Some(QueueName::new(name).unwrap()));
    let patch = SettingsPatch {
        forward_to: to("mail"),
        forward_dead_letters_to: to("kinds"),
        order: OrderPatch {
            messages_max: Some(Some(100)),
            overflow: Some(Overflow::SpillTo(QueueName::new("kinds").unwrap())),
            ..OrderPatch::default()
        },
        ..SettingsPatch::default()
    };
    forwards.update(patch).await.unwrap();
}

fn filled() -> Store {
    let store = Store::none();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let clock = VirtualClock::new();
        let address = format!("file:{}", store.path().display());
        let bw = Bellwether::open_with_clock(address, clock.clone()).await.unwrap();
        fill(&bw, &clock).await;
        bw.close().await;
    });
    store
}

/// The lines of an export, without what must differ: when it was made, and numbers.
pub fn lines(export: &str) -> Vec<Json> {
    let mut lines: Vec<Json> =
        export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &mut lines {
        if let Some(message) = line.get_mut("message") {
            assert!(message.as_object_mut().unwrap().remove("sequence").is_some());
        }
        if let Some(export) = line.get_mut("export") {
            assert!(export.as_object_mut().unwrap().remove("at").is_some());
        }
    }
    lines
}

async fn exported(queue: &Queue) -> Vec<Exported> {
    let found = queue.peek(SequenceNumber(0), 100).await.unwrap();
    found.iter().map(|received| Exported::of(received).unwrap()).collect()
}

#[test]
fn everything_survives_the_way_from_store_to_store() {
    let (from, to) = (filled(), Store::none());
    let export = from.ok(&["export"]);
    let imported = to.feed(&["import", "--create"], export.as_bytes());
    assert_eq!((imported.code, imported.stderr.as_str()), (0, ""));
    assert_eq!(imported.stdout, "imported 3 queues, 13 messages, 1 session state\n");
    let again = to.ok(&["export"]);
    assert_eq!(lines(&again), lines(&export));

    // Not only the words are the same.
    let mut before = Vec::new();
    from.inside(async |bw| {
        for name in ["a-forwards", "kinds", "mail"] {
            let queue = bw.queue(name).unwrap();
            let settings = queue.info().await.unwrap().settings;
            before.push((settings, exported(&queue).await, exported(&queue.dead_letters()).await));
        }
    });
    to.inside(async |bw| {
        for (name, before) in ["a-forwards", "kinds", "mail"].into_iter().zip(&before) {
            let queue = bw.queue(name).unwrap();
            let settings = queue.info().await.unwrap().settings;
            let after = (settings, exported(&queue).await, exported(&queue.dead_letters()).await);
            assert_eq!(after, *before, "{name}");
        }
        let (_, state) = bw.queue("mail").unwrap().session("a").await.unwrap().unwrap();
        assert_eq!(state.as_deref(), Some(&b"half\xff"[..]));
        let kinds = bw.queue("kinds").unwrap();
        let dead = kinds.dead_letters().peek(SequenceNumber(0), 9).await.unwrap();
        let reasons: Vec<_> = dead.iter().map(|m| m.dead_letter_reason().unwrap()).collect();
        assert_eq!(reasons, ["TTLExpiredException", "MaxDeliveryCountExceeded", "Bad"]);
        assert_eq!(dead[2].dead_letter_description(), Some("no address"));
        assert_eq!(dead[2].message().unwrap().properties["tries"], 1.into());
        let main = kinds.peek(SequenceNumber(0), 99).await.unwrap();
        let full = main.iter().map(|m| m.message().unwrap()).find(|m| m.id.is_some()).unwrap();
        assert_eq!(full.properties, everything().properties);
        assert_eq!(full.body(), everything().body());
    });
}

#[test]
fn chosen_queues_are_exported_and_a_dry_run_changes_nothing() {
    let (from, to) = (filled(), Store::with("orders"));
    let export = from.ok(&["export", "mail"]);
    assert_eq!(export.lines().count(), 5, "head, queue, session, message, end");
    let tried = to.feed(&["import", "--dry-run", "--output", "json"], export.as_bytes());
    let told: Json = serde_json::from_str(&tried.stdout).unwrap();
    assert_eq!((&told["messages"], &told["dry_run"]), (&Json::from(1), &Json::from(true)));
    to.fails(&["queue", "show", "mail"], 66, "there is no queue");
    from.fails(&["export", "mial"], 66, "did you mean \"mail\"?");
}

#[test]
fn what_is_no_export_is_refused_by_line() {
    let to = Store::with("orders");
    let whole = Store::with("orders").ok(&["export"]);
    let head = whole.lines().next().unwrap();
    let message =
        r#"{"message":{"queue":"orders","state":"ready","enqueued_at":"2026-01-01","body":""}}"#;
    for (input, why) in [
        ("hello".into(), "line 1: this is not JSON"),
        (message.into(), "line 1: an export begins with"),
        (format!("{head}\n\n{{\"what\":{{}}}}"), "line 3: nothing is known of \"what\""),
        (format!("{head}\n[]"), "line 2: a line is an object with one field"),
        (format!("{head}\n{{\"message\":{{}}}}"), "line 2: message: \"queue\" is missing"),
        (head.into(), "the last line is missing"),
        (r#"{"export":{"version":99}}"#.into(), "line 1: version 99 was written by a newer"),
    ] {
        let ran = to.feed(&["import"], input.as_bytes());
        assert_eq!((ran.code, ran.stdout.as_str()), (65, ""), "{input}");
        assert!(ran.stderr.contains(why), "{input}: {}", ran.stderr);
    }
    let cut = to.feed(&["import"], format!("{head}\n{message}\n").as_bytes());
    assert!(cut.stderr.contains("1 message imported before this"), "{}", cut.stderr);
}
