//! The nodes of an election, and the calls on them.
//!
//! ```text
//!   /bellwether/ELECTION/MEMBER-ID-0000000007     goes with its session; the smallest number leads
//! ```

use bellwether_core::name::{LeaseId, MemberId, Term};
use bellwether_core::time::WallTime;

use super::jute::{Reader, Stat, Writer};
use super::session::{Link, ZkFault};

const OP_CREATE: i32 = 1;
const OP_DELETE: i32 = 2;
const OP_EXISTS: i32 = 3;
const OP_GET_DATA: i32 = 4;
const OP_SET_DATA: i32 = 5;
const OP_GET_CHILDREN: i32 = 8;
const OP_SYNC: i32 = 9;

const ERR_NO_NODE: i32 = -101;
const ERR_BAD_VERSION: i32 = -103;
const ERR_NODE_EXISTS: i32 = -110;
/// The session is over, by the ensemble's word.
pub(super) const ERR_SESSION_EXPIRED: i32 = -112;

const PERSISTENT: i32 = 0;
const EPHEMERAL_SEQUENTIAL: i32 = 3;
const ANY_VERSION: i32 = -1;

/// One that leads or waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The node's name, without what is above it.
    pub(super) name: String,
    pub(super) member: MemberId,
    pub(super) id: LeaseId,
    number: i64,
}

impl Candidate {
    /// `None` if it is not one of ours.
    fn read(name: &str) -> Option<Self> {
        let mut parts = name.splitn(3, '-');
        let mut hex = || u128::from_str_radix(parts.next()?, 16).ok();
        let (member, id) = (MemberId(hex()?), LeaseId(hex()?));
        Some(Self { name: name.to_owned(), member, id, number: parts.next()?.parse().ok()? })
    }
}

/// What a candidate's node says, and what the server says of it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) ttl_ms: u64,
    /// Somebody asked it to step down.
    pub(super) asked: bool,
    /// What it says of itself.
    pub(super) says: String,
    stat: Stat,
}

impl Node {
    /// The transaction that made the node.
    pub(super) fn term(&self) -> Term {
        Term(self.stat.czxid)
    }

    pub(super) fn since(&self) -> WallTime {
        WallTime(self.stat.ctime_ms)
    }

    /// The session it goes with.
    pub(super) fn owner(&self) -> i64 {
        self.stat.owner
    }

    fn write(ttl_ms: u64, asked: bool, says: &str) -> Vec<u8> {
        format!("{ttl_ms} {}\n{says}", u8::from(asked)).into_bytes()
    }

    fn read(data: &[u8], stat: Stat) -> Option<Self> {
        let text = std::str::from_utf8(data).ok()?;
        let (head, says) = text.split_once('\n')?;
        let (ttl_ms, asked) = head.split_once(' ')?;
        Some(Self { ttl_ms: ttl_ms.parse().ok()?, asked: asked == "1", says: says.into(), stat })
    }
}

/// The calls, on whatever session there is.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) link: Link,
    path: String,
}

impl Nodes {
    pub(super) fn new(link: Link, path: String) -> Self {
        Self { link, path }
    }

    fn of(&self, election: &str) -> String {
        format!("{}/{election}", self.path)
    }

    fn at(&self, election: &str, name: &str) -> String {
        format!("{}/{election}/{name}", self.path)
    }

    /// Makes everything above the candidates. Somebody may be faster.
    pub(super) async fn create_parents(&self, election: &str) -> Result<(), ZkFault> {
        let whole = self.of(election);
        let ends = whole.match_indices('/').skip(1).map(|(end, _)| end).chain([whole.len()]);
        for end in ends {
            let body = Writer::default().text(&whole[..end]).bytes(&[]).open_acl().int(PERSISTENT);
            match self.link.ask(OP_CREATE, body).await {
                Ok(_) | Err(ZkFault::Refused(ERR_NODE_EXISTS)) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Stands in line. `false` if what is above is missing.
    pub(super) async fn create(
        &self,
        election: &str,
        member: MemberId,
        id: LeaseId,
        ttl_ms: u64,
        says: &str,
    ) -> Result<bool, ZkFault> {
        let path = self.at(election, &format!("{member}-{:032x}-", id.0));
        let body = Writer::default()
            .text(&path)
            .bytes(&Node::write(ttl_ms, false, says))
            .open_acl()
            .int(EPHEMERAL_SEQUENTIAL);
        match self.link.ask(OP_CREATE, body).await {
            Ok(_) => Ok(true),
            Err(ZkFault::Refused(ERR_NO_NODE)) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Whoever leads or waits, in order; `None` if nobody ever asked.
    pub(super) async fn line(&self, election: &str) -> Result<Option<Vec<Candidate>>, ZkFault> {
        let body = Writer::default().text(&self.of(election)).bool(false);
        let answer = match self.link.ask(OP_GET_CHILDREN, body).await {
            Err(ZkFault::Refused(ERR_NO_NODE)) => return Ok(None),
            answer => answer?,
        };
        let names = Reader(&answer).texts().ok_or_else(unclear)?;
        let mut line: Vec<Candidate> =
            names.iter().filter_map(|name| Candidate::read(name)).collect();
        line.sort_by_key(|candidate| candidate.number);
        Ok(Some(line))
    }

    /// A candidate's node, if it is there.
    pub(super) async fn node(&self, election: &str, name: &str) -> Result<Option<Node>, ZkFault> {
        let body = Writer::default().text(&self.at(election, name)).bool(false);
        read_node(self.link.ask(OP_GET_DATA, body).await)
    }

    /// The same, by way of the ensemble's leader: the answer is not older than the question.
    pub(super) async fn node_now(
        &self,
        election: &str,
        name: &str,
    ) -> Result<Option<Node>, ZkFault> {
        let path = self.at(election, name);
        // Both are on their way at once; a server answers in order.
        let synced = self.link.ask(OP_SYNC, Writer::default().text(&path));
        let (synced, node) = tokio::join!(synced, self.node(election, name));
        synced?;
        node
    }

    /// Whether it is there, and the path of the watch that fires when it goes.
    pub(super) async fn watch(
        &self,
        election: &str,
        name: &str,
    ) -> Result<Option<String>, ZkFault> {
        let path = self.at(election, name);
        let body = Writer::default().text(&path).bool(true);
        match self.link.ask(OP_EXISTS, body).await {
            Ok(_) => Ok(Some(path)),
            Err(ZkFault::Refused(ERR_NO_NODE)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Leaves a word. `false` if somebody else wrote at the same moment, or it is gone.
    pub(super) async fn ask_step_down(
        &self,
        election: &str,
        name: &str,
        node: &Node,
    ) -> Result<bool, ZkFault> {
        let body = Writer::default()
            .text(&self.at(election, name))
            .bytes(&Node::write(node.ttl_ms, true, &node.says))
            .int(node.stat.version);
        match self.link.ask(OP_SET_DATA, body).await {
            Ok(_) => Ok(true),
            Err(ZkFault::Refused(ERR_NO_NODE | ERR_BAD_VERSION)) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// It may be gone by now.
    pub(super) async fn delete(&self, election: &str, name: &str) -> Result<(), ZkFault> {
        let body = Writer::default().text(&self.at(election, name)).int(ANY_VERSION);
        match self.link.ask(OP_DELETE, body).await {
            Ok(_) | Err(ZkFault::Refused(ERR_NO_NODE)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}

fn read_node(answer: Result<Vec<u8>, ZkFault>) -> Result<Option<Node>, ZkFault> {
    let answer = match answer {
        Err(ZkFault::Refused(ERR_NO_NODE)) => return Ok(None),
        answer => answer?,
    };
    let mut reader = Reader(&answer);
    let data = reader.bytes().ok_or_else(unclear)?;
    let stat = reader.stat().ok_or_else(unclear)?;
    Node::read(data, stat).map(Some).ok_or_else(unclear)
}

fn unclear() -> ZkFault {
    ZkFault::Unknown("an answer that nobody understands".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_tells_whose_it_is() {
        let name = format!("{}-{:032x}-0000000007", MemberId(9), 5);
        let read = Candidate::read(&name).unwrap();
        assert_eq!((read.member, read.id, read.number), (MemberId(9), LeaseId(5), 7));
        assert_eq!(Candidate::read("lock-0000000007"), None);
        let overflown = format!("{}-{:032x}--2147483648", MemberId(9), 5);
        assert_eq!(Candidate::read(&overflown).unwrap().number, i64::from(i32::MIN));
    }

    #[test]
    fn what_a_node_says_is_read() {
        let stat = Stat { czxid: 3, ctime_ms: 4, version: 0, owner: 7 };
        let node = Node::read(&Node::write(4_000, true, "a\nb\0"), stat).unwrap();
        assert_eq!((node.ttl_ms, node.asked, &*node.says), (4_000, true, "a\nb\0"));
        assert_eq!((node.term(), node.owner()), (Term(3), 7));
        assert!(Node::read(b"hello", stat).is_none());
    }
}
