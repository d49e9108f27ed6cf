//! What a seed decides before the world begins.

use bellwether_core::settings::{
    Backoff, Durability, Failures, OutagePolicy, QueueSettings, Status,
};

use crate::boundary::queue_name;
use crate::dice::Dice;

/// The world of one seed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The seed.
    pub seed: u64,
    /// How long faults happen.
    pub fault_ms: u64,
    /// Whether clocks run alike enough that two leaders must never trust at once (E5).
    pub clocks_are_sound: bool,
    /// Who takes part.
    pub members: Vec<MemberPlan>,
    /// Queues `q0`, `q1` …
    pub queues: Vec<QueuePlan>,
    /// Elections `e0`, `e1` …
    pub elections: Vec<ElectionPlan>,
    /// Leases that are kept by themselves, named after the elections.
    pub standing: u8,
    /// How packets travel.
    pub network: NetworkPlan,
    /// The server's disk.
    pub disk: DiskPlan,
    /// What goes wrong, and how often.
    pub faults: FaultPlan,
    /// Producers pause while so many messages are on their way.
    pub backlog_max: u64,
    /// Usual size of a body.
    pub body_bytes: u64,
}

/// One member.
#[derive(Clone, Debug)]
pub(crate) struct MemberPlan {
    /// How fast its clock runs.
    pub rate_ppm: u64,
    /// How long it may be silent.
    pub ttl_ms: u64,
    /// Elections it takes part in.
    pub elections: Vec<u8>,
    /// Queues it pumps.
    pub pumps: Vec<u8>,
    /// Session queues it receives from.
    pub sessions: Vec<u8>,
    /// Queues it sends to.
    pub sends: Vec<u8>,
    /// Whether it does an operator's errands.
    pub has_clerk: bool,
    /// Standing leases it wants.
    pub standing: Vec<u8>,
}

/// What is changed of a queue's settings while it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mood {
    /// How long it locks.
    pub lock_ms: u32,
    /// What it allows.
    pub status: Status,
}

impl Mood {
    /// Of these settings.
    pub(crate) fn of(settings: &QueueSettings) -> Self {
        Self { lock_ms: settings.lock_ms, status: settings.status }
    }

    /// As one number.
    pub(crate) fn value(self) -> u64 {
        u64::from(self.lock_ms) * 4 + self.status as u64
    }

    /// The lock duration in such a number.
    pub(crate) fn lock_ms(value: u64) -> u64 {
        value / 4
    }
}

/// One queue.
#[derive(Clone, Debug)]
pub(crate) struct QueuePlan {
    /// How it behaves.
    pub settings: QueueSettings,
}

/// One election.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_field_names, reason = "the unit stands last")]
pub(crate) struct ElectionPlan {
    /// Duration of its lease.
    pub ttl_ms: u64,
    /// How long an ask waits in line.
    pub wait_ms: u64,
    /// How long the work may take to stop.
    pub stop_ms: u64,
}

/// How packets travel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkPlan {
    /// Usual delay of a packet.
    pub delay_us: u64,
    /// Of a thousand, so many are lost.
    pub lost: u64,
    /// Of a thousand, so many come twice.
    pub doubled: u64,
    /// Of a thousand, so many are held up for long.
    pub held_up: u64,
    /// How long those take.
    pub held_up_us: u64,
}

/// The server's disk and how its journal is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskPlan {
    /// Size of a unit.
    pub segment_bytes: u32,
    /// Bytes between snapshots.
    pub snapshot_after_bytes: u64,
    /// Memory for contents; the rest is read from disk.
    pub body_cache_bytes: usize,
    /// Usual length of a flush.
    pub flush_us: u64,
    /// Room on the disk, while faults happen.
    pub capacity_bytes: Option<u64>,
}

/// Usual time between two faults of a kind; `None` for never.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_field_names, reason = "the unit stands last")]
pub(crate) struct FaultPlan {
    /// The server's process is killed.
    pub kill_ms: Option<u64>,
    /// The server loses power.
    pub power_ms: Option<u64>,
    /// The server stands still.
    pub server_pause_ms: Option<u64>,
    /// A call to the disk fails.
    pub disk_ms: Option<u64>,
    /// The server's wall clock jumps.
    pub wall_ms: Option<u64>,
    /// A member dies and another one starts in its place.
    pub member_kill_ms: Option<u64>,
    /// A member stands still.
    pub member_pause_ms: Option<u64>,
    /// A member's packets are lost, one way or both.
    pub partition_ms: Option<u64>,
    /// Somebody asks a leader to step down.
    pub step_down_ms: Option<u64>,
}

impl Plan {
    /// What `seed` decides.
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let fault_ms = dice.between(20_000, 90_000);
        let clocks_are_sound = !dice.percent(12);
        let queues = queues(&mut dice);
        let elections: Vec<ElectionPlan> =
            (0..dice.between(1, 3)).map(|_| election(&mut dice)).collect();
        let standing = dice.below(3) as u8;
        let mut members = members(&mut dice, clocks_are_sound, &queues, elections.len());
        for member in &mut members {
            member.has_clerk = dice.percent(40);
            let leases = elections.len() as u8..elections.len() as u8 + standing;
            member.standing = leases.filter(|_| dice.percent(60)).collect();
        }
        let segment_bytes = dice.pick(&[32 << 10, 32 << 10, 64 << 10]);
        let capacity_bytes =
            dice.percent(20).then(|| u64::from(segment_bytes) * dice.between(6, 24));
        Self {
            seed,
            fault_ms,
            clocks_are_sound,
            members,
            queues,
            elections,
            standing,
            network: network(&mut dice),
            disk: DiskPlan {
                segment_bytes,
                snapshot_after_bytes: u64::from(segment_bytes) * dice.between(1, 4),
                body_cache_bytes: dice.pick(&[1 << 10, 16 << 10, 1 << 20]),
                flush_us: dice.pick(&[200, 1_000, 8_000, 40_000]),
                capacity_bytes,
            },
            faults: faults(&mut dice),
            backlog_max: dice.between(20, 120),
            body_bytes: dice.pick(&[40, 200, 800, 1_500]),
        }
    }
}

fn queues(dice: &mut Dice) -> Vec<QueuePlan> {
    use Durability::{Flushed, Relaxed};
    let count = dice.between(1, 3);
    (0..count)
        .map(|index| {
            let sessions = index > 0 && dice.percent(60);
            let settings = QueueSettings {
                lock_ms: dice.between(400, 6_000) as u32,
                deliveries_max: dice.between(2, 6) as u32,
                failures: failures(dice),
                ttl_ms: dice.percent(15).then(|| dice.between(2_000, 60_000)),
                dead_letter_expired: dice.percent(50),
                durability: dice.pick(&[Flushed, Flushed, Relaxed]),
                duplicate_window_ms: dice.percent(30).then(|| dice.between(5_000, 60_000)),
                sessions,
                size_bytes_max: if dice.percent(10) { 60_000 } else { 1 << 30 },
                message_bytes_max: 64 << 10,
                // Everything moves to the first queue, which is there before the others.
                forward_to: (index > 0 && !sessions && dice.percent(25)).then(|| queue_name(0)),
                forward_dead_letters_to: (index > 0 && dice.percent(20)).then(|| queue_name(0)),
                ..QueueSettings::default()
            };
            QueuePlan { settings }
        })
        .collect()
}

fn failures(dice: &mut Dice) -> Failures {
    let retry = dice.percent(30).then(|| {
        let first_ms = dice.between(1, 500);
        let max_ms = first_ms + dice.below(2_000);
        Backoff { first_ms, max_ms, jitter_percent: dice.below(101) as u32 }
    });
    let outage = dice.percent(40).then(|| {
        let pause_ms_min = dice.between(50, 1_000);
        let pause_ms_max = pause_ms_min + dice.below(2_000);
        OutagePolicy { failures: dice.between(2, 6) as u32, pause_ms_min, pause_ms_max }
    });
    Failures { retry, crashes_max: dice.pick(&[0, 1, 3]), outage }
}

fn election(dice: &mut Dice) -> ElectionPlan {
    let ttl_ms = dice.between(300, 6_000);
    ElectionPlan {
        ttl_ms,
        wait_ms: dice.pick(&[0, ttl_ms, 20_000]),
        stop_ms: dice.between(ttl_ms / 8, ttl_ms),
    }
}

fn members(
    dice: &mut Dice,
    sound: bool,
    queues: &[QueuePlan],
    elections: usize,
) -> Vec<MemberPlan> {
    let count = dice.between(2, 6) as usize;
    let spread_ppm = if dice.percent(20) { 230_000 } else { 100_000 };
    let mut members: Vec<MemberPlan> = (0..count)
        .map(|_| {
            let rate_ppm = if !sound && dice.percent(50) {
                dice.between(400_000, 740_000)
            } else {
                dice.between(1_000_000 - spread_ppm, 1_000_000 + spread_ppm)
            };
            let mut plan = MemberPlan {
                rate_ppm,
                ttl_ms: dice.between(1_000, 20_000),
                elections: Vec::new(),
                pumps: Vec::new(),
                sessions: Vec::new(),
                sends: Vec::new(),
                has_clerk: false,
                standing: Vec::new(),
            };
            for (index, queue) in queues.iter().enumerate() {
                let receives = dice.percent(60);
                match (receives, queue.settings.sessions) {
                    (true, true) => plan.sessions.push(index as u8),
                    (true, false) => plan.pumps.push(index as u8),
                    (false, _) => {}
                }
                if dice.percent(60) {
                    plan.sends.push(index as u8);
                }
            }
            plan.elections = (0..elections as u8).filter(|_| dice.percent(70)).collect();
            plan
        })
        .collect();
    // Nothing may be left without somebody who does it, or the end would prove nothing.
    for (index, queue) in queues.iter().enumerate() {
        let index = index as u8;
        let (one, other) = (dice.below(count as u64) as usize, dice.below(count as u64) as usize);
        let receives = if queue.settings.sessions {
            &mut members[one].sessions
        } else {
            &mut members[one].pumps
        };
        if !receives.contains(&index) {
            receives.push(index);
        }
        if !members[other].sends.contains(&index) {
            members[other].sends.push(index);
        }
    }
    for election in 0..elections as u8 {
        for member in members.iter_mut().take(2) {
            if !member.elections.contains(&election) {
                member.elections.push(election);
            }
        }
    }
    members
}

fn network(dice: &mut Dice) -> NetworkPlan {
    NetworkPlan {
        delay_us: dice.pick(&[300, 2_000, 15_000, 80_000]),
        lost: dice.pick(&[0, 5, 30, 150]),
        doubled: dice.pick(&[0, 5, 50]),
        held_up: dice.pick(&[0, 3, 20]),
        held_up_us: dice.between(500_000, 20_000_000),
    }
}

fn faults(dice: &mut Dice) -> FaultPlan {
    let mut maybe =
        |share: u64, low: u64, high: u64| dice.percent(share).then(|| dice.between(low, high));
    FaultPlan {
        kill_ms: maybe(60, 4_000, 30_000),
        power_ms: maybe(60, 4_000, 30_000),
        server_pause_ms: maybe(40, 5_000, 40_000),
        disk_ms: maybe(30, 4_000, 40_000),
        wall_ms: maybe(15, 5_000, 40_000),
        member_kill_ms: maybe(60, 4_000, 40_000),
        member_pause_ms: maybe(60, 3_000, 30_000),
        partition_ms: maybe(60, 3_000, 30_000),
        step_down_ms: maybe(50, 3_000, 30_000),
    }
}
