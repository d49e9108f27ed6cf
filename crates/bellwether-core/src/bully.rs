//! Bully: the highest id that answers leads.
//!
//! ```text
//!            nobody leads, or a lower id for long enough
//!    Idle ───────────────────────────────────────────────► Asked ── nobody answers ──► stand
//!     ▲         `Election` to every higher id                │
//!     │                                                      │ an `Answer`
//!     │   somebody leads                                     ▼
//!     └──────────────────────────────────────────────── Answered ── nobody leads in time ──► ask again
//! ```
//!
//! Whoever leads tells everybody with `Coordinator`. Whoever is asked by a lower id answers, and
//! asks in turn. If the lowest id asks first, and all are there, N² − 1 words are said.

use crate::fleet::{Claim, FleetId, Input, Output, Scene, Strategy, Word};
use crate::time::BootTime;

const STRATEGY: Strategy = Strategy::Bully;
/// After an answer a leader is waited for so many silences: whoever answered may have to gather a
/// majority first.
const ANSWERED_SILENCES: u64 = 2;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bully {
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Asked {
        until: BootTime,
    },
    Answered {
        until: BootTime,
    },
}

impl Bully {
    /// Takes note of what happened and says what to do.
    pub fn step(&mut self, scene: &Scene, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::Heard { from, word: Word::Election } if STRATEGY.outranks(scene.me, from) => {
                answer(scene, from, &mut out);
            }
            Input::Heard { from, word: Word::Answer } if STRATEGY.outranks(from, scene.me) => {
                if let State::Asked { .. } = self.state {
                    let until = scene.now.plus_ms(ANSWERED_SILENCES * scene.silence_ms);
                    self.state = State::Answered { until };
                }
            }
            Input::Wake | Input::Heard { .. } => {}
            Input::Leads { reign } => {
                let word = Word::Coordinator { reign };
                out.extend(scene.known.iter().map(|to| Output::Send { to: *to, word }));
            }
        }
        self.go_on(scene, &mut out);
        out
    }

    /// When to be woken, if nothing else happens before.
    pub fn next_wake(&self) -> Option<BootTime> {
        match self.state {
            State::Idle => None,
            State::Asked { until } | State::Answered { until } => Some(until),
        }
    }

    fn go_on(&mut self, scene: &Scene, out: &mut Vec<Output>) {
        if !scene.wants_to_lead(STRATEGY) {
            self.state = State::Idle;
            return;
        }
        match self.state {
            State::Asked { until } | State::Answered { until } if scene.now < until => {}
            State::Asked { .. } => {
                self.state = State::Idle;
                out.push(Output::Stand);
            }
            State::Idle | State::Answered { .. } => self.ask(scene, out),
        }
    }

    fn ask(&mut self, scene: &Scene, out: &mut Vec<Output>) {
        let higher = scene.known.iter().filter(|id| STRATEGY.outranks(**id, scene.me));
        let before = out.len();
        out.extend(higher.map(|to| Output::Send { to: *to, word: Word::Election }));
        if out.len() == before {
            self.state = State::Idle;
            out.push(Output::Stand);
        } else {
            self.state = State::Asked { until: scene.now.plus_ms(scene.answer_ms) };
        }
    }
}

/// Only who could lead, or knows who does, answers: an answer keeps the asker from leading.
fn answer(scene: &Scene, to: FleetId, out: &mut Vec<Output>) {
    if let Claim::Leading(reign) = scene.claim {
        out.push(Output::Send { to, word: Word::Coordinator { reign } });
    } else if scene.may_stand || scene.leader.is_some() {
        out.push(Output::Send { to, word: Word::Answer });
    }
}
