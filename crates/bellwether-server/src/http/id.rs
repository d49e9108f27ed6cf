//! 128-bit ids and tokens as texts.

use bellwether::core::name::{DeliveryNumber, Incarnation, LockToken, SessionId, SessionToken};

/// The text of an id: 32 hexadecimal digits.
pub(crate) fn text(id: u128) -> String {
    format!("{id:032x}")
}

/// Reads an id: 32 hexadecimal digits, or the same as a UUID with hyphens.
pub(crate) fn parse(text: &str) -> Option<u128> {
    let is_uuid = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.as_bytes()[*at] == b'-');
    let digits = if is_uuid { text.replace('-', "") } else { text.to_owned() };
    let is_hex = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| u128::from_str_radix(&digits, 16).ok())?
}

/// The text of a UUID: with hyphens.
pub(crate) fn uuid(bytes: [u8; 16]) -> String {
    let digits = text(u128::from_be_bytes(bytes));
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

/// An id that nobody else has.
pub(crate) fn random() -> u128 {
    use std::hash::{BuildHasher as _, RandomState};
    // Each is keyed anew from the system's randomness, and counts on.
    let half = || u128::from(RandomState::new().hash_one(()));
    (half() << 64) | half()
}

/// The text of a lock token; opaque to whoever holds it.
pub(crate) fn lock_token(token: LockToken) -> String {
    text(token.to_u128())
}

/// Reads a lock token.
pub(crate) fn parse_lock_token(text: &str) -> Option<LockToken> {
    parse(text).map(LockToken::from_u128)
}

/// The text of a session's token; the session's name stands beside it.
pub(crate) fn session_token(token: &SessionToken) -> String {
    format!("{:08x}{:08x}", token.number.0, token.incarnation.0)
}

/// Reads a session's token.
pub(crate) fn parse_session_token(session: SessionId, text: &str) -> Option<SessionToken> {
    if text.len() != 16 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let number = DeliveryNumber(u32::from_str_radix(&text[..8], 16).ok()?);
    let incarnation = Incarnation(u32::from_str_radix(&text[8..], 16).ok()?);
    Some(SessionToken { session, number, incarnation })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellwether::core::name::SequenceNumber;

    #[test]
    fn ids_and_tokens_read_back_as_they_were_written() {
        let token = LockToken {
            sequence: SequenceNumber(u64::MAX),
            number: DeliveryNumber(7),
            incarnation: Incarnation(u32::MAX),
        };
        assert_eq!(parse_lock_token(&lock_token(token)), Some(token));
        let session = SessionId::new("a").unwrap();
        let (number, incarnation) = (DeliveryNumber(3), Incarnation(9));
        let token = SessionToken { session: session.clone(), number, incarnation };
        assert_eq!(parse_session_token(session.clone(), &session_token(&token)), Some(token));
        let bytes = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10_u128;
        let uuid = uuid(bytes.to_be_bytes());
        assert_eq!(uuid, "01020304-0506-0708-090a-0b0c0d0e0f10");
        assert_eq!(parse(&uuid), Some(bytes));
        assert_eq!(parse(&text(bytes)), Some(bytes));
        for bad in ["", "0102", "g1020304050607080900a0b0c0d0e0f1", "é".repeat(18).as_str()] {
            assert_eq!(parse(bad), None, "{bad}");
            assert_eq!(parse_session_token(session.clone(), bad), None, "{bad}");
        }
    }

    #[test]
    fn random_ids_differ() {
        assert_ne!(random(), random());
    }
}
