//! Changes bytes as chance will have it; the same chance for the same seed.

/// Numbers at which decoders stumble.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x10000,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// Inputs do not grow beyond.
const LEN_MAX: usize = 8 << 10;

/// See the module.
#[derive(Clone, Debug)]
pub struct Mutator(u64);

impl Mutator {
    /// Begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Xorshift64*.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 16) % end.max(1) as u64) as usize
    }

    /// One of the corpus, changed a few times.
    pub fn input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(4) {
            let other = self.below(corpus.len());
            self.change(&mut bytes, &corpus[other]);
        }
        bytes.truncate(LEN_MAX);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len());
        match self.below(9) {
            // A bit.
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            // A byte, or one nearby.
            1 if !bytes.is_empty() => bytes[at] = self.next() as u8,
            2 if !bytes.is_empty() => {
                bytes[at] = bytes[at].wrapping_add(self.below(33) as u8).wrapping_sub(16);
            }
            // The end is missing, or a piece.
            3 => bytes.truncate(at),
            4 => {
                let end = (at + 1 + self.below(16)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            // A piece twice.
            5 => {
                let end = (at + 1 + self.below(64)).min(bytes.len());
                let piece = bytes[at.min(end)..end].to_vec();
                self.insert(bytes, &piece);
            }
            // A piece of another.
            6 => {
                let from = self.below(other.len());
                let end = (from + 1 + self.below(64)).min(other.len());
                self.insert(bytes, &other[from.min(end)..end]);
            }
            // A lie about a length, as a number of fixed size or as LEB128.
            7 => {
                let edge = EDGES[self.below(EDGES.len())].to_le_bytes();
                let size = [1, 2, 4, 8][self.below(4)];
                for (byte, edge) in bytes.iter_mut().skip(at).zip(&edge[..size]) {
                    *byte = *edge;
                }
            }
            _ => {
                let mut number = Vec::new();
                let edge = EDGES[self.below(EDGES.len())];
                bellwether_core::codec::put_number(edge, &mut number);
                if !bytes.is_empty() {
                    bytes.remove(at);
                }
                bytes.splice(at..at, number);
            }
        }
    }

    fn insert(&mut self, bytes: &mut Vec<u8>, piece: &[u8]) {
        let at = self.below(bytes.len() + 1);
        bytes.splice(at..at, piece.iter().copied());
    }
}
