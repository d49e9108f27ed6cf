//! One schedule: a recurring rule that sends messages.
//!
//! ```text
//!   next slot ── its time comes ──► one message, and the next slot, in one step ──► next slot …
//! ```
//!
//! 1. A slot is a time at which the rule is due. Each slot sends one message or none, never two: which
//!    slot is next is written down in the step that sends.
//! 2. Nobody needs to lead for it: time is the store's.

use crate::calendar::Rule;
use crate::content::ContentId;
use crate::error::Refusal;
use crate::limits;
use crate::name::{QueueName, ScheduleName, SessionId};
use crate::time::WallTime;

/// How a schedule behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSettings {
    /// When it is due, in words ([`crate::calendar`]).
    pub rule: String,
    /// Whose clock on the wall is meant.
    pub zone: String,
    /// Where its messages go.
    pub queue: QueueName,
    /// Into which session.
    pub session: Option<SessionId>,
    /// What becomes of slots that nobody was there for.
    pub missed: Missed,
}

impl ScheduleSettings {
    /// Whether it makes sense; the rule as it was read.
    pub fn check(&self) -> Result<Rule, Refusal> {
        let wrong = |why| Refusal::InvalidValue { what: "rule", why };
        if self.rule.len() > limits::RULE_BYTES_MAX || self.zone.len() > limits::RULE_BYTES_MAX {
            let max = limits::RULE_BYTES_MAX;
            return Err(wrong(format!("a rule and a zone have at most {max} bytes")));
        }
        if let Missed::All { max } = self.missed
            && !(1..=limits::MISSED_SLOTS_MAX).contains(&max)
        {
            let why = format!("{max} is not between 1 and {}", limits::MISSED_SLOTS_MAX);
            return Err(Refusal::InvalidValue { what: "missed", why });
        }
        Rule::parse(&self.rule, &self.zone).map_err(wrong)
    }
}

/// What becomes of slots that passed while the store was closed, or time stood still for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The latest of them sends its message, late.
    Latest,
    /// They send their messages, the oldest first, but not more than so many; the rest is skipped.
    All {
        /// How many.
        max: u32,
    },
    /// None sends anything.
    Skip,
}

/// What is done to a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteerSchedule {
    /// It sends nothing until it is resumed.
    Pause,
    /// It goes on with the next slot from now.
    Resume,
    /// It sends one message now, beside its slots.
    RunNow,
    /// It is gone.
    Delete,
}

/// How a schedule stands: what the journal keeps of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// Its name.
    pub name: ScheduleName,
    /// How it behaves.
    pub settings: ScheduleSettings,
    /// Its message; every slot sends the same content.
    pub content: ContentId,
    /// Since when it is there; what `every` counts from.
    pub created_at: WallTime,
    /// The next slot; `None` while it is paused.
    pub next: Option<WallTime>,
    /// The last slot that sent a message.
    pub last: Option<WallTime>,
    /// Messages that were sent.
    pub sent: u64,
    /// Slots that sent none: they were missed, or the queue did not take it.
    pub skipped: u64,
}

/// One schedule, as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleInfo {
    /// Its name.
    pub name: ScheduleName,
    /// How it behaves.
    pub settings: ScheduleSettings,
    /// Since when it is there.
    pub created_at: WallTime,
    /// The next slot; `None` while it is paused.
    pub next: Option<WallTime>,
    /// The last slot that sent a message.
    pub last: Option<WallTime>,
    /// Messages that were sent.
    pub sent: u64,
    /// Slots that sent none: they were missed, or the queue did not take it.
    pub skipped: u64,
}

impl From<&ScheduleRecord> for ScheduleInfo {
    fn from(record: &ScheduleRecord) -> Self {
        let record = record.clone();
        Self {
            name: record.name,
            settings: record.settings,
            created_at: record.created_at,
            next: record.next,
            last: record.last,
            sent: record.sent,
            skipped: record.skipped,
        }
    }
}

/// Which slots send, of those that are due, and the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) slots: Vec<WallTime>,
    pub(crate) skipped: u64,
    pub(crate) next: Option<WallTime>,
}

/// How far back the latest slot is looked for, one after the other: a minute, an hour, a day, a month
/// and longer than any rule takes.
const LOOKS_BACK_MS: [u64; 5] =
    [60_000, 3_600_000, 86_400_000, 32 * 86_400_000, 10 * 366 * 86_400_000];

impl ScheduleRecord {
    /// What is due at `now`, if its next slot is.
    pub(crate) fn due(&self, rule: &Rule, now: WallTime) -> Option<Due> {
        let slot = self.next.filter(|slot| *slot <= now)?;
        let after = |slot| rule.next(self.created_at, slot);
        let next = after(now);
        let following = after(slot);
        let is_missed = following.is_some_and(|following| following <= now)
            || slot.plus_ms(limits::SLOT_LATE_MS_MAX) < now;
        Some(match self.settings.missed {
            _ if !is_missed => Due { slots: vec![slot], skipped: 0, next },
            Missed::Skip => Due { slots: Vec::new(), skipped: 1, next },
            Missed::Latest => {
                let latest = self.latest(rule, slot, now);
                Due { slots: vec![latest], skipped: u64::from(latest != slot), next }
            }
            Missed::All { max } => {
                let all = std::iter::successors(Some(slot), |slot| after(*slot));
                let mut due = all.take_while(|slot| *slot <= now);
                let slots: Vec<WallTime> = due.by_ref().take(max as usize).collect();
                let skipped = u64::from(due.next().is_some());
                Due { slots, skipped, next }
            }
        })
    }

    /// The last slot up to `now`, which is not before `slot`.
    fn latest(&self, rule: &Rule, slot: WallTime, now: WallTime) -> WallTime {
        let after = |at| rule.next(self.created_at, at).filter(|next| *next <= now);
        let mut latest = slot;
        for back_ms in LOOKS_BACK_MS {
            let from = WallTime(now.0.saturating_sub(back_ms)).max(slot);
            if let Some(found) = after(from) {
                latest = found;
                break;
            }
        }
        while let Some(later) = after(latest) {
            latest = later;
        }
        latest
    }
}
