use bellwether_core::chance::Chance;
use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

const SECRET: &str = "a secret of sixteen bytes";

fn hello() -> Hello {
    Hello {
        fleet: "orders".to_owned(),
        address: "127.0.0.1:7405".to_owned(),
        config: Config {
            me: FleetId(u64::MAX),
            life: 1 << 40,
            strategy: Strategy::Ring,
            majority_of: Some(5),
            beat_ms: 500,
            silence_ms: 2_000,
            hold_ms: 10_000,
        },
    }
}

fn every_frame() -> Vec<Frame> {
    let (count, seen, reign, number, id) = (300, 7, u64::MAX, 1 << 50, FleetId(9));
    let words = [
        Word::Beat { count, claim: Claim::None, seen },
        Word::Beat { count, claim: Claim::Asking, seen },
        Word::Beat { count, claim: Claim::Leading(reign), seen },
        Word::Support { life: 4, count, seen },
        Word::Farewell,
        Word::Election,
        Word::Answer,
        Word::Coordinator { reign },
        Word::Token { number, candidate: id, hops: u32::MAX },
        Word::Elected { number, leader: id, reign, hops: 3 },
        Word::Received { number },
    ];
    let mut frames: Vec<Frame> = words.into_iter().map(Frame::Word).collect();
    frames.push(Frame::Hello(Box::new(hello())));
    frames.push(Frame::Members(vec![String::new(), "[::1]:9".to_owned()]));
    frames
}

#[test]
fn every_frame_is_read_as_it_was_written() {
    for frame in every_frame() {
        let mut bytes = Vec::new();
        encode(&frame, &mut bytes);
        assert_eq!(decode(&bytes), Ok(frame));
    }
}

#[test]
fn hostile_bytes_do_no_harm() {
    let mut chance = Chance::new(1);
    for frame in every_frame() {
        let mut good = Vec::new();
        encode(&frame, &mut good);
        for len in 0..good.len() {
            assert!(decode(&good[..len]).is_err(), "{frame:?} cut to {len} bytes");
        }
        good.push(0);
        assert!(decode(&good).is_err(), "{frame:?} with a byte too many");
        for _ in 0..2_000 {
            let mut bytes = good.clone();
            for _ in 0..=chance.below(3) {
                let at = chance.below(bytes.len() as u64) as usize;
                bytes[at] = chance.bits() as u8;
            }
            // What is read of it is written again in the same bytes, or it is refused.
            if let Ok(read) = decode(&bytes) {
                let mut again = Vec::new();
                encode(&read, &mut again);
                assert_eq!(again, bytes);
            }
        }
    }
    let mut many = vec![2, 0xff, 0xff, 3];
    many.resize(FRAME_BYTES_MAX, 0);
    assert!(decode(&many).is_err(), "more members than a fleet can have");
}

async fn pair(ours: &str, theirs: &str) -> Result<[(Seals, DuplexStream); 2], String> {
    let (mut a, mut b) = duplex(1 << 16);
    let caller = Seals::open(&mut a, Side::Caller, ours, [1; 16]);
    let called = Seals::open(&mut b, Side::Called, theirs, [2; 16]);
    let (caller, called) = tokio::join!(caller, called);
    Ok([(caller?, a), (called?, b)])
}

#[tokio::test]
async fn a_sealed_frame_cannot_be_changed_repeated_or_sent_back() {
    let frame = Frame::Word(Word::Coordinator { reign: 3 });
    for secret in ["", SECRET] {
        let [(mut caller, mut a), (mut called, mut b)] = pair(secret, secret).await.unwrap();
        for _ in 0..2 {
            caller.write(&mut a, &frame).await.unwrap();
            assert_eq!(called.read(&mut b).await, Ok(frame.clone()));
            called.write(&mut b, &frame).await.unwrap();
            assert_eq!(caller.read(&mut a).await, Ok(frame.clone()));
        }
    }
    let mut bytes = Vec::new();
    let [(mut caller, _a), _] = pair(SECRET, SECRET).await.unwrap();
    caller.write(&mut bytes, &frame).await.unwrap();
    for at in 2..bytes.len() {
        let [_, (mut called, _b)] = pair(SECRET, SECRET).await.unwrap();
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(called.read(&mut &changed[..]).await.is_err(), "byte {at} was changed");
    }
    let [(mut sender, _a), (mut called, _b)] = pair(SECRET, SECRET).await.unwrap();
    let twice = [&bytes[..], &bytes[..]].concat();
    let mut twice = &twice[..];
    assert_eq!(called.read(&mut twice).await, Ok(frame.clone()));
    assert!(called.read(&mut twice).await.is_err(), "it was repeated");
    assert!(sender.read(&mut &bytes[..]).await.is_err(), "it was sent back");
}

#[tokio::test]
async fn strangers_are_told_apart() {
    let wrong = pair(SECRET, "").await.unwrap_err();
    assert!(wrong.contains("one side has a secret"), "{wrong}");
    let (mut a, mut b) = duplex(64);
    b.write_all(b"GET / HTTP/1.1\r\n\r\n\r\n").await.unwrap();
    let wrong = Seals::open(&mut a, Side::Called, "", [0; 16]).await.unwrap_err();
    assert!(wrong.contains("no member of a fleet"), "{wrong}");
    // Another secret: the first sealed frame is not believed.
    let [(mut caller, mut a), (mut called, mut b)] =
        pair(SECRET, "quite another one").await.unwrap();
    caller.write(&mut a, &Frame::Word(Word::Farewell)).await.unwrap();
    assert!(called.read(&mut b).await.unwrap_err().contains("secret is not ours"));
    let mut long = &[0xff, 0xff, 0][..];
    assert!(called.read(&mut long).await.unwrap_err().contains("longer than"));
}

#[test]
fn what_members_must_agree_on_is_named() {
    let ours = hello();
    assert_eq!(ours.differs(&ours.clone()), None);
    let mut theirs = hello();
    theirs.config.me = FleetId(1);
    theirs.config.life = 2;
    assert_eq!(ours.differs(&theirs), None);
    theirs.config.majority_of = None;
    let why = ours.differs(&theirs).unwrap();
    assert_eq!(why, "its majority_of is None and ours is Some(5); all members need the same");
}
