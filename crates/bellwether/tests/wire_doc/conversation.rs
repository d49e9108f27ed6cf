//! The conversation on the page, held with a server.

use bellwether::core::codec::encode_command;
use bellwether::core::command::{
    Acquire, Command, Disposition, LeaseKind, Loss, Receive, ReceiveMode, Request, Settlement,
};
use bellwether::core::few::Few;
use bellwether::core::message::NewMessage;
use bellwether::core::name::{
    DeliveryNumber, Incarnation, LeaseId, LeaseName, LockToken, MemberId, MemberSlot, Part,
    QueueName, QueuePath, RequestNumber, SequenceNumber,
};
use bellwether::core::settings::{
    Durability, Failures, FailuresPatch, QueueSettings, SettingsPatch, Status,
};
use bellwether::engine::Call;
use bellwether::message;
use bellwether::wire::accept::{Acceptor, Ended, Limits};
use bellwether::wire::call::put_call;
use bellwether::wire::frame::put_frame;
use bellwether::wire::parts::put_parts;
use bellwether::wire::{Goodbye, Hello, Kind, MAGIC, Welcome, Why};
use bellwether::{Open, VirtualClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_util::sync::CancellationToken;

use crate::page::{Page, hex};
use crate::samples::every;
use crate::{assert_tags, bytes};

/// What the client says, as the library writes it, by the names on the page.
fn said() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let orders = || QueueName::new("orders").unwrap();
    let content = message::encode(&crate::coffees());
    let key = (0x6265_6c6c_7765_7468, 0x6572_2d69_642d_3031);
    let new = NewMessage {
        content_bytes: content.len() as u32,
        id_hash: message::id_hash(key, "order-17"),
        ttl_ms: Some(3_600_000),
        ..NewMessage::default()
    };
    let receive = Receive {
        from: QueuePath::main(orders()),
        session: None,
        max: 10,
        mode: ReceiveMode::PeekLock,
        wait_ms: 20_000,
        lock_ms: None,
    };
    let (sequence, number) = (SequenceNumber(1), DeliveryNumber(1));
    let token = LockToken { sequence, number, incarnation: Incarnation(1) };
    let settlement = Settlement { token, disposition: Disposition::Complete, overlay: None };
    let settle =
        || Command::Settle { from: QueuePath::main(orders()), settlements: Few::One(settlement) };
    let id = MemberId(0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100);
    let join = Command::Join { id, metadata: "a client".into(), ttl_ms: 30_000 };
    let settings = Box::new(QueueSettings::default());
    let create = Command::CreateQueue { queue: orders(), settings };
    let send = Command::Send { queue: orders(), messages: Few::One(new) };
    vec![
        ("client: hello", "server: welcome", hello()),
        ("client: join", "server: joined", ask(1, 0, 0, join, &[])),
        ("client: create", "server: created", ask(2, 2, 1, create, &[])),
        ("client: send", "server: sent", ask(3, 2, 2, send, &[&content])),
        ("client: receive", "server: received", ask(4, 2, 3, Command::Receive(receive), &[])),
        ("client: complete", "server: settled", ask(5, 2, 4, settle(), &[])),
        ("client: complete again", "server: settled again", ask(6, 2, 4, settle(), &[])),
        ("client: complete anew", "server: lock lost", ask(7, 2, 5, settle(), &[])),
        ("client: leave", "server: left", ask(8, 2, 6, Command::Leave, &[])),
        ("client: goodbye", "server: goodbye", goodbye()),
    ]
}

fn hello() -> Vec<u8> {
    let hello = Hello {
        versions: (1, 1),
        name: "a client".into(),
        credential: String::new(),
        process: String::new(),
    };
    let mut out = MAGIC.to_vec();
    put_frame(Kind::Hello, &mut out, |out| hello.put(out));
    out
}

fn goodbye() -> Vec<u8> {
    let mut out = Vec::new();
    let last = Goodbye { why: Why::Done, text: String::new() };
    put_frame(Kind::Goodbye, &mut out, |out| last.put(out));
    out
}

fn ask(ask: u64, member: u32, number: u64, command: Command, contents: &[&[u8]]) -> Vec<u8> {
    let number = RequestNumber(number);
    let request = Request {
        member: MemberSlot(member),
        number,
        answered_below: number,
        command,
        fence: None,
    };
    let contents = contents.iter().map(|content| content.to_vec().into()).collect();
    let (mut whole, mut out) = (Vec::new(), Vec::new());
    put_call(&Call { request, contents }, &mut whole);
    put_parts(Kind::Ask, ask, &whole, &mut out);
    out
}

/// One frame as it came, with its length.
async fn frame(stream: &mut DuplexStream) -> Vec<u8> {
    let mut frame = vec![0; 4];
    stream.read_exact(&mut frame).await.unwrap();
    let len = u32::from_le_bytes(frame[..4].try_into().unwrap());
    frame.resize(4 + len as usize, 0);
    stream.read_exact(&mut frame[4..]).await.unwrap();
    frame
}

#[tokio::test]
async fn a_client_that_says_what_the_page_says_is_answered_what_the_page_says() {
    let page = Page::read();
    let store = Open::new("memory:").clock(VirtualClock::new()).open().await.unwrap();
    let acceptor = Acceptor::new(&store, Limits::default()).unwrap();
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let serving =
        tokio::spawn(async move { acceptor.serve(server, CancellationToken::new()).await });
    let mut magic = vec![0; 8];
    for (client_says, server_says, by_library) in said() {
        let by_page = page.bytes(client_says);
        assert_eq!(hex(&by_library), hex(&by_page), "{client_says}");
        client.write_all(&by_page).await.unwrap();
        let mut expected = page.bytes(server_says);
        if server_says == "server: welcome" {
            client.read_exact(&mut magic).await.unwrap();
            assert_eq!(magic, expected[..8]);
            // The server's name has its version in it, which the page need not follow.
            let welcome = |frame: &[u8]| {
                assert_eq!(frame[4], Kind::Welcome as u8);
                Welcome { name: String::new(), ..Welcome::get(&frame[5..]).unwrap() }
            };
            expected.drain(..8);
            assert_eq!(welcome(&frame(&mut client).await), welcome(&expected));
            continue;
        }
        assert_eq!(hex(&frame(&mut client).await), hex(&expected), "{server_says}");
    }
    let ended = serving.await.unwrap();
    assert!(matches!(ended, Ended::SentAway(Goodbye { why: Why::Done, .. })), "{ended:?}");
    store.close().await;
}

/// Choices without fields, each found in the last bytes of a command that ends with it.
pub(crate) fn assert_short_choices(page: &Page) {
    let queue = || QueueName::new("q").unwrap();
    let encoded = |command: &Command| bytes(command, encode_command);
    let parts = every!(Part { Main => Part::Main, Dead => Part::Dead });
    let part = |part| {
        let from = QueuePath { queue: queue(), part };
        encoded(&Command::Purge { from, before: None, max: 1 })[3]
    };
    assert_tags(page, "Part", parts.into_iter().map(|(name, p)| (name, part(p))));
    let modes = every!(ReceiveMode {
        PeekLock => ReceiveMode::PeekLock, ReceiveAndDelete => ReceiveMode::ReceiveAndDelete,
    });
    let mode = |mode| {
        let (from, session, sequences) = (QueuePath::main(queue()), None, Vec::new());
        *encoded(&Command::ReceiveDeferred { from, session, sequences, mode }).last().unwrap()
    };
    assert_tags(page, "ReceiveMode", modes.into_iter().map(|(name, m)| (name, mode(m))));
    let durabilities = every!(Durability {
        Flushed => Durability::Flushed, Relaxed => Durability::Relaxed,
    });
    let update = |patch: SettingsPatch| {
        encoded(&Command::UpdateQueue { queue: queue(), patch: patch.into() })
    };
    let durability = |durability| {
        let patch = SettingsPatch { durability: Some(durability), ..SettingsPatch::default() };
        *update(patch).last().unwrap()
    };
    // With what it does about failures behind it, where that is not as usual.
    let failures = Failures { crashes_max: 1, ..Failures::default() };
    let create = |durability, failures| {
        let settings = QueueSettings { durability, failures, ..QueueSettings::default() };
        encoded(&Command::CreateQueue { queue: queue(), settings: settings.into() })
    };
    let at = create(Durability::Flushed, Failures::default()).len() - 1;
    let unusual = [
        ("FlushedFailures", create(Durability::Flushed, failures)[at]),
        ("RelaxedFailures", create(Durability::Relaxed, failures)[at]),
    ];
    let durabilities = durabilities.into_iter().map(|(n, d)| (n, durability(d)));
    assert_tags(page, "Durability", durabilities.chain(unusual));
    let changes = FailuresPatch { crashes_max: Some(1), ..FailuresPatch::default() };
    let at = update(SettingsPatch::default()).len() - 1;
    let change = |durability, failures| {
        update(SettingsPatch { durability, failures, ..SettingsPatch::default() })[at]
    };
    let none = FailuresPatch::default();
    let kinds = [
        ("Neither", change(None, none)),
        ("Durability", change(Some(Durability::Flushed), none)),
        ("Failures", change(None, changes)),
        ("Both", change(Some(Durability::Flushed), changes)),
    ];
    assert_tags(page, "DurabilityChange", kinds);
    let statuses = every!(Status {
        Active => Status::Active, SendDisabled => Status::SendDisabled,
        ReceiveDisabled => Status::ReceiveDisabled, Disabled => Status::Disabled,
    });
    let status = |status| {
        let patch = SettingsPatch { status: Some(status), ..SettingsPatch::default() };
        // Behind tag, name, eight settings that stay, and the 1 of this one.
        update(patch)[12]
    };
    assert_tags(page, "Status", statuses.into_iter().map(|(name, s)| (name, status(s))));
    let kinds = every!(LeaseKind {
        Bound => LeaseKind::Bound, Standing => LeaseKind::Standing, Connected => LeaseKind::Connected,
    });
    let kind = |kind, slots| {
        let (lease, metadata) = (LeaseName::new("l").unwrap(), String::new());
        let (id, ttl_ms) = (LeaseId(0), 1);
        let acquire = Acquire { lease, id, kind, ttl_ms, metadata, wait_ms: 0, priority: 0, slots };
        encoded(&Command::Acquire(acquire))[19]
    };
    let slotted = every!(LeaseKind {
        Bound => ("BoundSlots", LeaseKind::Bound),
        Standing => ("StandingSlots", LeaseKind::Standing),
        Connected => ("ConnectedSlots", LeaseKind::Connected),
    });
    let slotted = slotted.into_iter().map(|(_, (name, k))| (name, kind(k, 2)));
    let kinds = kinds.into_iter().map(|(name, k)| (name, kind(k, 1))).chain(slotted);
    assert_tags(page, "LeaseKind", kinds);
    let losses = every!(Loss { Died => Loss::Died, Disconnected => Loss::Disconnected });
    let loss = |how| encoded(&Command::Lost { how })[1];
    assert_tags(page, "Loss", losses.into_iter().map(|(name, how)| (name, loss(how))));
}
