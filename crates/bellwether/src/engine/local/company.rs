//! How many callers a flush waits for.
//!
//! Few callers are all waiting by the time a flush is done: the next one begins at once, and waiting
//! for more would only put them all in step, with nothing to do while the disk works. Of many
//! callers some are still at work then. It is the processor that keeps them, not the disk, and a
//! flush for the few who wait already takes processor time from them; so it had better wait until
//! there are more, which delays nobody.
//!
//! So the end of a flush tells how the next one should be: somebody is about to take a turn, and it
//! waits for more callers than this one did; nobody is, and it waits for fewer.

/// Enough for any flush.
const WANTED_MAX: usize = 1024;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Company {
    wanted: usize,
}

impl Default for Company {
    fn default() -> Self {
        Self { wanted: 1 }
    }
}

impl Company {
    /// Whether so many who wait are enough.
    pub(super) fn is_there(self, waiting: usize) -> bool {
        waiting >= self.wanted
    }

    /// A flush is done, and callers are at work or not.
    pub(super) fn note(&mut self, are_callers_at_work: bool) {
        if are_callers_at_work {
            self.wanted = WANTED_MAX.min(self.wanted + self.wanted.div_ceil(4));
        } else {
            self.note_absence();
        }
    }

    /// It was waited for in vain.
    pub(super) fn note_absence(&mut self) {
        self.wanted = (self.wanted / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_more_while_callers_are_at_work_when_it_is_done() {
        let mut company = Company::default();
        assert!(company.is_there(1), "at first for nobody");
        for _ in 0..20 {
            company.note(true);
        }
        assert!(!company.is_there(32));
        for _ in 0..100 {
            company.note(true);
        }
        assert!(company.is_there(WANTED_MAX), "more are never waited for");
    }

    #[test]
    fn who_has_gone_is_soon_not_waited_for() {
        let mut company = Company { wanted: WANTED_MAX };
        let waits = (0..).take_while(|_| {
            company.note_absence();
            !company.is_there(1)
        });
        assert!(waits.count() < 30);
        company.note(false);
        assert!(company.is_there(1));
    }
}
