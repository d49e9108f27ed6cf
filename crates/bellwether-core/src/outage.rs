//! An outage: so many failures in a row that the messages cannot be what is wrong.
//!
//! ```text
//!             enough in a row, nothing completed between
//!   Well ────────────────────────────────────────────────► Paused (nothing is handed out)
//!    ▲ ▲                                                    │     ▲
//!    │ │  an operator, or the policy is switched off        │ due │ it fails: twice the pause
//!    │ └────────────────────────────────────────────────────┤     │
//!    │                                                      ▼     │
//!    └────────────── it is completed ─────────────────── one is tried
//! ```
//!
//! 1. A row counts different messages, and of what one receiver lost by a crash only one: neither a
//!    message that fails again and again nor a receiver that took many with it is an outage.
//! 2. What fails meanwhile is nobody's fault and is not counted.
//! 3. Nothing of it is journaled: a store that was opened anew tries at once, and finds out again.

use crate::name::{DeliveryNumber, MemberSlot, SequenceNumber};
use crate::outcome::OutageInfo;
use crate::settings::OutagePolicy;
use crate::time::{BootTime, Now, WallTime};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outage {
    /// What failed since something was completed: which message and, after a crash, whose.
    row: Vec<(SequenceNumber, Option<MemberSlot>)>,
    pause: Option<Pause>,
}

#[derive(Clone, Debug)]
struct Pause {
    since: WallTime,
    /// How many had failed in a row.
    failures: u32,
    last_failed: SequenceNumber,
    /// Tries that failed.
    tries: u32,
    probe: Probe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// Not before.
    From(BootTime),
    /// The next that is asked for.
    Now,
    /// It is out.
    Out(SequenceNumber, DeliveryNumber),
}

/// What a queue hands out to who locks what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Whatever is asked for.
    Open,
    /// One message, to see whether it works.
    One,
    /// Nothing.
    Shut,
}

impl Outage {
    pub(crate) fn is_on(&self) -> bool {
        self.pause.is_some()
    }

    pub(crate) fn gate(&self) -> Gate {
        match self.pause.as_ref().map(|pause| pause.probe) {
            None => Gate::Open,
            Some(Probe::Now) => Gate::One,
            Some(Probe::From(_) | Probe::Out(..)) => Gate::Shut,
        }
    }

    /// It is `due`: one may be tried, if that is the time that was told.
    pub(crate) fn is_due(&mut self, due: BootTime) -> bool {
        let Some(pause) = &mut self.pause else { return false };
        let is_due = pause.probe == Probe::From(due);
        if is_due {
            pause.probe = Probe::Now;
        }
        is_due
    }

    /// A message failed, or its receiver crashed with it, and nobody is in an outage yet. Tells when
    /// the first try is due if this was one too many.
    pub(crate) fn failed(
        &mut self,
        now: Now,
        policy: &OutagePolicy,
        seed: u64,
        message: SequenceNumber,
        lost_by: Option<MemberSlot>,
    ) -> Option<BootTime> {
        let is_known = |(other, by): &(SequenceNumber, Option<MemberSlot>)| {
            *other == message || (lost_by.is_some() && *by == lost_by)
        };
        if !self.row.iter().any(is_known) {
            self.row.push((message, lost_by));
        }
        if (self.row.len() as u64) < u64::from(policy.failures) {
            return None;
        }
        let failures = std::mem::take(&mut self.row).len() as u32;
        let at = now.boot.plus_ms(policy.pause_ms(0, seed));
        self.pause = Some(Pause {
            since: now.wall,
            failures,
            last_failed: message,
            tries: 0,
            probe: Probe::From(at),
        });
        Some(at)
    }

    /// A message was handed out through a gate that lets one pass.
    pub(crate) fn tries(&mut self, message: SequenceNumber, number: DeliveryNumber) {
        if let Some(pause) = &mut self.pause {
            pause.probe = Probe::Out(message, number);
        }
    }

    pub(crate) fn is_tried(&self, message: SequenceNumber, number: DeliveryNumber) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.probe == Probe::Out(message, number))
    }

    /// What was tried failed. Tells when the next try is due, and after which pause.
    pub(crate) fn try_failed(
        &mut self,
        now: BootTime,
        policy: &OutagePolicy,
        seed: u64,
    ) -> Option<(BootTime, u64)> {
        let pause = self.pause.as_mut()?;
        if let Probe::Out(message, _) = pause.probe {
            pause.last_failed = message;
        }
        pause.tries = pause.tries.saturating_add(1);
        let pause_ms = policy.pause_ms(pause.tries, seed);
        let at = now.plus_ms(pause_ms);
        pause.probe = Probe::From(at);
        Some((at, pause_ms))
    }

    /// What was tried says nothing, because its receiver gave it back unused, set it aside or found
    /// fault with the message itself: another one is tried.
    pub(crate) fn try_again(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.probe = Probe::Now;
        }
    }

    /// Something was completed: the row is over. What was still out when the outage began says
    /// nothing of how things are now.
    pub(crate) fn completed(&mut self) {
        self.row.clear();
    }

    /// It is over. True if there was one.
    pub(crate) fn end(&mut self) -> bool {
        self.row.clear();
        self.pause.take().is_some()
    }

    pub(crate) fn info(&self, now: BootTime) -> Option<OutageInfo> {
        let pause = self.pause.as_ref()?;
        let (try_in_ms, trying) = match pause.probe {
            Probe::From(at) => (now.ms_until(at), None),
            Probe::Now => (0, None),
            Probe::Out(message, _) => (0, Some(message)),
        };
        Some(OutageInfo {
            since: pause.since,
            failures: pause.failures,
            last_failed: pause.last_failed,
            tries: pause.tries,
            try_in_ms,
            trying,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: OutagePolicy =
        OutagePolicy { failures: 3, pause_ms_min: 1_000, pause_ms_max: 4_000 };
    const NOW: Now = Now::new(1_000_000, 10_000);

    fn fail(outage: &mut Outage, message: u64, by: Option<u32>) -> bool {
        let by = by.map(MemberSlot);
        outage.failed(NOW, &POLICY, 7, SequenceNumber(message), by).is_some()
    }

    #[test]
    fn different_messages_in_a_row_are_an_outage() {
        let mut outage = Outage::default();
        assert!(!fail(&mut outage, 1, None));
        assert!(!fail(&mut outage, 2, None));
        assert_eq!(outage.gate(), Gate::Open);
        assert!(fail(&mut outage, 3, None));
        assert_eq!(outage.gate(), Gate::Shut);
        let info = outage.info(NOW.boot).unwrap();
        assert_eq!((info.failures, info.last_failed.0, info.since), (3, 3, NOW.wall));
        assert!((800..=1_000).contains(&info.try_in_ms), "{info:?}");
    }

    #[test]
    fn one_message_that_always_fails_is_none() {
        let mut outage = Outage::default();
        assert!(!(0..100).any(|_| fail(&mut outage, 1, None)));
        assert!(!(0..100).any(|by| fail(&mut outage, 1, Some(by))));
    }

    #[test]
    fn one_receiver_that_takes_many_with_it_is_none() {
        let mut outage = Outage::default();
        assert!(!(0..100).any(|message| fail(&mut outage, message, Some(1))));
        assert!(!fail(&mut outage, 200, Some(2)));
        assert!(fail(&mut outage, 300, Some(3)), "three receivers are");
    }

    #[test]
    fn what_is_completed_ends_the_row() {
        let mut outage = Outage::default();
        for message in 0..100 {
            assert!(!fail(&mut outage, message, None));
            if message % 2 == 1 {
                outage.completed();
            }
        }
    }

    #[test]
    fn each_try_that_fails_doubles_the_pause_up_to_the_longest() {
        let mut outage = Outage::default();
        (1..=3).for_each(|message| _ = fail(&mut outage, message, None));
        let mut now = NOW.boot;
        for pause_ms in [2_000, 4_000, 4_000] {
            now = now.plus_ms(outage.info(now).unwrap().try_in_ms);
            assert!(!outage.is_due(now.plus_ms(1)) && outage.is_due(now));
            assert_eq!(outage.gate(), Gate::One);
            outage.tries(SequenceNumber(9), DeliveryNumber(1));
            assert!(outage.is_tried(SequenceNumber(9), DeliveryNumber(1)));
            assert!(!outage.is_tried(SequenceNumber(9), DeliveryNumber(2)));
            assert_eq!(outage.gate(), Gate::Shut, "one at a time");
            let (at, ms) = outage.try_failed(now, &POLICY, 7).unwrap();
            assert!((pause_ms * 8 / 10..=pause_ms).contains(&ms), "{ms} of {pause_ms}");
            assert_eq!(at, now.plus_ms(ms));
        }
        assert_eq!(outage.info(now).unwrap().tries, 3);
        assert!(outage.end() && !outage.end());
        assert_eq!(outage.gate(), Gate::Open);
    }
}
