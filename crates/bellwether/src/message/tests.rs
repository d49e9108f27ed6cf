//! What is in a journal stays readable, and what is not a message is refused.

mod random;

use bellwether_core::chance::Chance;

use self::random::{bytes, message, overlay};
use super::*;

/// One of everything.
fn full_message() -> Message {
    Message::new("a body")
        .id("order-17")
        .session("customer-4")
        .subject("order")
        .correlation_id("basket-3")
        .to("warehouse")
        .reply_to("answers")
        .reply_to_session("customer-4")
        .content_type("text/plain")
        .property("null", Value::Null)
        .property("no", false)
        .property("yes", true)
        .property("ubyte", 200_u8)
        .property("byte", -2_i8)
        .property("ushort", 60_000_u16)
        .property("short", -300_i16)
        .property("uint", 4_000_000_000_u32)
        .property("int", -70_000)
        .property("ulong", u64::MAX)
        .property("long", i64::MIN)
        .property("float", 1.5_f32)
        .property("double", -0.0_f64)
        .property("char", '\u{1f514}')
        .property("timestamp", WallTime(1_767_258_000_000))
        .property("uuid", Value::Uuid(*b"0123456789abcdef"))
        .property("binary", vec![0, 255])
        .property("string", "grüß")
        .property("symbol", Value::Symbol("amqp:x".into()))
        .ttl(Duration::from_mins(1))
        .scheduled_at(WallTime(1_767_261_600_000))
        .body_kind(BodyKind::Value)
}

fn full_overlay() -> Overlay {
    Overlay::default()
        .property("tries", 3)
        .remove("hint")
        .reason("Invalid message")
        .description("The message id is invalid")
}

/// What of a message is in its content.
fn kept(message: Message) -> Message {
    Message { session: None, ttl: None, scheduled_at: None, ..message }
}

fn unhex(hex: &str) -> Bytes {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

// Never change the bytes of the next four: they are in somebody's journal. What is new gets a
// new line.

const MESSAGE_HEX: &str = "\
    0101086f726465722d313702056f7264657203086261736b65742d33040977617265686f7573650507616e7377\
    657273060a637573746f6d65722d34070a746578742f706c61696e08130662696e617279110200ff0462797465\
    05fe04636861720e94ea0706646f75626c650d000000000000008005666c6f61740c0000c03f03696e7409dfc5\
    08046c6f6e670bffffffffffffffffff01026e6f02046e756c6c010573686f727407d70406737472696e671206\
    6772c3bcc39f0673796d626f6c1306616d71703a780974696d657374616d700f80aac88cef6605756279746504\
    c80475696e740880d0acf30e05756c6f6e670affffffffffffffffff01067573686f727406e0d4030475756964\
    10303132333435363738396162636465660379657303f16120626f6479";
const OVERLAY_HEX: &str = "\
    01010f496e76616c6964206d6573736167650119546865206d65737361676520696420697320696e76616c6964\
    020468696e74000574726965730906";

#[test]
fn a_message_of_format_1_is_written_and_read_as_ever() {
    assert_eq!(encode(&full_message()), unhex(MESSAGE_HEX));
    assert_eq!(decode(unhex(MESSAGE_HEX)), Ok(kept(full_message())));
}

#[test]
fn an_overlay_of_format_1_is_written_and_read_as_ever() {
    assert_eq!(full_overlay().encode(), unhex(OVERLAY_HEX));
    assert_eq!(Overlay::decode(&unhex(OVERLAY_HEX)), Ok(full_overlay()));
}

#[test]
fn the_kinds_of_body_are_written_and_read_as_ever() {
    for (kind, tag) in [(BodyKind::Data, 0xf0), (BodyKind::Value, 0xf1), (BodyKind::Sequence, 0xf2)]
    {
        let message = Message::new("x").body_kind(kind);
        assert_eq!(encode(&message), [1, tag, b'x'].as_slice());
        assert_eq!(decode(encode(&message)), Ok(message));
    }
}

#[test]
fn a_journaled_id_hash_is_known_again() {
    assert_eq!(id_hash((1, 2), "order-17"), 0xf4c9_a52d_daf7_aff2_6369_1a0b_9295_0fdc);
}

#[test]
fn ids_are_told_apart_and_no_id_is_zero() {
    assert_eq!(id_hash((1, 2), ""), 0);
    assert_ne!(id_hash((1, 2), "a"), id_hash((1, 2), "A"));
    assert_ne!(id_hash((1, 2), "a"), id_hash((2, 1), "a"));
}

#[test]
fn what_is_written_is_read() {
    let mut chance = Chance::new(1);
    for _ in 0..20_000 {
        let message = message(&mut chance);
        assert_eq!(decode(encode(&message)), Ok(message));
        let overlay = overlay(&mut chance);
        assert_eq!(Overlay::decode(&overlay.encode()), Ok(overlay));
    }
}

#[test]
fn a_body_alone_costs_two_bytes() {
    for len in [0, 1, 127, 128, 70_000] {
        assert_eq!(encode(&Message::new(vec![7; len])).len(), len + 2);
    }
}

#[test]
fn a_body_is_not_copied_when_read() {
    let content = encode(&Message::new("a body").id("x"));
    let message = decode(content.clone()).unwrap();
    assert_eq!(message.body().as_ptr_range().end, content.as_ptr_range().end);
}

#[test]
fn a_cut_content_is_refused_up_to_its_body() {
    let mut chance = Chance::new(2);
    for _ in 0..500 {
        let message = message(&mut chance);
        let content = encode(&message);
        let head = content.len() - message.body().len();
        for len in 0..head {
            assert!(decode(content.slice(..len)).is_err(), "{message:?} at {len}");
        }
        // Where the body ends only its frame knows.
        for len in head..content.len() {
            let cut = decode(content.slice(..len)).unwrap();
            assert_eq!(cut.body(), &message.body().slice(..len - head));
        }
    }
}

#[test]
fn a_cut_or_longer_overlay_is_refused() {
    let mut chance = Chance::new(3);
    for _ in 0..500 {
        let overlay = overlay(&mut chance);
        let content = overlay.encode();
        for len in 0..content.len() {
            assert!(Overlay::decode(&content[..len]).is_err(), "{overlay:?} at {len}");
        }
        assert!(Overlay::decode(&[&content[..], &[0]].concat()).is_err());
    }
}

/// Also proves that a message has only one form: what can be read is what would be written.
#[test]
fn random_and_damaged_bytes_are_read_or_refused() {
    let check = |bytes: Vec<u8>| {
        let bytes = Bytes::from(bytes);
        if let Ok(message) = decode(bytes.clone()) {
            assert_eq!(encode(&message), bytes);
        }
        if let Ok(overlay) = Overlay::decode(&bytes) {
            assert_eq!(overlay.encode(), bytes);
        }
    };
    let mut chance = Chance::new(4);
    for _ in 0..50_000 {
        let mut noise = bytes(&mut chance);
        check(noise.clone());
        noise.insert(0, 1);
        check(noise);
        for content in [encode(&message(&mut chance)), overlay(&mut chance).encode()] {
            let mut damaged = content.to_vec();
            damaged[chance.below(content.len() as u64) as usize] ^= 1 << chance.below(8);
            check(damaged);
        }
    }
}

#[test]
fn a_length_that_lies_is_refused() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0x0f];
    for head in [&[1, 1][..], &[1, 8], &[1, 8, 1, 0, 17], &[1, 8, 1, 0, 18]] {
        assert!(decode([head, &huge].concat().into()).is_err());
    }
    assert!(Overlay::decode(&[&[1, 0, 0][..], &huge].concat()).is_err());
}

#[test]
fn fields_out_of_order_twice_or_empty_are_refused() {
    for bytes in [
        &[2, 0xf0][..],                       // another format
        &[1, 2, 0, 1, 0, 0xf0],               // subject before id
        &[1, 1, 0, 1, 0, 0xf0],               // id twice
        &[1, 8, 0, 0xf0],                     // properties, but none
        &[1, 8, 2, 0, 1, 0, 1, 0xf0],         // a property twice
        &[1, 8, 1, 0, 0, 0xf0],               // a removed property, which only overlays know
        &[1, 8, 1, 0, 20, 0xf0],              // a value of an unknown type
        &[1, 8, 1, 0, 6, 128, 128, 4, 0xf0],  // 65536 as a ushort
        &[1, 8, 1, 0, 14, 128, 176, 3, 0xf0], // half a surrogate pair as a char
        &[1, 9, 0, 0xf0],                     // an unknown field
    ] {
        assert!(decode(Bytes::from_static(bytes)).is_err(), "{bytes:?}");
    }
}

#[test]
fn the_later_overlay_wins_key_by_key() {
    let old = Overlay::default()
        .property("kept", 1)
        .property("changed", 1)
        .property("removed", 1)
        .remove("kept away")
        .remove("brought back")
        .reason("old reason")
        .description("old description");
    let new = Overlay::default()
        .property("changed", 2)
        .property("brought back", 2)
        .property("added", 2)
        .remove("removed")
        .reason("new reason");
    let merged = merge_overlays(&old.encode(), &new.encode()).unwrap();
    assert_eq!(
        Overlay::decode(&merged).unwrap(),
        Overlay::default()
            .property("kept", 1)
            .property("changed", 2)
            .property("brought back", 2)
            .property("added", 2)
            .remove("removed")
            .remove("kept away")
            .reason("new reason")
            .description("old description")
    );
}

#[test]
fn merging_is_the_same_as_applying_one_after_the_other() {
    let mut chance = Chance::new(5);
    for _ in 0..5_000 {
        let (old, new) = (overlay(&mut chance), overlay(&mut chance));
        let mut one_by_one = message(&mut chance);
        let mut at_once = one_by_one.clone();
        one_by_one.apply(&old);
        one_by_one.apply(&new);
        let merged = merge_overlays(&old.encode(), &new.encode()).unwrap();
        at_once.apply(&Overlay::decode(&merged).unwrap());
        assert_eq!(at_once, one_by_one);
        // A settlement that is asked again is merged again.
        assert_eq!(merge_overlays(&merged, &new.encode()), Some(merged));
    }
}

#[test]
fn an_unreadable_overlay_is_not_merged() {
    let good = full_overlay().encode();
    for bad in [&b""[..], b"\x02", &good[1..], &good[..good.len() - 1]] {
        assert_eq!(merge_overlays(bad, &good), None);
        assert_eq!(merge_overlays(&good, bad), None);
    }
}

#[test]
fn floats_are_equal_by_their_bits() {
    assert_eq!(Value::from(f64::NAN), f64::NAN.into());
    assert_eq!(Value::from(f32::NAN), f32::NAN.into());
    assert_ne!(Value::from(0.0), Value::from(-0.0));
    assert_ne!(Value::from(1_u8), Value::from(1_i8));
    assert_ne!(Value::from("x"), Value::Symbol("x".into()));
}

#[test]
fn only_data_is_text() {
    let owned = String::from("text");
    for message in [
        Message::new("text"),
        Message::new(&owned),
        Message::new(owned.clone()),
        Message::new(b"text"),
        Message::new(owned.into_bytes()),
        Message::new(Bytes::from_static(b"text")),
    ] {
        assert_eq!(message.text(), Some("text"));
        assert_eq!(message.body_kind(BodyKind::Value).text(), None);
    }
    assert_eq!(Message::new(b"\xff").text(), None);
    assert!(Overlay::default().is_empty() && !full_overlay().is_empty());
}
