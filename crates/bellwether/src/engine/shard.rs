//! One shard: the ledger, its journal, and the order of effects between them.
//!
//! ```text
//!   apply(call) … apply(call) ─► seal ─► appended ──► answers that wait for nothing more
//!                                  └───► flushed(n) ► answers that wait for frame ≤ n,
//!                                                     and what frame ≤ n made ready is visible
//! ```
//!
//! 1. A call is applied to the ledger in memory; its changes go into the frame being filled.
//! 2. `seal` fixes the frame's position, tells the ledger where its contents will lie, appends.
//! 3. No answer leaves before its barrier. Nothing is ever answered for a frame that could not be
//!    appended or flushed.
//! 4. After a fault nothing is answered but the fault.
//!
//! There are no threads and no clock here: the caller says what time it is and when a flush is
//! done. `R` is how the caller finds back to whoever asked.

pub(crate) mod backup;
mod entry;
pub(crate) mod history;
mod options;
mod pieces;
pub(crate) mod replay;
mod upkeep;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bellwether_core::change::Change;
use bellwether_core::codec;
use bellwether_core::command::{Command, Request};
use bellwether_core::content::{ContentId, Place};
use bellwether_core::few::Few;
use bellwether_core::job::ItemState;
use bellwether_core::ledger::{Effects, Ledger};
use bellwether_core::message::MessageView;
use bellwether_core::name::{MemberSlot, RequestNumber, Ticket};
use bellwether_core::note::Claimed;
use bellwether_core::outcome::{Answer, Barrier, Outcome};
use bellwether_core::time::Now;
use bytes::Bytes;

use super::Call;
use super::bodies::Bodies;
use super::content::{Content, Unread};
use crate::error::Error;
use crate::journal::{Flush, FrameNumber, Journal, JournalFault, Replay};
use crate::stats::{Refused, Tally};
use backup::Backup;
use entry::check_contents;
use history::History;
pub use options::ShardOptions;
use replay::Replayer;
use upkeep::Upkeep;

/// A frame is sealed when it has grown to this: large enough to make a flush worth its while,
/// small enough that nobody waits long behind it.
const FRAME_BYTES_TARGET: usize = 1 << 20;
/// Changes beside a content, at most: the message with its session, the id it had.
const CHANGE_BYTES_MAX: usize = 512;

/// An answer on its way.
pub type Answered<R> = (R, Result<Unread, Error>);

/// See the module.
pub struct Shard<R> {
    ledger: Ledger,
    journal: Option<Box<dyn Journal>>,
    bodies: Bodies,
    fx: Effects,
    /// The frame being filled, and its number.
    payload: Vec<u8>,
    frame: u64,
    /// Contents in it: id, offset in the payload, length.
    placed: Vec<(ContentId, u32, u32)>,
    /// Who asked and has no answer yet, by ticket.
    asked: HashMap<Ticket, R>,
    /// Answers that leave when the frame being filled is appended.
    at_append: Vec<Answered<R>>,
    /// Answers that leave when a frame is durable.
    at_flush: VecDeque<(u64, Answered<R>)>,
    /// Answers that may leave now.
    free: Vec<Answered<R>>,
    flushed: u64,
    /// The frame in which the incarnation began.
    opened_in: u64,
    upkeep: Upkeep,
    /// Who led when.
    history: History,
    /// The backup under way.
    backup: Option<Backup>,
    /// The longest payload the journal takes; what is asked must fit into one.
    frame_bytes_max: usize,
    broken: Option<JournalFault>,
    /// The disk and the reserve are full: the sealed frame waits for room.
    stalled: bool,
    /// Changes that were made in this life.
    changes: u64,
    /// How many answers waited for the same flush.
    batch: Tally,
    refused: Refused,
}

impl<R> std::fmt::Debug for Shard<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard").field("frame", &self.frame).finish_non_exhaustive()
    }
}

impl<R> Shard<R> {
    /// A shard that keeps nothing.
    pub fn in_memory(now: Now, options: &ShardOptions) -> Self {
        Self::start(now, options.ledger(), History::default(), None, Bodies::new(None), 0)
    }

    /// A shard kept in the journal that `open` opens and replays.
    pub fn open(
        now: Now,
        options: &ShardOptions,
        open: impl FnOnce(&mut dyn Replay) -> Result<Box<dyn Journal>, JournalFault>,
    ) -> Result<Self, JournalFault> {
        let mut replayer = Replayer::new(options.ledger(), now);
        let journal = open(&mut replayer)?;
        let flushed = journal.flusher().flushed().0;
        let bodies = Bodies::new(Some(options.body_cache_bytes_max));
        let Replayer { ledger, history, .. } = replayer;
        Ok(Self::start(now, ledger, history, Some(journal), bodies, flushed))
    }

    fn start(
        now: Now,
        mut ledger: Ledger,
        history: History,
        journal: Option<Box<dyn Journal>>,
        bodies: Bodies,
        flushed: u64,
    ) -> Self {
        let mut fx = Effects::default();
        let frame_bytes_max = journal.as_ref().map_or(usize::MAX, |j| j.frame_bytes_max());
        ledger.begin_frame(flushed + 1);
        ledger.start(now, &mut fx);
        let mut shard = Self {
            ledger,
            journal,
            bodies,
            fx,
            payload: Vec::new(),
            frame: flushed + 1,
            placed: Vec::new(),
            asked: HashMap::new(),
            at_append: Vec::new(),
            at_flush: VecDeque::new(),
            free: Vec::new(),
            flushed,
            opened_in: 0,
            upkeep: Upkeep::default(),
            history,
            backup: None,
            frame_bytes_max,
            broken: None,
            stalled: false,
            changes: 0,
            batch: Tally::default(),
            refused: Refused::default(),
        };
        shard.collect(now);
        shard
    }

    /// Applies one call. Its answer comes out of [`Shard::take_free`], now or later. Tickets are
    /// the caller's, from one on, and only grow.
    pub fn apply(&mut self, now: Now, ticket: Ticket, call: &Call, asker: R) {
        let decided = self.decide(now, ticket, call);
        self.answer(now, ticket, decided, asker);
    }

    /// The first half of [`Shard::apply`], for those whose asker holds the call: the rules decide,
    /// and their changes go into the frame. The second half must follow, with what the shard
    /// answers by itself, because it is the journal's and not the rules' affair.
    pub(crate) fn decide(
        &mut self,
        now: Now,
        ticket: Ticket,
        call: &Call,
    ) -> Result<Option<Box<Unread>>, Error> {
        if let Some(fault) = &self.broken {
            return Err(fault.clone().into());
        }
        // What is not answered here is left to the rules; a fence that does not stand, too.
        let stands = self.ledger.check_fence(now, call.request.fence.as_ref()).is_ok();
        match &call.request.command {
            Command::Backup { id, step } if self.journal.is_some() && stands => {
                return self.backup(now, *id, *step).map(|own| Some(Box::new(own)));
            }
            Command::LeaseHistory { lease, max } if stands => {
                let held = self.ledger.held_slots(now, lease);
                let outcome = Outcome::Terms(self.history.of(lease, &held, *max as usize));
                return Ok(Some(Box::new(Unread { outcome, contents: Few::default() })));
            }
            _ => {}
        }
        let merged = self.merge_overlays(call);
        let call = merged.as_ref().unwrap_or(call);
        check_contents(call)?;
        self.make_room(call)?;
        self.ledger.apply(now, ticket, &call.request, &mut self.fx);
        self.write_changes(now, &call.contents);
        Ok(None)
    }

    /// The second half: whoever has an answer now stands in its line.
    pub(crate) fn answer(
        &mut self,
        now: Now,
        ticket: Ticket,
        decided: Result<Option<Box<Unread>>, Error>,
        asker: R,
    ) {
        match decided {
            Err(error) => {
                if let Error::Refused(refusal) = &error {
                    self.refused.count(refusal);
                }
                return self.free.push((asker, Err(error)));
            }
            Ok(Some(own)) => return self.line_up_result(asker, Ok(*own), Barrier::Durable),
            Ok(None) => {}
        }
        if let Some(asker) = self.line_up_answers(Some((ticket, asker))) {
            self.asked.insert(ticket, asker);
        }
        self.after_apply(now);
    }

    /// Half a unit at most, so that what is added in one go still fits behind it.
    fn frame_bytes_target(&self) -> usize {
        FRAME_BYTES_TARGET.min(self.frame_bytes_max / 2)
    }

    /// Lets time pass: what is due becomes so.
    pub fn tick(&mut self, now: Now) {
        if self.broken.is_some() || self.stalled {
            return;
        }
        let request = Request {
            member: MemberSlot(0),
            number: RequestNumber(0),
            answered_below: RequestNumber(0),
            command: Command::Tick,
            fence: None,
        };
        // Nobody asked, so nobody is answered.
        self.ledger.apply(now, Ticket(0), &request, &mut self.fx);
        self.collect(now);
        self.after_apply(now);
    }

    /// Without a journal everything is as durable as it gets; with one, a frame does not grow
    /// without bound.
    fn after_apply(&mut self, now: Now) {
        if self.journal.is_none() {
            self.flushed = self.frame;
            self.next_frame(self.frame + 1);
            self.show(now, self.flushed);
        } else if self.payload.len() >= self.frame_bytes_target() {
            self.seal();
        }
    }

    /// Forgets a waiting request; gives its asker back if it was still waiting.
    pub fn withdraw(&mut self, ticket: Ticket) -> Option<R> {
        if self.ledger.withdraw(ticket) { self.asked.remove(&ticket) } else { None }
    }

    /// Whether a request waits for what it asks for, and has changed nothing yet.
    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        self.asked.contains_key(&ticket)
    }

    /// How long until [`Shard::tick`] has something to do. It does nothing without a journal to
    /// write to, so then there is nothing to wait for, however much is due.
    pub fn next_deadline_ms(&self, now: Now) -> Option<u64> {
        if self.stalled || self.broken.is_some() {
            return None;
        }
        self.ledger.next_deadline_ms(now)
    }

    /// What nobody asked for: changes into the frame, answers in their lines.
    fn collect(&mut self, now: Now) {
        self.write_changes(now, &[]);
        self.line_up_answers(None);
    }

    /// Puts changes into the frame.
    fn write_changes(&mut self, now: Now, contents: &[Bytes]) {
        let mut changes = std::mem::take(&mut self.fx.changes);
        self.changes += changes.len() as u64;
        for change in &changes {
            self.history.note(change, &self.ledger);
            if let Change::Content { id, index, .. } = *change {
                let body = &contents[index as usize];
                self.put_content(now, change, body);
                self.bodies.insert(id, body.clone());
            } else if self.journal.is_some() {
                if let Change::Opened { .. } = change {
                    self.opened_in = self.frame;
                }
                codec::encode_change(change, now.boot, &mut self.payload);
            }
        }
        changes.clear();
        self.fx.changes = changes;
    }

    /// Puts answers in their lines. Gives back whoever asks if it has no answer yet.
    fn line_up_answers(&mut self, mut asking: Option<(Ticket, R)>) -> Option<R> {
        let mut answers = std::mem::take(&mut self.fx.answers);
        for answer in answers.drain(..) {
            let asker = match asking.take_if(|(ticket, _)| *ticket == answer.ticket) {
                Some((_, asker)) => Some(asker),
                None => self.asked.remove(&answer.ticket),
            };
            if let Some(asker) = asker {
                self.line_up(asker, answer);
            }
        }
        self.fx.answers = answers;
        // Only now: an answer above may have shown a content that is gone.
        for id in self.fx.dropped.drain(..) {
            self.bodies.remove(id);
        }
        self.note_emptied();
        asking.map(|(_, asker)| asker)
    }

    /// Writes a content into the frame; its place is known when the frame is sealed.
    fn put_content(&mut self, now: Now, change: &Change, body: &[u8]) {
        let Change::Content { id, len, .. } = *change else { return };
        assert_eq!(body.len(), len as usize, "a content is as long as its command says");
        if self.journal.is_none() {
            return;
        }
        codec::encode_change(change, now.boot, &mut self.payload);
        self.payload.extend_from_slice(&crc32c::crc32c(body).to_le_bytes());
        self.placed.push((id, self.payload.len() as u32, len));
        self.payload.extend_from_slice(body);
    }

    /// Puts an answer into the line of its barrier.
    fn line_up(&mut self, asker: R, answer: Answer) {
        let result = match answer.result {
            Ok(outcome) => {
                let contents = self.contents_of(&outcome);
                Ok(Unread { outcome, contents })
            }
            Err(refusal) => {
                self.refused.count(&refusal);
                Err(Error::Refused(refusal))
            }
        };
        self.line_up_result(asker, result, answer.barrier);
    }

    fn line_up_result(&mut self, asker: R, result: Result<Unread, Error>, barrier: Barrier) {
        let answered = (asker, result);
        let filling = !self.payload.is_empty();
        // Tokens are unique by their incarnation: none is told while a power cut could still undo
        // that it began, for then the next life would begin it again.
        let durable = barrier == Barrier::Durable || self.flushed < self.opened_in;
        match durable {
            false if filling => self.at_append.push(answered),
            true if filling => self.at_flush.push_back((self.frame, answered)),
            true if self.flushed + 1 < self.frame => {
                self.at_flush.push_back((self.frame - 1, answered));
            }
            _ => self.free.push(answered),
        }
    }

    fn contents_of(&mut self, outcome: &Outcome) -> Few<Content> {
        let journal = self.journal.as_deref();
        match outcome {
            Outcome::Received(views) | Outcome::Peeked(views) => {
                let wanted = views.iter().flat_map(MessageView::contents);
                self.bodies.get_all(wanted, journal)
            }
            Outcome::SessionState(id, place) if id.0 != 0 => {
                Few::One(self.bodies.get(*id, *place, journal))
            }
            Outcome::Result(Some(info)) if info.content.0 != 0 => {
                Few::One(self.bodies.get(info.content, info.place, journal))
            }
            Outcome::Claimed(Claimed::Done { content, place, .. }) if content.0 != 0 => {
                Few::One(self.bodies.get(*content, *place, journal))
            }
            Outcome::SessionInfo(Some(info)) if info.state.0 != 0 => {
                Few::One(self.bodies.get(info.state, info.place, journal))
            }
            Outcome::Items(items) => {
                let results = items.iter().filter_map(|item| match item.state {
                    ItemState::Done { result } if result.0 != 0 => Some((result, item.place)),
                    _ => None,
                });
                self.bodies.get_all(results, journal)
            }
            _ => Few::default(),
        }
    }

    /// Appends the frame that was filled, if any. Then nothing in it can be lost by a crash of
    /// this process.
    pub fn seal(&mut self) {
        if self.payload.len() > self.frame_bytes_max {
            self.seal_in_pieces();
        }
        self.seal_one();
        if self.payload.is_empty() {
            self.bodies.sealed();
        }
    }

    fn seal_one(&mut self) {
        if self.payload.is_empty() || self.broken.is_some() {
            return;
        }
        let Some(journal) = self.journal.as_mut() else { return };
        let prepared = match journal.prepare(self.payload.len()) {
            Ok(prepared) => prepared,
            // The frame waits, and with it everybody who would hear of it.
            Err(JournalFault::Full { .. }) => {
                self.stalled = true;
                return;
            }
            Err(fault) => return self.fail(fault),
        };
        assert_eq!(prepared.number.0, self.frame, "frames are numbered without gaps");
        for (id, offset, len) in self.placed.drain(..) {
            let offset = prepared.payload_offset + offset;
            self.ledger.set_place(id, Place { unit: prepared.unit, offset, len });
        }
        if let Err(fault) = journal.append(&self.payload) {
            return self.fail(fault);
        }
        self.stalled = false;
        if let Some(backup) = &mut self.backup {
            backup.note_sealed();
        }
        self.payload.clear();
        self.note_emptied();
        self.next_frame(prepared.number.0 + 1);
        self.free.append(&mut self.at_append);
    }

    fn next_frame(&mut self, frame: u64) {
        self.frame = frame;
        self.ledger.begin_frame(frame);
    }

    /// Everything up to `frame` is durable: those who wait for it are answered, and what it made
    /// ready is given out.
    pub fn flushed(&mut self, now: Now, frame: FrameNumber) {
        if frame.0 <= self.flushed || self.broken.is_some() {
            return;
        }
        let shown = std::mem::replace(&mut self.flushed, frame.0);
        let durable = self.at_flush.partition_point(|(waits_for, _)| *waits_for <= frame.0);
        if durable > 0 {
            self.batch.record(durable as u64);
        }
        self.free.extend(self.at_flush.drain(..durable).map(|(_, answered)| answered));
        // One by one: what a frame made ready and is handed out at once fits into a frame again,
        // what all frames of a long flush made ready may not.
        for frame in shown + 1..=frame.0 {
            self.show(now, frame);
            if self.payload.len() >= self.frame_bytes_target() {
                self.seal();
            }
        }
    }

    fn show(&mut self, now: Now, frame: u64) {
        self.ledger.durable(now, frame, &mut self.fx);
        self.collect(now);
    }

    /// The machinery failed: nobody hears of anything that is not durable already.
    pub fn fail(&mut self, fault: JournalFault) {
        let unknown = || Err(Error::Unknown(fault.to_string()));
        let waiting = self.at_append.drain(..).map(|(asker, _)| asker);
        let waiting = waiting.chain(self.at_flush.drain(..).map(|(_, (asker, _))| asker));
        self.free.extend(waiting.map(|asker| (asker, unknown())));
        // Those who wait for a message or a lease changed nothing.
        let fault_of = || Err(Error::Fault(fault.clone()));
        let mut asked: Vec<(Ticket, R)> = self.asked.drain().collect();
        asked.sort_unstable_by_key(|(ticket, _)| *ticket);
        self.free.extend(asked.into_iter().map(|(_, asker)| (asker, fault_of())));
        self.broken = Some(fault);
    }

    /// Answers that may leave now: the list itself, because many answers are dear to move.
    pub fn take_free(&mut self) -> Vec<Answered<R>> {
        // For as many once more, and those who wait: a list that grows is moved as well.
        let room = Vec::with_capacity(self.free.len() + self.at_flush.len());
        std::mem::replace(&mut self.free, room)
    }

    /// Whether an answer, or a message that was sent, waits for a flush that can be made. What
    /// waits for room on a full disk does not.
    pub fn awaits_flush(&self) -> bool {
        (self.needs_flush() || self.needs_seal())
            && (!self.at_flush.is_empty() || self.ledger.awaits_flush())
    }

    /// How many answers wait for a flush.
    pub fn waiting(&self) -> usize {
        self.at_flush.len()
    }

    /// Whoever waits longest for a flush.
    pub fn first_waiting(&self) -> Option<&R> {
        self.at_flush.front().map(|(_, (asker, _))| asker)
    }

    /// The number of the frame being filled.
    pub fn frame(&self) -> u64 {
        self.frame
    }

    /// Makes appended frames durable; `None` if there is no journal.
    pub fn flusher(&self) -> Option<Arc<dyn Flush>> {
        self.journal.as_ref().map(|journal| journal.flusher())
    }

    /// Whether frames were appended that are not known to be durable.
    pub fn needs_flush(&self) -> bool {
        self.journal.is_some() && self.flushed + 1 < self.frame && self.broken.is_none()
    }

    /// Whether there is something to seal.
    pub fn needs_seal(&self) -> bool {
        self.journal.is_some() && !self.payload.is_empty() && !self.stalled && self.broken.is_none()
    }

    /// How many changes were made in this life.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The fault that ended this life, if one did.
    pub fn fault(&self) -> Option<&JournalFault> {
        self.broken.as_ref()
    }

    /// The rules, to look at.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}
