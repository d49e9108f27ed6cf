//! How ZooKeeper writes things down: big-endian numbers, and lengths before texts and lists.

/// What a server says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// The transaction that made it.
    pub(super) czxid: u64,
    /// Wall-clock time of the server that made it.
    pub(super) ctime_ms: u64,
    pub(super) version: i32,
    /// The session it goes with; zero if it stays.
    pub(super) owner: i64,
}

/// Writes a request's body.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn int(mut self, number: i32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, number: i64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn bool(mut self, yes: bool) -> Self {
        self.0.push(u8::from(yes));
        self
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        // Nothing that is written here comes near the limit.
        self = self.int(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.0.extend(bytes);
        self
    }

    pub(super) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Everybody may do everything, as on every node that nobody protects.
    pub(super) fn open_acl(self) -> Self {
        self.int(1).int(31).text("world").text("anyone")
    }
}

/// Reads an answer's body. Everything is `None` once it is too short.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn int(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn long(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A length below zero is nothing at all.
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.int()?;
        self.take(usize::try_from(len.max(0)).ok()?)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    pub(super) fn texts(&mut self) -> Option<Vec<String>> {
        (0..self.int()?.max(0)).map(|_| self.text()).collect()
    }

    pub(super) fn stat(&mut self) -> Option<Stat> {
        let (czxid, _mzxid) = (self.long()?, self.long()?);
        let (ctime, _mtime) = (self.long()?, self.long()?);
        let (version, _children, _acl) = (self.int()?, self.int()?, self.int()?);
        let owner = self.long()?;
        let (_bytes, _count, _pzxid) = (self.int()?, self.int()?, self.long()?);
        Some(Stat {
            czxid: u64::try_from(czxid).ok()?,
            ctime_ms: u64::try_from(ctime).ok()?,
            version,
            owner,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_not() {
        let written = Writer::default().int(-7).long(1 << 40).bool(true).text("ü").bytes(&[]).0;
        let mut reader = Reader(&written);
        assert_eq!((reader.int(), reader.long()), (Some(-7), Some(1 << 40)));
        assert_eq!(reader.take(1), Some(&[1][..]));
        assert_eq!((reader.text().as_deref(), reader.bytes()), (Some("ü"), Some(&[][..])));
        assert_eq!(reader.int(), None);
        let list = Writer::default().int(i32::MAX).text("a").0;
        assert_eq!(Reader(&list).texts(), None, "a length that is a lie");
        assert_eq!(Reader(&written).stat(), None);
    }
}
