//! Random transactions, out of the commands that their steps are.

use bellwether_core::command::{Command, NewContent};
use bellwether_core::name::NoteKey;
use bellwether_core::note::Report;
use bellwether_core::transaction::Step;

use super::world::World;

impl World {
    pub fn transact(&mut self) -> Command {
        let mut steps = Vec::new();
        // One in so many has none at all.
        let count = self.chance.below(12).min(4);
        for _ in 0..count {
            self.add_steps(&mut steps);
        }
        Command::Transact { steps }
    }

    fn note_key(&mut self) -> NoteKey {
        NoteKey::new(self.pick(&["k", "l", "m"]).unwrap()).unwrap()
    }

    fn ttl_ms(&mut self) -> u64 {
        if self.one_in(20) { 0 } else { 1 + self.chance.below(2000) }
    }

    pub fn claim(&mut self) -> Command {
        Command::Claim {
            scope: self.queue(),
            key: self.note_key(),
            hash: if self.one_in(2) { 0 } else { u128::from(self.chance.below(3)) },
            lock_ms: 95 + self.chance.below(200) as u32,
            ttl_ms: self.ttl_ms(),
        }
    }

    pub fn get_result(&mut self) -> Command {
        Command::GetResult { queue: self.queue(), key: self.note_key(), wait_ms: self.wait_ms() }
    }

    /// A step about a result or a claim.
    fn note_step(&mut self) -> Option<Step> {
        let bytes = self.chance.below(30) as u32;
        let content = self.maybe(2, |_| NewContent { index: 0, bytes });
        match self.chance.below(8) {
            0..3 => {
                let Command::Send { queue, messages } = self.send() else { return None };
                let message = messages.into_iter().next()?;
                let (key, ttl_ms) = (self.note_key(), self.ttl_ms());
                Some(Step::Request { queue, message, content: 0, key, ttl_ms })
            }
            3..6 => {
                let percent = self.maybe(2, |w| w.chance.below(103) as u32);
                let reports = [Report::Running { percent }, Report::Succeeded, Report::Failed];
                let report = self.pick(&reports)?;
                let (queue, key) = (self.queue(), self.note_key());
                let ttl_ms = self.maybe(4, Self::ttl_ms);
                Some(Step::Report { queue, key, report, content, ttl_ms })
            }
            which => {
                let (known, standing) = (self.known.claims.clone(), self.naive.all_claims());
                let claims = if self.one_in(3) { known } else { standing };
                let (scope, key, token) = self.pick(&claims)?;
                Some(if which == 6 {
                    Step::GiveUp { scope, key, token }
                } else {
                    Step::Finish { scope, key, token, content }
                })
            }
        }
    }

    fn add_steps(&mut self, steps: &mut Vec<Step>) {
        if self.one_in(3) {
            return steps.extend(self.note_step());
        }
        let command = match self.chance.below(10) {
            0..5 => self.settle(),
            5..8 => self.send(),
            8 => self.use_session(),
            _ => {
                let (queue, sequences) = self.numbers(1);
                Command::Cancel { queue, sequences }
            }
        };
        match command {
            Command::Settle { from, settlements } => {
                let step = |settlement| Step::Settle { from: from.clone(), settlement };
                // The second of the same token is refused: seldom, or nothing else would happen.
                let most = if self.one_in(10) { 4 } else { 1 };
                steps.extend(settlements.into_iter().take(most).map(step));
            }
            Command::Send { queue, messages } => {
                steps.push(Step::Send { queue, messages, first: steps.len() as u32 });
            }
            Command::SetSessionState { queue, token, state } => {
                steps.push(Step::SetSessionState { queue, token, state });
            }
            Command::Cancel { queue, sequences } => steps.push(Step::Cancel { queue, sequences }),
            _ => {}
        }
    }
}
