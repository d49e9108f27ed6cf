//! Clients of an earlier version, and of one to come.

use bellwether::wire::accept::{Acceptor, Limits};
use bellwether::wire::frame::put_frame;
use bellwether::wire::{Goodbye, Hello, Kind, MAGIC, VERSION, VERSION_MIN, Welcome, Why};
use bellwether::{Bellwether, Open, VirtualClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_util::sync::CancellationToken;

use crate::kept;

/// A client's end of a connection to a new store in memory.
async fn connect() -> (Bellwether, DuplexStream) {
    let store = Open::new("memory:").clock(VirtualClock::new()).open().await.unwrap();
    let acceptor = Acceptor::new(&store, Limits::default()).unwrap();
    let (client, server) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move { acceptor.serve(server, CancellationToken::new()).await });
    (store, client)
}

async fn hear(client: &mut DuplexStream, bytes: usize) -> Vec<u8> {
    let mut heard = vec![0; bytes];
    client.read_exact(&mut heard).await.unwrap();
    heard
}

/// The first answer: magic, length, kind and what stands in the frame.
async fn first_answer(client: &mut DuplexStream) -> (u8, Vec<u8>) {
    let head = hear(client, 12).await;
    assert_eq!(head[..8], *MAGIC);
    let len = u32::from_le_bytes(head[8..].try_into().unwrap());
    let frame = hear(client, len as usize).await;
    (frame[0], frame[1..].to_vec())
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// What was recorded is said again, and answered with the same bytes: only the welcome may name
/// another program and more limits.
#[tokio::test]
async fn a_client_of_every_version_that_is_spoken_is_answered_as_it_was() {
    for version in VERSION_MIN..=VERSION {
        let text = std::fs::read_to_string(kept(&format!("wire-{version}.txt"))).unwrap();
        let (store, mut client) = connect().await;
        let mut answers = 0;
        for line in text.lines() {
            match line.split_at(2) {
                ("> ", said) => client.write_all(&bytes(said)).await.unwrap(),
                ("< ", _) if answers == 0 => {
                    let (kind, welcome) = first_answer(&mut client).await;
                    assert_eq!(kind, Kind::Welcome as u8);
                    assert_eq!(Welcome::get(&welcome).unwrap().version, version);
                    answers += 1;
                }
                ("< ", expected) => {
                    let expected = bytes(expected);
                    let heard = hear(&mut client, expected.len()).await;
                    assert_eq!(heard, expected, "version {version}, answer {answers}");
                    answers += 1;
                }
                _ => assert!(line.starts_with('#'), "{line}"),
            }
        }
        assert!(answers > 5, "so little was recorded of version {version}");
        store.close().await;
    }
}

async fn greet(versions: (u16, u16)) -> (u8, Vec<u8>) {
    let (store, mut client) = connect().await;
    let hello = Hello {
        versions,
        name: "from elsewhere".into(),
        credential: String::new(),
        process: String::new(),
    };
    let mut said = MAGIC.to_vec();
    put_frame(Kind::Hello, &mut said, |out| {
        hello.put(out);
        // A later version may say more.
        out.extend_from_slice(b"\x05hello");
    });
    client.write_all(&said).await.unwrap();
    let answer = first_answer(&mut client).await;
    store.close().await;
    answer
}

#[tokio::test]
async fn a_newer_client_is_spoken_to_in_the_newest_version_of_both() {
    let (kind, welcome) = greet((VERSION_MIN, VERSION + 3)).await;
    assert_eq!(kind, Kind::Welcome as u8);
    assert_eq!(Welcome::get(&welcome).unwrap().version, VERSION);
}

#[tokio::test]
async fn who_speaks_no_version_of_ours_is_told_which_there_are_and_who_must_act() {
    for versions in [(VERSION + 1, VERSION + 3), (0, VERSION_MIN - 1)] {
        let (kind, goodbye) = greet(versions).await;
        assert_eq!(kind, Kind::Goodbye as u8);
        let goodbye = Goodbye::get(&goodbye).unwrap();
        assert_eq!(goodbye.why, Why::Version);
        for words in [
            format!("versions {} to {}", versions.0, versions.1),
            format!("{VERSION_MIN} to {VERSION}"),
            "upgrade the older side".to_owned(),
        ] {
            assert!(goodbye.text.contains(&words), "{}", goodbye.text);
        }
    }
}
