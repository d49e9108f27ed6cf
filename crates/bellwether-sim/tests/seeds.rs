//! A handful of seeds on every run of the tests; the program runs as many as it is given time for.

use std::collections::BTreeSet;

use bellwether_sim::run;

/// Each has found something once: in the product, or in an invariant that asked too much.
const ONCE_BROKEN: [u64; 15] =
    [23, 51, 741, 766, 829, 885, 1050, 1196, 1429, 2568, 2664, 2707, 3084, 3757, 4902];

fn check(seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        if let Some(failure) = run(seed, false).failure {
            panic!("seed {seed} broke {failure}");
        }
    }
}

#[test]
fn nothing_is_broken() {
    check(0..40);
}

#[test]
fn what_was_broken_once_is_not_again() {
    check(ONCE_BROKEN);
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..4 {
        let (one, other) = (run(seed, false), run(seed, false));
        assert_eq!((one.digest, one.stats), (other.digest, other.stats), "seed {seed}");
    }
}

#[test]
fn other_seeds_are_other_runs() {
    let digests: BTreeSet<u64> = (0..6).map(|seed| run(seed, false).digest).collect();
    assert_eq!(digests.len(), 6);
}
