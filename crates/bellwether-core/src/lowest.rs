//! The lowest id that is here leads.
//!
//! No words of its own: who is here is known from beats. A member stands when it hears nobody with
//! a lower id. A lower id that comes, or comes back, first follows whoever leads for a while
//! (`hold_ms`) and then takes over.

use crate::fleet::{Input, Output, Scene, Strategy};

/// The rule has no state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lowest;

impl Lowest {
    /// Decides on what is seen; what is said makes no difference.
    pub fn step(&mut self, scene: &Scene, _: Input) -> Vec<Output> {
        let strategy = Strategy::LowestId;
        let is_first = !scene.present.iter().any(|id| strategy.outranks(*id, scene.me));
        if is_first && scene.wants_to_lead(strategy) { vec![Output::Stand] } else { Vec::new() }
    }
}
