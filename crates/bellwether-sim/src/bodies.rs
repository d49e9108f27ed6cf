//! Bodies that can be told from their message's number alone.

use bytes::Bytes;

use crate::history::Body;

/// Bodies of one world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bodies {
    /// Usual size.
    pub usual_bytes: u64,
}

fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

impl Bodies {
    /// The body of message `id`: its number, then bytes that follow from it.
    pub(crate) fn of(self, id: u64) -> Bytes {
        let chance = mix(id);
        let len = match chance % 20 {
            0 => self.usual_bytes * 4,
            _ => chance / 32 % (self.usual_bytes + 1),
        };
        let mut bytes = id.to_le_bytes().to_vec();
        let mut word = chance;
        while bytes.len() < 8 + len as usize {
            word = mix(word);
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        Bytes::from(bytes)
    }

    /// Whose body this is.
    pub(crate) fn tell(self, content: &Result<Bytes, String>) -> Body {
        let bytes = match content {
            Ok(bytes) => bytes,
            Err(why) => return Body::Unreadable(why.clone()),
        };
        let Some((id, _)) = bytes.split_first_chunk::<8>() else {
            return Body::Wrong(format!("{} bytes", bytes.len()));
        };
        let id = u64::from_le_bytes(*id);
        if self.of(id) == *bytes {
            Body::Of(id)
        } else {
            Body::Wrong(format!("{} bytes that begin with {id}", bytes.len()))
        }
    }
}
