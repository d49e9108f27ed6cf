//! What the children said, and what a store must therefore hold.

use std::collections::{BTreeMap, BTreeSet};

use bellwether::core::name::SequenceNumber;
use bellwether::core::outcome::QueueInfo;
use bellwether::{Bellwether, Received};

use crate::store::{QUEUE, SESSIONS, body_of};

/// What became of one message, as far as anybody was told.
#[derive(Debug, Default)]
struct Story {
    acknowledged: bool,
    /// Asked for and perhaps done.
    tried: BTreeSet<&'static str>,
    /// Acknowledged.
    done: BTreeSet<&'static str>,
    deliveries_max: u32,
}

/// Everything that was said, over all lives.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    stories: BTreeMap<String, Story>,
    sequences: BTreeMap<u64, String>,
    batches: Vec<Vec<String>>,
    pub(crate) term_max: u64,
    count: u64,
    count_tried: u64,
    pub(crate) lines: usize,
}

const ENDS: [(&str, &str); 3] =
    [("complete", "completed"), ("dead", "dead"), ("defer", "deferred")];

impl Facts {
    /// Takes one line of a child.
    pub(crate) fn hear(&mut self, line: &str) {
        let Some(fact) = line.strip_prefix("fact ") else { return };
        self.lines += 1;
        let words: Vec<&str> = fact.split(' ').collect();
        match words[..] {
            ["try", "send", ref ids @ ..] => {
                for id in ids {
                    assert!(self.stories.insert((*id).into(), Story::default()).is_none());
                }
                self.batches.push(ids.iter().map(ToString::to_string).collect());
            }
            ["sent", ref sent @ ..] => {
                for one in sent {
                    let (id, sequence) = one.split_once('=').unwrap();
                    self.story(id).acknowledged = true;
                    self.number(sequence.parse().unwrap(), id);
                }
            }
            ["got", id, sequence, deliveries] => {
                self.number(sequence.parse().unwrap(), id);
                let deliveries = deliveries.parse().unwrap();
                let story = self.story(id);
                // D4: what is gone by acknowledgement is not delivered again.
                assert!(story.done.is_empty(), "{id} was delivered after {:?}", story.done);
                // L5: a process crash loses no delivery.
                assert!(deliveries >= story.deliveries_max, "{id} counts backwards");
                story.deliveries_max = deliveries;
            }
            ["try", "count", n] => self.count_tried = n.parse().unwrap(),
            ["count", n] => {
                let n: u64 = n.parse().unwrap();
                assert!(n > self.count, "a session's state went back to {n} from {}", self.count);
                self.count = n;
            }
            ["term", term] => {
                let term: u64 = term.parse().unwrap();
                assert!(term > self.term_max, "term {term} after {}", self.term_max);
                self.term_max = term;
            }
            ["try", what, id] => {
                let end = ENDS.iter().find(|(tried, _)| *tried == what).unwrap();
                self.story(id).tried.insert(end.0);
            }
            [what, id] => {
                if let Some(end) = ENDS.iter().find(|(_, done)| *done == what) {
                    self.story(id).done.insert(end.1);
                }
            }
            _ => {}
        }
    }

    fn story(&mut self, id: &str) -> &mut Story {
        self.stories.get_mut(id).unwrap_or_else(|| panic!("{id} was never sent"))
    }

    /// L8: a number names one message, in every life.
    fn number(&mut self, sequence: u64, id: &str) {
        let old = self.sequences.entry(sequence).or_insert_with(|| id.to_owned());
        assert_eq!(old, id, "number {sequence} was used twice");
    }

    /// Compares what was said with what is there.
    pub(crate) async fn check(&mut self, bellwether: &Bellwether) {
        let queue = bellwether.queue(QUEUE).unwrap();
        let main = everything(&queue).await;
        let dead = everything(&queue.dead_letters()).await;
        for (id, (sequence, body)) in main.iter().chain(&dead) {
            assert_eq!(*body, body_of(id), "{id} has another body");
            self.story(id);
            self.number(*sequence, id);
        }
        for (id, story) in &self.stories {
            let (in_main, in_dead) = (main.contains_key(id), dead.contains_key(id));
            assert!(!(in_main && in_dead), "{id} is in both halves");
            if story.done.contains("completed") {
                assert!(!in_main && !in_dead, "{id} was completed and is there again");
            } else if story.done.contains("dead") {
                assert!(in_dead, "{id} was dead-lettered and is not there");
            } else if story.done.contains("deferred") {
                assert!(in_main, "{id} was deferred and is not there");
            } else if story.acknowledged && !story.tried.contains("complete") {
                assert!(in_main || in_dead, "{id} was acknowledged and is lost");
            }
        }
        for batch in &self.batches {
            let there = |id: &String| {
                let story = &self.stories[id];
                !story.tried.is_empty() || main.contains_key(id) || dead.contains_key(id)
            };
            let count = batch.iter().filter(|id| there(id)).count();
            assert!(count == 0 || count == batch.len(), "{batch:?} is there in part (D7)");
        }
        let info = queue.info().await.unwrap();
        check_conservation(&info);
        assert_eq!(info.counts.dead_letters, dead.len() as u64);
    }

    /// The same when every lock has run out: then everything that is left can be received.
    pub(crate) async fn check_free(&mut self, bellwether: &Bellwether) {
        self.check(bellwether).await;
        let info = bellwether.queue(QUEUE).unwrap().info().await.unwrap();
        assert_eq!(info.counts.locked, 0, "a lock does not run out");
        let sessions = bellwether.queue(SESSIONS).unwrap();
        check_conservation(&sessions.info().await.unwrap());
        let session = sessions.accept_session().named("s").await.unwrap();
        let state = session.state().await.unwrap();
        let count = state.map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()));
        let said = self.count..=self.count.max(self.count_tried);
        assert!(said.contains(&count), "a session's state is {count}, not {said:?}");
        session.close().await.unwrap();
    }

    /// Messages that were settled for good, to tell how much was tried.
    pub(crate) fn completed(&self) -> usize {
        self.stories.values().filter(|story| story.done.contains("completed")).count()
    }
}

/// D8: what came in is there or left for a counted reason.
fn check_conservation(info: &QueueInfo) {
    let (counts, totals) = (info.counts, info.totals);
    let live =
        counts.ready + counts.locked + counts.scheduled + counts.deferred + counts.dead_letters;
    let left =
        totals.completed + totals.expired + totals.purged + totals.cancelled + totals.forwarded;
    assert_eq!(totals.sent, live + left, "{info:?}");
}

/// Every message of one half, by id: number and body.
async fn everything(queue: &bellwether::Queue) -> BTreeMap<String, (u64, String)> {
    let mut all = BTreeMap::new();
    let mut from = SequenceNumber(0);
    loop {
        let some: Vec<Received> = queue.peek(from, 5_000).await.unwrap();
        let Some(last) = some.last() else { return all };
        from = SequenceNumber(last.sequence().0 + 1);
        for peeked in &some {
            let message = peeked.message().unwrap();
            let id = message.id.clone().unwrap();
            let body = message.text().unwrap().to_owned();
            let twice = all.insert(id.clone(), (peeked.sequence().0, body));
            assert!(twice.is_none(), "{id} is there twice");
        }
    }
}
