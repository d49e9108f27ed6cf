//! What members of a fleet say to each other, in bytes.
//!
//! ```text
//! both, at once      BWF0 or BWF1 (sealed), 16 bytes by chance
//! whoever called     Hello ─► ◄─ Hello, then words and lists of members, one way only
//! a frame            length of the body (u16, little-endian), body, and if sealed 32 bytes of seal
//! ```
//!
//! The seal is an HMAC-SHA256 under a key made of the secret and both sides' chance, over the
//! direction, the number of the frame and its body: a frame cannot be changed, repeated, left out
//! or carried to another connection. What is said is not hidden.

use bellwether_core::codec::{BadBytes, Reader, put_number, put_text};
use bellwether_core::fleet::{Claim, Config, FleetId, Strategy, Word};
use bellwether_core::limits;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The longest body: a full list of members with addresses of common length.
pub(super) const FRAME_BYTES_MAX: usize = 48 * 1024;
/// The longest address: a DNS name and a port.
pub(super) const ADDRESS_BYTES_MAX: usize = 260;

const SEAL_BYTES: usize = 32;
const PLAIN: [u8; 4] = *b"BWF0";
const SEALED: [u8; 4] = *b"BWF1";

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Hello(Box<Hello>),
    Word(Word),
    Members(Vec<String>),
}

/// Who somebody is, and what it must have in common with us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) fleet: String,
    pub(super) config: Config,
    /// Where it is to be called; empty if nowhere.
    pub(super) address: String,
}

impl Hello {
    /// What differs between two that should be members of one fleet.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        let (ours, theirs) = (&self.config, &other.config);
        let differs = |what: &str, ours: String, theirs: String| {
            Some(format!("its {what} is {theirs} and ours is {ours}; all members need the same"))
        };
        let rows = [
            ("fleet", self.fleet.clone(), other.fleet.clone()),
            ("strategy", format!("{:?}", ours.strategy), format!("{:?}", theirs.strategy)),
            ("majority_of", format!("{:?}", ours.majority_of), format!("{:?}", theirs.majority_of)),
            ("beat", ours.beat_ms.to_string(), theirs.beat_ms.to_string()),
            ("silence", ours.silence_ms.to_string(), theirs.silence_ms.to_string()),
            ("hold", ours.hold_ms.to_string(), theirs.hold_ms.to_string()),
        ];
        rows.into_iter().find(|(_, a, b)| a != b).and_then(|(what, a, b)| differs(what, a, b))
    }
}

pub(super) fn encode(frame: &Frame, out: &mut Vec<u8>) {
    match frame {
        Frame::Hello(hello) => {
            out.push(1);
            put_text(&hello.fleet, out);
            put_text(&hello.address, out);
            let config = &hello.config;
            out.push(match config.strategy {
                Strategy::LowestId => 1,
                Strategy::Bully => 2,
                Strategy::Ring => 3,
            });
            let rules = [u64::from(config.majority_of.unwrap_or(0)), config.me.0, config.life];
            let times = [config.beat_ms, config.silence_ms, config.hold_ms];
            put_numbers(&rules, out);
            put_numbers(&times, out);
        }
        Frame::Members(addresses) => {
            out.push(2);
            put_number(addresses.len() as u64, out);
            for address in addresses {
                put_text(address, out);
            }
        }
        Frame::Word(word) => encode_word(*word, out),
    }
}

fn encode_word(word: Word, out: &mut Vec<u8>) {
    let (tag, numbers): (u8, &[u64]) = match word {
        Word::Beat { count, claim, seen } => match claim {
            Claim::None => (10, &[count, seen]),
            Claim::Asking => (11, &[count, seen]),
            Claim::Leading(reign) => (12, &[count, seen, reign]),
        },
        Word::Support { life, count, seen } => (13, &[life, count, seen]),
        Word::Farewell => (14, &[]),
        Word::Election => (15, &[]),
        Word::Answer => (16, &[]),
        Word::Coordinator { reign } => (17, &[reign]),
        Word::Token { number, candidate, hops } => (18, &[number, candidate.0, u64::from(hops)]),
        Word::Elected { number, leader, reign, hops } => {
            (19, &[number, leader.0, reign, u64::from(hops)])
        }
        Word::Received { number } => (20, &[number]),
    };
    out.push(tag);
    put_numbers(numbers, out);
}

fn put_numbers(numbers: &[u64], out: &mut Vec<u8>) {
    for number in numbers {
        put_number(*number, out);
    }
}

/// Reads a body. Believes nothing.
pub(super) fn decode(body: &[u8]) -> Result<Frame, BadBytes> {
    let mut reader = Reader::new(body);
    let r = &mut reader;
    let word = match r.byte("a frame")? {
        1 => {
            let hello = decode_hello(r)?;
            reader.finish()?;
            return Ok(Frame::Hello(Box::new(hello)));
        }
        2 => {
            let count = r.len_of_next()?;
            if count > limits::FLEET_MEMBERS_MAX {
                return Err(BadBytes { expected: "a list of members", offset: 1 });
            }
            let addresses = (0..count).map(|_| short_text(r)).collect::<Result<_, _>>()?;
            reader.finish()?;
            return Ok(Frame::Members(addresses));
        }
        10 => Word::Beat { count: r.number()?, seen: r.number()?, claim: Claim::None },
        11 => Word::Beat { count: r.number()?, seen: r.number()?, claim: Claim::Asking },
        12 => {
            let (count, seen) = (r.number()?, r.number()?);
            Word::Beat { count, seen, claim: Claim::Leading(r.number()?) }
        }
        13 => Word::Support { life: r.number()?, count: r.number()?, seen: r.number()? },
        14 => Word::Farewell,
        15 => Word::Election,
        16 => Word::Answer,
        17 => Word::Coordinator { reign: r.number()? },
        18 => Word::Token {
            number: r.number()?,
            candidate: FleetId(r.number()?),
            hops: narrow(r, "a number of hops")?,
        },
        19 => Word::Elected {
            number: r.number()?,
            leader: FleetId(r.number()?),
            reign: r.number()?,
            hops: narrow(r, "a number of hops")?,
        },
        20 => Word::Received { number: r.number()? },
        _ => return Err(BadBytes { expected: "a frame", offset: 0 }),
    };
    reader.finish()?;
    Ok(Frame::Word(word))
}

fn decode_hello(r: &mut Reader<'_>) -> Result<Hello, BadBytes> {
    let (fleet, address) = (short_text(r)?, short_text(r)?);
    let offset = r.position();
    let strategy = match r.byte("a strategy")? {
        1 => Strategy::LowestId,
        2 => Strategy::Bully,
        3 => Strategy::Ring,
        _ => return Err(BadBytes { expected: "a strategy", offset }),
    };
    let majority_of = Some(narrow(r, "a number of members")?).filter(|ids| *ids > 0);
    let (me, life) = (FleetId(r.number()?), r.number()?);
    let (beat_ms, silence_ms, hold_ms) = (r.number()?, r.number()?, r.number()?);
    let config = Config { me, life, strategy, majority_of, beat_ms, silence_ms, hold_ms };
    Ok(Hello { fleet, config, address })
}

fn short_text(r: &mut Reader<'_>) -> Result<String, BadBytes> {
    let offset = r.position();
    let text = r.text()?;
    if text.len() > ADDRESS_BYTES_MAX || text.chars().any(char::is_control) {
        return Err(BadBytes { expected: "a short text", offset });
    }
    Ok(text.to_owned())
}

fn narrow(r: &mut Reader<'_>, expected: &'static str) -> Result<u32, BadBytes> {
    let offset = r.position();
    u32::try_from(r.number()?).map_err(|_| BadBytes { expected, offset })
}

/// Which way a connection goes from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Caller,
    Called,
}

/// The seals of one connection.
#[derive(Debug)]
pub(super) struct Seals {
    key: Option<[u8; SEAL_BYTES]>,
    side: Side,
    sent: u64,
    received: u64,
}

impl Seals {
    /// Says which kind of connection it is to be, and hears the same from the other side.
    pub(super) async fn open(
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        side: Side,
        secret: &str,
        chance: [u8; 16],
    ) -> Result<Self, String> {
        let magic = if secret.is_empty() { PLAIN } else { SEALED };
        let mut greeting = [0; 20];
        greeting[..4].copy_from_slice(&magic);
        greeting[4..].copy_from_slice(&chance);
        stream.write_all(&greeting).await.map_err(|e| e.to_string())?;
        let mut theirs = [0; 20];
        stream.read_exact(&mut theirs).await.map_err(|e| e.to_string())?;
        let (their_magic, their_chance) = theirs.split_at(4);
        if their_magic != magic {
            return Err(if their_magic == PLAIN || their_magic == SEALED {
                "one side has a secret and the other has none; all members need the same".to_owned()
            } else {
                "what is there is no member of a fleet".to_owned()
            });
        }
        let key = (!secret.is_empty()).then(|| {
            let (caller, called) = match side {
                Side::Caller => (&chance[..], their_chance),
                Side::Called => (their_chance, &chance[..]),
            };
            mac(secret.as_bytes(), &[b"bellwether fleet 1", caller, called])
        });
        Ok(Self {
            key: key.map(|mac| mac.finalize().into_bytes().into()),
            side,
            sent: 0,
            received: 0,
        })
    }

    fn seal(&self, from: Side, number: u64, body: &[u8]) -> Option<Hmac<Sha256>> {
        let key = self.key?;
        Some(mac(&key, &[&[from as u8], &number.to_le_bytes(), body]))
    }

    /// Writes one frame.
    pub(super) async fn write(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        frame: &Frame,
    ) -> Result<(), String> {
        let mut bytes = vec![0, 0];
        encode(frame, &mut bytes);
        let len = bytes.len() - 2;
        if len > FRAME_BYTES_MAX {
            return Err(format!("a frame of {len} bytes is longer than {FRAME_BYTES_MAX}"));
        }
        let head = (len as u16).to_le_bytes();
        bytes[..2].copy_from_slice(&head);
        if let Some(seal) = self.seal(self.side, self.sent, &bytes[2..]) {
            bytes.extend_from_slice(&seal.finalize().into_bytes());
        }
        self.sent += 1;
        stream.write_all(&bytes).await.map_err(|e| e.to_string())
    }

    /// Reads one frame. After an error the connection is of no use any more.
    pub(super) async fn read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<Frame, String> {
        let mut head = [0; 2];
        stream.read_exact(&mut head).await.map_err(|e| e.to_string())?;
        let len = usize::from(u16::from_le_bytes(head));
        if len > FRAME_BYTES_MAX {
            return Err(format!("a frame of {len} bytes is longer than {FRAME_BYTES_MAX}"));
        }
        let mut body = vec![0; len];
        stream.read_exact(&mut body).await.map_err(|e| e.to_string())?;
        let from = if self.side == Side::Caller { Side::Called } else { Side::Caller };
        if let Some(seal) = self.seal(from, self.received, &body) {
            let mut theirs = [0; SEAL_BYTES];
            stream.read_exact(&mut theirs).await.map_err(|e| e.to_string())?;
            seal.verify_slice(&theirs)
                .map_err(|_| "the seal is wrong: its secret is not ours".to_owned())?;
        }
        self.received += 1;
        decode(&body).map_err(|e| e.to_string())
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests;
