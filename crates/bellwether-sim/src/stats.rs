//! How much happened: what a number of clean seeds is worth.

use std::ops::AddAssign;

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident: $label:literal,)+) => {
        /// Counts of what happened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl AddAssign for Stats {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)+
            }
        }

        impl Stats {
            /// The counts with their labels.
            pub fn lines(&self) -> Vec<(&'static str, u64)> {
                vec![$(($label, self.$name)),+]
            }
        }
    };
}

stats! {
    /// Events of the world.
    events: "events",
    /// Simulated time.
    simulated_ms: "simulated ms",
    /// Processes of the server that were killed.
    kills: "server kills",
    /// Power cuts.
    power_cuts: "power cuts",
    /// Calls to the disk that failed.
    disk_faults: "failed disk calls",
    /// Lives that ended by a fault of the log.
    broken: "lives ended by a failed log",
    /// Recoveries.
    recoveries: "recoveries",
    /// Recoveries that cut a torn tail.
    torn_tails: "torn tails cut",
    /// Recoveries that began with a snapshot.
    from_snapshot: "recoveries from a snapshot",
    /// Snapshots begun.
    jobs: "long jobs",
    /// Steps with a full disk.
    full: "steps on a full disk",
    /// Pauses of the server.
    server_pauses: "server pauses",
    /// Jumps of the wall clock.
    wall_jumps: "wall clock jumps",
    /// Members killed.
    member_kills: "member kills",
    /// Members paused.
    member_pauses: "member pauses",
    /// Members cut off.
    partitions: "partitions",
    /// Packets sent.
    packets: "packets",
    /// Packets lost.
    packets_lost: "packets lost",
    /// Packets that came twice.
    packets_doubled: "packets doubled",
    /// Requests sent again under their number.
    resent: "requests sent again",
    /// Requests given up without an answer.
    unknown: "requests given up",
    /// Waiting requests that were withdrawn.
    withdrawn: "waiting requests withdrawn",
    /// Leases passed on to a named successor who waited.
    handed_over: "leases handed over",
    /// Messages acknowledged.
    sent: "messages acknowledged",
    /// Of these, before they were flushed.
    relaxed: "acknowledged unflushed",
    /// Messages handed out.
    deliveries: "deliveries",
    /// Messages completed.
    completed: "completions",
    /// Settlements refused because the lock was lost.
    locks_lost: "settlements refused as late",
    /// Old tokens shown on purpose.
    ghosts: "old tokens shown on purpose",
    /// Messages received and deleted, or purged.
    removed: "messages removed",
    /// Queues deleted.
    deleted: "queues deleted",
    /// Dead letters sent again.
    redriven: "dead letters sent again",
    /// Members that said goodbye.
    goodbyes: "goodbyes",
    /// Sessions held.
    holds: "session holds",
    /// Leases granted.
    grants: "grants",
    /// Times a member led.
    terms: "terms led",
    /// Writes that the fence let through.
    writes: "fenced writes accepted",
    /// Writes that the fence kept out.
    writes_refused: "fenced writes refused",
    /// Looks of the auditor.
    audits: "audits",
}
