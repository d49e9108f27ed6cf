//! Whether a connection that has nothing to do stays awake for what is about to come.
//!
//! To put a core to sleep and to wake it again takes tens of microseconds, more in a virtual machine,
//! and a busy caller is back before that is over: with every answer it has the next ask ready. So
//! who came soon a few times in a row is waited for awake, and a flush that is as short as well. Who
//! takes longer is waited for asleep, and a server that is asked now and then never stays awake.
//!
//! One connection at a time stays awake for all of them, and gives its core to whoever else wants it.

use std::sync::atomic::{AtomicBool, Ordering};

/// So many short rests promise another one, and a long one is worth as many: so somebody who comes
/// now and then, and each time stirs the connection once or twice more, is never waited for.
const SOON_MIN: u32 = 4;
/// Counted at most: whoever goes away is soon forgotten.
const SOON_MAX: u32 = 4 * SOON_MIN;

/// See the module. Times are in microseconds, from any beginning.
#[derive(Debug)]
pub(super) struct Vigil<'a> {
    /// Whether one of all these connections stays awake.
    post: &'a AtomicBool,
    /// This one does.
    is_kept: bool,
    /// A rest that is not longer is short.
    rest_us_max: u64,
    rests_since_us: u64,
    /// How many more short rests there were than long ones.
    soon: u32,
}

impl<'a> Vigil<'a> {
    pub(super) fn new(post: &'a AtomicBool, rest_us_max: u32) -> Self {
        let rest_us_max = rest_us_max.into();
        Self { post, is_kept: false, rest_us_max, rests_since_us: 0, soon: 0 }
    }

    /// Something came or went: the rest is over, and the next one begins.
    pub(super) fn stir(&mut self, now_us: u64) {
        let is_short = now_us - self.rests_since_us <= self.rest_us_max;
        self.soon =
            if is_short { SOON_MAX.min(self.soon + 1) } else { self.soon.saturating_sub(SOON_MIN) };
        self.rests_since_us = now_us;
    }

    /// Whether to look again at once instead of falling asleep.
    pub(super) fn keep(&mut self, now_us: u64) -> bool {
        let is_worth_it = self.rest_us_max > 0
            && self.soon >= SOON_MIN
            && now_us - self.rests_since_us < self.rest_us_max;
        if !is_worth_it {
            self.give_up();
        } else if !self.is_kept {
            self.is_kept = !self.post.swap(true, Ordering::Relaxed);
        }
        self.is_kept
    }

    fn give_up(&mut self) {
        if std::mem::take(&mut self.is_kept) {
            self.post.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for Vigil<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stirs every so often, so many times; when it did last.
    fn stir(vigil: &mut Vigil<'_>, from_us: u64, every_us: u64, times: u64) -> u64 {
        let stirs = (1..=times).map(|nth| from_us + nth * every_us);
        stirs.inspect(|at_us| vigil.stir(*at_us)).last().unwrap_or(from_us)
    }

    #[test]
    fn who_came_soon_a_few_times_is_waited_for_awake_but_not_for_long() {
        let post = AtomicBool::new(false);
        let mut vigil = Vigil::new(&post, 150);
        let now_us = stir(&mut vigil, 0, 100, 3);
        assert!(!vigil.keep(now_us), "three times are not enough");
        let now_us = stir(&mut vigil, now_us, 100, 1);
        assert!(vigil.keep(now_us));
        assert!(vigil.keep(now_us + 149));
        assert!(!vigil.keep(now_us + 150));
        assert!(!post.load(Ordering::Relaxed), "others may");
    }

    #[test]
    fn who_comes_now_and_then_is_never_waited_for_awake() {
        let post = AtomicBool::new(false);
        let mut vigil = Vigil::new(&post, 150);
        let mut now_us = 0;
        for _ in 0..10 {
            // A flush in between, and the answer.
            now_us = stir(&mut vigil, now_us + 1_000, 100, 2);
            assert!(!vigil.keep(now_us));
        }
    }

    #[test]
    fn one_at_a_time_stays_awake_and_lets_another_when_it_ends() {
        let post = AtomicBool::new(false);
        let (mut one, mut other) = (Vigil::new(&post, 150), Vigil::new(&post, 150));
        let now_us = stir(&mut one, 0, 10, SOON_MIN.into());
        stir(&mut other, 0, 10, SOON_MIN.into());
        assert!(one.keep(now_us));
        assert!(!other.keep(now_us));
        drop(one);
        assert!(other.keep(now_us));
    }

    #[test]
    fn zero_is_never() {
        let post = AtomicBool::new(false);
        let mut vigil = Vigil::new(&post, 0);
        let now_us = stir(&mut vigil, 0, 0, 10);
        assert!(!vigil.keep(now_us));
    }
}
